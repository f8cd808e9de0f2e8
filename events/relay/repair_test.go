package relay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/natsd"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func (b *bell) stream() jetstream.Stream {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), "LISTINGS")
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// stray publishes what no relay of ours would.
func (b *bell) stray(subject string) {
	b.t.Helper()
	if _, err := b.js.Publish(b.t.Context(), subject, []byte("hi")); err != nil {
		b.t.Fatal(err)
	}
}

// resent counts the messages of an agency that are marked as sent again.
func (b *bell) resent(agency string) (n int) {
	b.t.Helper()
	for _, m := range held(b.t, b.js, events.AgencyFilter("listings", agency)) {
		if m.Header.Get(events.ResentHeader) == "1" {
			n++
		}
	}
	return n
}

func TestASecondRelayIsFencedOutAndDoublesNothing(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 5)
	first := b.relay()
	if err := first.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.log.ring(t, "A100", 4)
	twin := newBellOn(b, b.log.copyOf())
	second := twin.relay()
	if err := first.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, twin.log, "A100", 0)
}

func newBellOn(b *bell, log *memLog) *bell {
	twin := *b
	twin.log, twin.o.Log = log, log
	twin.o.Conn = b.connect()
	return &twin
}

func TestTwoRelaysAtOnceDoubleNothing(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	b.log.ring(t, "A100", 300)
	twin := newBellOn(b, b.log.copyOf())
	b.o.BatchEvents, twin.o.BatchEvents = 7, 11
	stopFirst, stopSecond := b.start(b.relay()), twin.start(twin.relay())
	eventually(t, "both done", func() bool { return b.published("A100") && twin.published("A100") })
	stopFirst()
	stopSecond()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, twin.log, "A100", 0)
}

func TestAStrayBeforeOurFirstEventIsSteppedOver(t *testing.T) {
	b := newBell(t)
	if _, err := b.js.CreateStream(t.Context(), b.o.StreamConfig()); err != nil {
		t.Fatal(err)
	}
	b.stray("listings.v1.A100.test")
	b.log.ring(t, "A100", 1)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100", "foreign_message 0-0 sent 0")
}

func TestAStrayAfterOurEventsIsSteppedOver(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 3)
	r := b.relay()
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.stray("listings.v1.A100.test")
	b.stray("listings.v1.A100.test")
	b.log.ring(t, "A100", 2)
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.settled()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100", "foreign_message 3-3 sent 0")
	if s := r.Status().Agencies[0]; s.Foreign != 2 {
		t.Fatalf("%d strays counted", s.Foreign)
	}
	b.deliver() // nothing new to find
	b.wantRepairs("A100", "foreign_message 3-3 sent 0")
}

func TestAStrayThatIsLookedAtTwiceIsCountedOnce(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 1)
	r := b.relay()
	for i := range 4 { // the first is reported, so that the cursor moves past it; the second waits for its report
		if i < 2 {
			if err := r.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.stray("listings.v1.A100.test")
		}
		if err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.wantRepairs("A100", "foreign_message 1-1 sent 0")
	if s := r.Status().Agencies[0]; s.Foreign != 2 {
		t.Fatalf("%d strays counted", s.Foreign)
	}
}

func TestAMessageThatOnlyLooksLikeOursIsAStray(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 2)
	b.deliver()
	b.log.ring(t, "A100", 1)
	forged := b.log.list("A100")[2]
	forged.StoreID = "another store"
	m := b.relay().message(forged, 1<<20, false)
	m.Subject = "listings.v1.A100.insertion.changed" // no event of its type
	if _, err := b.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	c, _ := b.log.Cursor("A100")
	if err := b.relay().RunOnce(t.Context()); err == nil {
		// Within the duplicate window the id itself is refused: the event waits, and is not taken as published.
		t.Fatal("the event was published beside its forgery")
	}
	if now, _ := b.log.Cursor("A100"); now != c {
		t.Fatal("the cursor moved over a message that is no event")
	}
}

func TestADeletedStreamIsMadeAgainFromTheLog(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 30)
	b.log.ring(t, "B200", 10)
	stop := b.start(b.relay())
	eventually(t, "all published", func() bool { return b.published("A100") && b.published("B200") })
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	b.log.ring(t, "A100", 1)
	eventually(t, "all published again", func() bool {
		return b.published("A100") && b.published("B200") && len(b.repairs("A100")) == 1 && len(b.repairs("B200")) == 1
	})
	stop()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, b.log, "B200", 0)
	b.wantRepairs("A100", "recreated 1-30 sent 30")
	b.wantRepairs("B200", "recreated 1-10 sent 10")
	if n := b.resent("A100"); n != 30 {
		t.Fatalf("%d messages are marked as sent again", n)
	}
}

