package relay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// doorbell is a real store on disk and what relays it into the stream of a bell.
type doorbell struct {
	*bell
	dir   string
	store *store.Store
}

func (b *bell) doorbell(dir string) *doorbell {
	b.t.Helper()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { s.Close() })
	own := *b
	own.o.Log, own.o.StoreID = s, s.ID()
	d := &doorbell{&own, dir, s}
	err = s.Update(func(tx *store.Tx) error { // its watch has begun
		if _, known := tx.Agency("A100"); known {
			return nil
		}
		return tx.PutAgency("A100", store.Agency{WatchStart: time.Now()})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

// ring appends leads by their numbers, in one commit.
func (d *doorbell) ring(numbers ...int) {
	d.t.Helper()
	err := d.store.Update(func(tx *store.Tx) error {
		for _, n := range numbers {
			if _, err := tx.Append(contactRequest(d.t, "A100", n, "Guten Tag")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func upTo(from, to int) (all []int) {
	for ; from <= to; from++ {
		all = append(all, from)
	}
	return all
}

// publish is a new process that publishes all there is.
func (d *doorbell) publish() {
	d.t.Helper()
	for range 3 {
		if err := d.once(); err != nil {
			d.t.Fatal(err)
		}
	}
}

// once tries again, as Run does, while the server still removes the folder of a stream that was deleted.
func (d *doorbell) once() (err error) {
	d.t.Helper()
	eventually(d.t, "the server makes a stream", func() bool {
		err = d.relay().RunOnce(d.t.Context())
		answer := (*jetstream.APIError)(nil)
		return !errors.As(err, &answer) || answer.ErrorCode != 10049
	})
	return err
}

// copyTo is a backup into another data directory: the same store.
func (d *doorbell) copyTo() (dir string) {
	d.t.Helper()
	dir = d.t.TempDir()
	d.store.Close()
	if err := os.CopyFS(filepath.Join(dir, "x"), os.DirFS(d.dir)); err != nil {
		d.t.Fatal(err)
	}
	again, err := store.Open(store.Options{Dir: d.dir, BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { again.Close() })
	d.store, d.o.Log = again, again
	return filepath.Join(dir, "x")
}

// agree fails unless the stream holds each event of the agency once and with sequences without gaps, these leads among
// them, and the log the same from its first event on.
func (d *doorbell) agree(leads ...int) {
	d.t.Helper()
	log, err := d.store.Read("A100", 0, 1<<30, 1<<30)
	if err != nil {
		d.t.Fatal(err)
	}
	bySequence := map[uint64]string{}
	for i, e := range log {
		bySequence[e.Sequence] = e.ID
		if i > 0 && e.Sequence != log[i-1].Sequence+1 {
			d.t.Errorf("in the log %d follows %d", e.Sequence, log[i-1].Sequence)
		}
	}
	seen, last := map[string]bool{}, uint64(0)
	for _, m := range held(d.t, d.js, "listings.v1.A100.>") {
		e, err := events.Decode(m.Header, m.Data)
		if err != nil {
			continue // a stray
		}
		if seen[e.ID] {
			d.t.Errorf("event %d is there twice", e.Sequence)
		}
		if last != 0 && e.Sequence != last+1 {
			d.t.Errorf("in the stream %d follows %d", e.Sequence, last)
		}
		if len(log) == 0 || e.Sequence >= log[0].Sequence && bySequence[e.Sequence] != e.ID {
			d.t.Errorf("the log has another event %d than the stream", e.Sequence)
		}
		seen[e.ID], last = true, e.Sequence
	}
	if len(log) > 0 && log[len(log)-1].Sequence != last {
		d.t.Errorf("the log ends with %d, the stream with %d", log[len(log)-1].Sequence, last)
	}
	if n, err := d.store.CountUnsent("A100"); n != 0 || err != nil {
		d.t.Errorf("%d are unsent, %v", n, err)
	}
	for _, n := range leads {
		if !seen[contactRequest(d.t, "A100", n, "").ID] {
			d.t.Errorf("lead %d is not in the stream", n)
		}
	}
	if c, _ := d.store.Cursor("A100"); c.Sequence != last {
		d.t.Errorf("the cursor stands at %d of %d", c.Sequence, last)
	}
}

func (d *doorbell) reported() (reasons []string) {
	d.t.Helper()
	log, err := d.store.Read("A100", 0, 1<<30, 1<<30)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range log {
		if p, err := e.Payload(); err == nil && e.StoreID == d.store.ID() {
			if w, ok := p.(*events.WatchStreamRepaired); ok {
				reasons = append(reasons, fmt.Sprintf("%s %d-%d sent %d", w.Reason, w.FromSequence, w.ToSequence, w.SentAgain))
			}
		}
	}
	return reasons
}

func (d *doorbell) wantReported(want ...string) {
	d.t.Helper()
	if got := d.reported(); fmt.Sprint(got) != fmt.Sprint(want) {
		d.t.Errorf("reported %q, want %q", got, want)
	}
}

func TestALostStoreGoesOnWithTheSequencesOfTheStream(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 700)...)
	first.publish()

	second := b.doorbell(t.TempDir())
	second.publish()
	second.ring(700, 3, 701) // two are found again
	second.publish()
	second.agree(upTo(1, 701)...)
	second.wantReported("imported 1-700 sent 0")
}

func TestALostStoreThatBeganWithoutNATSGivesItsEventsOtherSequences(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 700)...)
	first.publish()

	second := b.doorbell(t.TempDir())
	second.ring(upTo(690, 1300)...) // committed before anybody could look
	second.publish()
	second.agree(upTo(1, 1300)...)
	second.wantReported("imported 1-700 sent 0")
}

func TestARestoredBackupTakesOverWhatCameAfterIt(t *testing.T) {
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 10)...)
	first.publish()
	backup := first.copyTo()
	first.ring(upTo(11, 30)...)
	first.publish()

	second := b.doorbell(backup)
	second.publish()
	second.agree(upTo(1, 30)...)
	second.ring(29, 31)
	second.publish()
	second.agree(upTo(1, 31)...)
	second.wantReported("imported 11-30 sent 0")
	second.publish()
	second.wantReported("imported 11-30 sent 0") // once
}

func TestARestoredBackupThatWentItsOwnWayLosesAndDoublesNothing(t *testing.T) {
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 10)...)
	first.publish()
	first.ring(11, 12) // wait in the backup, and were published after it
	backup := first.copyTo()
	first.ring(upTo(13, 30)...)
	first.publish()

	second := b.doorbell(backup)
	second.ring(40, 15, 41, 30, 42)
	second.publish()
	second.agree(append(upTo(1, 30), 40, 41, 42)...)
	second.wantReported("imported 13-30 sent 0")
}