func TestWhatARecreatedStreamWouldHaveForgottenIsNotSentAgain(t *testing.T) {
	b := newBell(t)
	b.o.MaxAge = time.Hour
	b.log.ringAt(t, "A100", 5, time.Now().Add(-2*time.Hour))
	b.log.ring(t, "A100", 3)
	b.log.ringAt(t, "B200", 2, time.Now().Add(-2*time.Hour))
	b.deliver()
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 5)
	b.wantRepairs("A100", "recreated 6-8 sent 3")
	exactlyOnce(t, b.js, b.log, "B200", 2) // only the report
	b.deliver()
	b.log.ring(t, "B200", 1)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "B200", 2)
	b.wantRepairs("B200", "recreated 1-2 sent 0")
}

// backup copies the server's folder while it is down, and returns how to bring the copy back.
func (b *bell) backup(folder string) (restore func()) {
	b.t.Helper()
	saved := filepath.Join(b.t.TempDir(), "copy")
	b.whileDown(func() error { return os.CopyFS(saved, os.DirFS(folder)) })
	return func() {
		b.t.Helper()
		b.whileDown(func() error {
			if err := os.RemoveAll(folder); err != nil {
				return err
			}
			return os.CopyFS(folder, os.DirFS(saved))
		})
	}
}

func (b *bell) whileDown(do func() error) {
	b.t.Helper()
	b.server.Shutdown()
	eventually(b.t, "the end noticed", func() bool { return !b.nc.IsConnected() })
	if err := do(); err != nil {
		b.t.Fatal(err)
	}
	if err := b.server.Restart(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	eventually(b.t, "connected again", func() bool { return b.nc.IsConnected() })
}

func newFolderBell(t testing.TB) (b *bell, folder string) {
	folder = filepath.Join(t.TempDir(), "jetstream")
	b = newBell(t, func(o *natsd.Options) { o.StoreDir = folder })
	b.nc = b.connect(nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	b.o.Conn = b.nc
	b.js, _ = jetstream.New(b.nc)
	return b, folder
}

func TestALostTailIsSentAgainOnce(t *testing.T) {
	b, folder := newFolderBell(t)
	b.log.ring(t, "A100", 10)
	b.log.ring(t, "B200", 4)
	b.deliver()
	restore := b.backup(folder)
	b.log.ring(t, "A100", 15)
	b.deliver()
	restore()
	if n := len(held(t, b.js, "listings.v1.>")); n != 14 {
		t.Fatalf("the restored stream holds %d messages", n)
	}
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, b.log, "B200", 0)
	b.wantRepairs("A100", "tail_lost 11-25 sent 15")
	b.wantRepairs("B200")
	if n := b.resent("A100"); n != 15 {
		t.Fatalf("%d messages are marked as sent again", n)
	}
	b.deliver()
	b.wantRepairs("A100", "tail_lost 11-25 sent 15")
}

func TestALostTailIsFoundAlsoWhereOthersHaveTakenItsPlace(t *testing.T) {
	b, folder := newFolderBell(t)
	b.log.ring(t, "A100", 3)
	b.deliver()
	restore := b.backup(folder)
	b.log.ring(t, "A100", 5)
	b.deliver()
	restore()
	for range 20 { // the stream is longer than before, and another agency stands where A100 did
		b.stray("listings.v1.Z900.test")
	}
	b.log.ring(t, "A100", 2)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100", "tail_lost 4-8 sent 5")
}

func TestALostTailBehindAStrayIsFound(t *testing.T) {
	b, folder := newFolderBell(t)
	b.log.ring(t, "A100", 3)
	b.deliver()
	restore := b.backup(folder)
	b.log.ring(t, "A100", 5)
	b.deliver()
	restore()
	b.stray("listings.v1.A100.test")
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100", "tail_lost 4-8 sent 5", "foreign_message 8-8 sent 0")
}

// makeAnew puts an empty stream in the place of the one that is there, whose files the server may still be about to delete.
func (b *bell) makeAnew() {
	b.t.Helper()
	if err := b.js.DeleteStream(b.t.Context(), "LISTINGS"); err != nil {
		b.t.Fatal(err)
	}
	eventually(b.t, "a new stream", func() bool {
		_, err := b.js.CreateStream(b.t.Context(), b.o.StreamConfig())
		return err == nil
	})
}

func TestARepairThatIsInterruptedGoesOn(t *testing.T) {
	b := newBell(t)
	b.o.BatchEvents = 4
	b.log.ring(t, "A100", 20)
	b.deliver()
	b.makeAnew()
	// Half of it is there already, from a process that ended in between.
	r := b.relay()
	for _, e := range b.log.list("A100")[:9] {
		if _, err := b.js.PublishMsg(t.Context(), r.message(e, 1<<20, true)); err != nil {
			t.Fatal(err)
		}
	}
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100", "recreated 10-20 sent 11")
}

func TestAnErasedMessageIsNotSentAgain(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 6)
	b.deliver()
	c, _ := b.log.Cursor("A100")
	for _, sequence := range []uint64{c.StreamSequence, c.StreamSequence - 1} {
		if err := b.stream().SecureDeleteMsg(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
	}
	b.deliver()
	if n := len(held(t, b.js, "listings.v1.A100.>")); n != 4 {
		t.Fatalf("%d messages after an erasure of two of six", n)
	}
	b.log.ring(t, "A100", 2)
	b.deliver()
	if n := len(held(t, b.js, "listings.v1.A100.>")); n != 6 {
		t.Fatalf("%d messages, want the four that are left and two new ones", n)
	}
	b.wantRepairs("A100")
}

func TestAfterAPurgeOnlyNewEventsAreSent(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 6)
	b.deliver()
	if err := b.stream().Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.log.ring(t, "A100", 2)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 6)
	b.wantRepairs("A100")
}