func TestAVeryOldBackupStepsOverWhatTheStreamHasForgotten(t *testing.T) {
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 10)...)
	first.publish()
	backup := first.copyTo()
	first.ring(upTo(11, 30)...)
	first.publish()
	if err := b.stream().Purge(t.Context(), jetstream.WithPurgeSequence(21)); err != nil {
		t.Fatal(err)
	}
	if err := b.stream().SecureDeleteMsg(t.Context(), 25); err != nil {
		t.Fatal(err)
	}
	second := b.doorbell(backup)
	second.ring(28, 31)
	second.publish()
	if last, _ := second.store.Last("A100"); last != 32 { // 31 and the report
		t.Errorf("the log ends with %d", last)
	}
	second.wantReported("imported 21-30 sent 0")
	ids := map[string]int{}
	for _, m := range held(t, b.js, "listings.v1.A100.>") {
		ids[m.Header.Get("ce-id")]++
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	if len(ids) != 11 {
		t.Errorf("%d events in the stream", len(ids))
	}
}

func TestARestoredBackupAndARecreatedStreamAtOnce(t *testing.T) {
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 10)...)
	first.publish()
	backup := first.copyTo()
	first.ring(upTo(11, 20)...)
	first.publish()
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	first.publish() // all again, and the report
	second := b.doorbell(backup)
	second.ring(20, 21)
	second.publish()
	second.agree(upTo(1, 21)...)
}