func TestAQuietAgencyWhoseEventsExpiredGoesOn(t *testing.T) {
	b := newBell(t)
	b.o.MaxAge = 300 * time.Millisecond
	r := b.relay()
	b.log.ring(t, "A100", 3)
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "expired", func() bool { return len(held(t, b.js, "listings.v1.A100.>")) == 0 })
	b.log.ring(t, "A100", 1)
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, _ := b.log.Cursor("A100")
	if c.Sequence != 4 || c.StreamSequence != 4 {
		t.Fatalf("cursor %+v", c)
	}
	b.wantRepairs("A100")
}

func TestWhatAnotherStoreHasPublishedIsNotSentAgain(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 5)
	b.deliver()

	// The store was lost; a new one finds the same contact requests, in another order, and further ones.
	b.log = newMemLog()
	b.log.storeID = "s2"
	b.o.Log, b.o.StoreID = b.log, "s2"
	for _, number := range []int{6, 3, 1, 7, 2, 4, 5, 8} {
		b.log.mu.Lock()
		b.log.add(contactRequest(t, "A100", number, "Guten Tag"), time.Now())
		b.log.mu.Unlock()
	}
	b.deliver()
	b.log.ring(t, "A100", 1)
	b.deliver()

	times := map[string]int{}
	for _, m := range held(t, b.js, "listings.v1.A100.contact_request.created") {
		times[m.Header.Get("ce-id")]++
	}
	for id, n := range times {
		if n != 1 {
			t.Errorf("%s stands %d times", id, n)
		}
	}
	if len(times) != 9 {
		t.Errorf("%d contact requests in the stream, want 9", len(times))
	}
}

func TestWithALostTailNothingOlderIsSentAgainOrCountedAgain(t *testing.T) {
	b, folder := newFolderBell(t)
	r := b.relay()
	publish := func(n int) {
		t.Helper()
		b.log.ring(t, "A100", n)
		if err := r.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	publish(6)
	b.erase(2)
	b.stray("listings.v1.A100.test")
	publish(1) // refused first, because the stray came in between
	restore := b.backup(folder)
	publish(4)
	restore()
	publish(1)
	if n := b.resent("A100"); n != 4 {
		t.Errorf("%d messages are sent again", n)
	}
	if s := r.Status().Agencies[0]; s.Foreign != 1 {
		t.Errorf("%d strays counted", s.Foreign)
	}
	b.wantRepairs("A100", "foreign_message 6-6 sent 0", "tail_lost 9-12 sent 4")
}

func TestALossIsMendedAlsoWhereNoConsumerCanBeMade(t *testing.T) {
	b := newBell(t)
	b.o.Embedded = false // as on a server of others
	b.log.ring(t, "A100", 10)
	b.deliver()
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	want := b.o.StreamConfig()
	want.MaxConsumers = 1 // of the operator, and taken by somebody
	eventually(t, "a new stream", func() bool {
		_, err := b.js.CreateStream(t.Context(), want)
		return err == nil
	})
	if _, err := b.js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm"}); err != nil {
		t.Fatal(err)
	}
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100", "recreated 1-10 sent 10")
}

// ending is a log whose process ends before anything is published.
type ending struct {
	*memLog
	ends bool
}

func (l *ending) Unsent(agency string, maxEvents, maxBytes int) ([]events.Event, error) {
	if l.ends {
		return nil, errors.New("the end")
	}
	return l.memLog.Unsent(agency, maxEvents, maxBytes)
}

func TestATailThatIsLostAgainBeforeTheReportIsSentAgain(t *testing.T) {
	b, folder := newFolderBell(t)
	b.log.ring(t, "A100", 10)
	b.deliver()
	restore := b.backup(folder)
	b.log.ring(t, "A100", 5)
	b.deliver()
	restore()
	log := &ending{b.log, true}
	b.o.Log = log
	if err := b.relay().RunOnce(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("%v", err)
	}
	b.wantRepairs("A100", "tail_lost 11-15 sent 5")
	restore()
	log.ends = false
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
}