// flaky is a log whose imports fail after so many.
type flaky struct {
	*store.Store
	left atomic.Int32
}

var errFlaky = errors.New("input/output error")

func (f *flaky) Import(agency string, list []events.Event, c events.Cursor) error {
	if f.left.Add(-1) < 0 {
		return errFlaky
	}
	return f.Store.Import(agency, list, c)
}

func TestAnImportThatIsInterruptedGoesOn(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 1000)...)
	first.publish()
	second := b.doorbell(t.TempDir())
	for n := range int32(5) {
		log := &flaky{Store: second.store}
		log.left.Store(n % 2)
		second.o.Log = log
		if err := second.relay().RunOnce(t.Context()); !errors.Is(err, ErrLog) && n < 4 {
			t.Fatalf("round %d: %v", n, err)
		}
		second.ring(2000+int(n), 999) // the poller goes on
	}
	second.o.Log = second.store
	second.publish()
	second.agree(append(upTo(1, 1000), upTo(2000, 2004)...)...)
}

func TestThePollerWritesWhileTheStreamIsTakenOver(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 800)...)
	first.publish()
	second := b.doorbell(t.TempDir())
	stop := second.start(second.relay())
	for n := range 40 {
		second.ring(801+n, 1+n*19)
	}
	eventually(t, "published", func() bool {
		n, _ := second.store.CountUnsent("A100")
		last, _ := second.store.Last("A100")
		return n == 0 && last >= 840
	})
	stop()
	second.publish()
	second.agree(upTo(1, 840)...)
}

func TestTwoDoorbellsOfOneAgencyAgreeAndKeepQuiet(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 5)...)
	first.publish()
	second := b.doorbell(first.copyTo())
	for n := range 10 {
		first.ring(10+2*n, 11+2*n)
		second.ring(11+2*n, 10+2*n)
		first.publish()
		second.publish()
	}
	for range 5 { // nothing new: they must not answer each other's reports for ever
		first.publish()
		second.publish()
	}
	before := len(held(t, b.js, "listings.v1.A100.>"))
	for range 3 {
		first.publish()
		second.publish()
	}
	first.publish()
	if n := len(held(t, b.js, "listings.v1.A100.>")); n != before {
		t.Errorf("%d messages about nothing", n-before)
	}
	first.agree(upTo(10, 29)...)
	second.agree(upTo(10, 29)...)
}

func TestTwoDoorbellsAtOnceAgree(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(1)
	first.publish()
	second := b.doorbell(t.TempDir())
	nc := b.connect()
	second.o.Conn = nc
	first.o.BatchEvents, second.o.BatchEvents = 3, 5
	stopFirst, stopSecond := first.start(first.relay()), second.start(second.relay())
	for n := range 60 {
		first.ring(10 + n)
		second.ring(10+(n*7)%61, 200+n)
	}
	done := func(d *doorbell) bool {
		n, _ := d.store.CountUnsent("A100")
		return n == 0
	}
	eventually(t, "published", func() bool { return done(first) && done(second) })
	stopFirst()
	stopSecond()
	for range 2 {
		first.publish()
		second.publish()
	}
	first.publish()
	want := append(upTo(10, 69), upTo(200, 259)...)
	first.agree(want...)
	second.agree(want...)
}

func TestWhatIsNoEventOfTheAgencyIsNotTakenOver(t *testing.T) {
	b := newBell(t)
	d := b.doorbell(t.TempDir())
	d.ring(1)
	d.publish()
	genuine := contactRequest(t, "A100", 50, "Guten Tag").Stamp(2, time.Now(), "another").WithSequence(2)
	for i, forge := range []func(e *events.Event, m *nats.Msg){
		func(_ *events.Event, m *nats.Msg) { m.Subject = "listings.v1.A100.insertion.changed" },
		func(_ *events.Event, m *nats.Msg) { m.Subject = "listings.v1.A100.test" },
		func(_ *events.Event, m *nats.Msg) { m.Header.Set("ce-sequence", "99999999999999999999") },
		func(_ *events.Event, m *nats.Msg) { m.Header.Set("ce-sequence", fmt.Sprintf("%020d", uint64(1)<<62+1)) },
		func(_ *events.Event, m *nats.Msg) { m.Header.Set("ce-sequence", "2") },
		func(_ *events.Event, m *nats.Msg) { m.Header["ce-storeid"] = nil },
		func(_ *events.Event, m *nats.Msg) { m.Header.Set("ce-id", "else") },
		func(_ *events.Event, m *nats.Msg) { m.Header.Set("ce-type", "insertion.appeared") },
		func(_ *events.Event, m *nats.Msg) { m.Data = []byte(`{"agencyId":"B200","origin":"live"}`) },
		func(_ *events.Event, m *nats.Msg) { m.Data = []byte(`{"agencyId":"A100","origin":"replay"}`) },
		func(_ *events.Event, m *nats.Msg) { m.Data = []byte(`nonsense`) },
	} {
		e := genuine
		e.ID = fmt.Sprint("forged", i)
		m := d.relay().message(e, 1<<20, false)
		forge(&e, m)
		if _, err := b.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	d.ring(2)
	d.publish()
	log, err := d.store.Read("A100", 0, 100, 1<<20)
	if err != nil || len(log) != 3 { // and the report
		t.Fatalf("%d events in the log, %v", len(log), err)
	}
	d.wantReported("foreign_message 1-1 sent 0")
}

// TestTwoStoresThatHaveBothPublishedUnderOneSequence: an older doorbell counted from 1 beside another one's events.
func TestTwoStoresThatHaveBothPublishedUnderOneSequence(t *testing.T) {
	b := newBell(t)
	d := b.doorbell(t.TempDir())
	d.ring(upTo(1, 5)...)
	d.publish()
	for n := 1; n <= 3; n++ {
		m := d.relay().message(contactRequest(t, "A100", 100+n, "Guten Tag").Stamp(uint64(n), time.Now(), "another").WithSequence(uint64(n)), 1<<20, false)
		if _, err := b.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	d.publish()
	d.ring(101, 102, 103, 6)
	d.publish()
	times := map[string]int{}
	for _, m := range held(t, b.js, "listings.v1.A100.contact_request.created") {
		times[m.Header.Get("ce-id")]++
	}
	if len(times) != 9 {
		t.Errorf("%d leads in the stream, want 9", len(times))
	}
	for id, n := range times {
		if n != 1 {
			t.Errorf("%s stands %d times", id, n)
		}
	}
}

func TestATakeoverThatCannotBeCommittedEndsTheRelayAlsoWhereTheNextMessageDoesNotCome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, s := newCutBell(t)
		b.log.ring(t, "A100", 2)
		b.deliver()
		older := b.log.copyOf()
		b.log.ring(t, "A100", 2)
		b.deliver()
		older.breakCommits()
		b.o.Log = older
		s.at, s.hole = `{"seq":4,"next_by_subj"`, true
		if err := b.relay().Run(t.Context()); !errors.Is(err, ErrLog) {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestARestoredBackupKnowsWhatWasSentAgainBehindLaterEvents: what stands late in the stream was told too, also by an earlier life of
// the same store.
func TestARestoredBackupKnowsWhatWasSentAgainBehindLaterEvents(t *testing.T) {
	for name, before := range map[string]int{"from before the first event": 0, "from the middle": 10} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBell(t)
				first := b.doorbell(t.TempDir())
				first.ring(upTo(1, before)...)
				first.publish()
				backup := first.copyTo()
				first.ring(upTo(before+1, 20)...)
				first.publish()
				b.erase(15)
				time.Sleep(3 * time.Minute)
				if sent, err := first.relay().Resend(t.Context(), "A100"); err != nil || sent != 1 {
					t.Fatalf("%d sent again, %v", sent, err)
				}
				first.publish()
				time.Sleep(3 * time.Minute) // the server forgets the ids

				second := b.doorbell(backup)
				second.publish()
				second.ring(upTo(before+1, 21)...) // found again
				second.publish()
				second.wantOnce(upTo(1, 21)...)
			})
		})
	}
}
