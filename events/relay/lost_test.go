package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/natsd"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func newFolderBell(t testing.TB) (b *bell, folder string) {
	folder = filepath.Join(t.TempDir(), "jetstream")
	b = newBell(t, func(o *natsd.Options) { o.StoreDir = folder })
	b.nc = b.connect(nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	b.o.Conn.Conn = b.nc
	b.js, _ = jetstream.New(b.nc)
	return b, folder
}

// newBellOn is a second doorbell at the server of the first.
func newBellOn(b *bell, log *eventLog) *bell {
	twin := *b
	twin.log, twin.o.Log, twin.o.StoreID = log, log, log.ID()
	twin.o.Conn.Conn = b.connect()
	return &twin
}

func (b *bell) whileDown(do func() error) {
	b.t.Helper()
	b.server.Shutdown()
	eventually(b.t, "the end noticed", func() bool { return !b.nc.IsConnected() })
	must(b.t, do())
	must(b.t, b.server.Restart(context.Background()))
	eventually(b.t, "connected again", func() bool { return b.nc.IsConnected() })
}

// backup copies the folder of the server, and returns what puts the copy back.
func (b *bell) backup(folder string) (restore func()) {
	b.t.Helper()
	saved := filepath.Join(b.t.TempDir(), "copy")
	b.whileDown(func() error { return os.CopyFS(saved, os.DirFS(folder)) })
	return func() {
		b.t.Helper()
		b.whileDown(func() error { return errors.Join(os.RemoveAll(folder), os.CopyFS(folder, os.DirFS(saved))) })
	}
}

func (b *bell) makeAnew() {
	b.t.Helper()
	must(b.t, b.js.DeleteStream(b.t.Context(), "LISTINGS"))
	eventually(b.t, "a new stream", func() bool {
		_, err := b.js.CreateStream(b.t.Context(), b.o.StreamConfig())
		return err == nil
	})
}

func TestARecreatedStreamIsFilledFromTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		strays  int  // messages of others, which are purged again
		embeds  bool // the server is ours
		running bool // the relay continues, and learns of it from an acknowledgement
	}{
		"between two events": {embeds: true, running: true},
		"and purged":         {strays: 10}, // as far as the last acknowledged message
	} {
		t.Run(name, func(t *testing.T) {
			b := newBell(t)
			b.o.Embedded = c.embeds
			b.log.ring(t, "A100", 10)
			r := b.relay()
			must(t, r.RunOnce(t.Context()))
			b.makeAnew()
			for range c.strays {
				b.stray("listings.v1.A100.test")
			}
			must(t, b.stream().Purge(t.Context()))
			b.log.ring(t, "A100", 2)
			if !c.running {
				r = b.relay()
			}
			must(t, r.RunOnce(t.Context()))
			exactlyOnce(t, b.js, b.log, "A100", 0)
			if n := b.resent(); n != 10 {
				t.Errorf("%d are marked as offered again", n)
			}
		})
	}
}

func TestALostTailIsOfferedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		behind          int // messages of another doorbell behind the lost tail
		embeds, running bool
	}{
		"at the next start":                       {embeds: true},
		"where another doorbell filled a part":    {behind: 3, embeds: true},
		"where another doorbell filled the gap":   {behind: 12, embeds: true},
		"behind a reconnect, nothing failed then": {behind: 12, running: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, folder := newFolderBell(t)
			b.o.Embedded = c.embeds
			b.log.ring(t, "A100", 5)
			b.deliver()
			restore := b.backup(folder)
			b.log.ring(t, "A100", 8)
			r := b.relay()
			must(t, r.RunOnce(t.Context()))
			restore()
			other := newLog(t)
			other.ring(t, "B200", c.behind)
			newBellOn(b, other).deliver()
			b.log.ring(t, "A100", 1)
			if !c.running {
				r = b.relay()
			}
			must(t, r.RunOnce(t.Context()))
			exactlyOnce(t, b.js, b.log, "A100", 0)
			exactlyOnce(t, b.js, other, "B200", 0)
			b.deliver()
			if n := b.resent(); n != 8 {
				t.Errorf("%d are marked as offered again", n)
			}
		})
	}
}

func TestMessagesThatWerePurgedOrDeletedStayGone(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 6)
	b.deliver()
	s := b.stream()
	must(t, s.DeleteMsg(t.Context(), 6))
	b.log.ring(t, "A100", 1)
	b.deliver()
	if got := held(t, b.js, ">"); len(got) != 6 {
		t.Errorf("%d messages, 1 of 7 was deleted", len(got))
	}
	must(t, s.Purge(t.Context()))
	b.log.ring(t, "A100", 2)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 7)
}

func TestWhatIsAboutToLeaveTheWindowIsNotOfferedAgain(t *testing.T) {
	b := newBell(t)
	b.o.MaxAge = 30 * 24 * time.Hour
	b.log.ringAt(t, "A100", 3, time.Now().Add(-30*24*time.Hour+30*time.Minute))
	b.log.ringAt(t, "A100", 2, time.Now().Add(-30*24*time.Hour+2*time.Hour))
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0) // what was never acknowledged is offered, however old it is
	b.makeAnew()
	b.log.ring(t, "A100", 1)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 3)
}

// TestWhatMayHaveBeenSentBeforeTheWindowIsLookedFor: the cursor was not written, or restored, and the process was down for days.
func TestWhatMayHaveBeenSentBeforeTheWindowIsLookedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		b.o.Embedded, b.o.MaxAge = false, 30*24*time.Hour
		c := b.o.StreamConfig()
		c.Duplicates = 72 * time.Hour
		if _, err := b.js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		b.log.ring(t, "A100", 3)
		b.deliver()
		b.log.ring(t, "A100", 3)
		saved := b.log.backup()
		b.deliver()
		b.log.setBack(saved)
		time.Sleep(100 * time.Hour)
		b.log.ring(t, "A100", 1)
		b.deliver()
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}

func TestALogThatWasSetBackContinuesBehindItsFormerPositions(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 5)
	b.deliver()
	backup := b.log.backup()
	b.log.ring(t, "A100", 5)
	b.deliver()
	b.log.setBack(backup)
	var setBack []string
	b.o.SetBack = func(agency string) error {
		setBack = append(setBack, agency)
		return nil
	}
	r := b.relay()
	must(t, r.RunOnce(t.Context()))
	if !slices.Equal(setBack, []string{"A100"}) {
		t.Errorf("set back: %v", setBack)
	}
	b.log.ring(t, "A100", 7) // five of them again, and two that are new
	if all := b.log.list("A100"); all[5].Sequence != 11 {
		t.Errorf("the log continues with position %d", all[5].Sequence)
	}
	must(t, r.RunOnce(t.Context()))
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

// redacted is an event that erases the first contact request of A100.
func redacted(t *testing.T) events.Event {
	t.Helper()
	e, err := events.New(&events.ContactRequestRedacted{
		Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: "seefeld#1#H2#", ContactRequestID: "A100-1",
		Identity: events.IdentityID, RedactedFields: []string{"email"}, Revision: 1,
	})
	must(t, err)
	return e
}

func TestASetBackLogAndALostStoreLearnWhomTheStreamHasRedacted(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 2)
	b.deliver()
	backup := b.log.backup()
	b.log.append(redacted(t))
	b.deliver()
	var got []string
	b.o.Redacted = func(agency string, list []events.Event) error {
		for _, e := range list {
			got = append(got, agency+" "+e.Reference)
		}
		return nil
	}
	b.deliver()
	if got != nil {
		t.Errorf("from a log that has the redaction: %v", got)
	}
	b.log.setBack(backup)
	b.deliver()
	first := b.log.list("A100")[0]
	b.log.setBack(nil)
	b.o.StoreID = b.log.ID()
	since, err := b.relay().WatchedSince(t.Context(), "A100")
	if err != nil || !since.Equal(first.RecordedTime) {
		t.Errorf("watched since %s, %v", since, err)
	}
	if want := []string{"A100 seefeld#1#H2#", "A100 seefeld#1#H2#"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestASetBackLogThatCouldNotEraseTriesAgain: positions that are reserved already hide that it was set back.
func TestASetBackLogThatCouldNotEraseTriesAgain(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 2)
	backup := b.log.backup()
	b.log.append(redacted(t))
	b.deliver()
	b.log.setBack(backup)
	tries := 0
	b.o.Redacted = func(string, []events.Event) error {
		if tries++; tries == 1 {
			return errors.New("commit: input/output error")
		}
		return nil
	}
	if err := b.relay().RunOnce(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatal(err)
	}
	b.deliver()
	b.log.ring(t, "A100", 1)
	b.deliver()
	if all := b.log.list("A100"); tries != 2 || all[2].Sequence != 4 {
		t.Errorf("tried %d times; the log continues with position %d", tries, all[2].Sequence)
	}
}

func TestAStoreThatNeverWatchedAnAgencyAsksSinceWhen(t *testing.T) {
	b := newBell(t)
	r := b.relay()
	since := func() time.Time {
		t.Helper()
		at, err := r.WatchedSince(t.Context(), "A100")
		must(t, err)
		return at
	}
	if at := since(); !at.IsZero() {
		t.Errorf("of an agency without a message: %s", at)
	}
	now := time.Now()
	gone, err := events.New(&events.WatchStale{Common: events.Common{AgencyID: "A100", ObservedAt: now}})
	must(t, err)
	b.log.ringAt(t, "B200", 1, now.Add(-9*24*time.Hour))
	b.log.at = now.Add(-8 * 24 * time.Hour)
	b.log.append(gone)
	must(t, r.RunOnce(t.Context()))
	if at := since(); now.Sub(at).Round(time.Hour) != 8*24*time.Hour {
		t.Errorf("without a contact request: %s ago", now.Sub(at))
	}
	b.log.ringAt(t, "A100", 1, now.Add(-time.Hour))
	must(t, r.RunOnce(t.Context()))
	if at := since(); now.Sub(at).Round(time.Hour) != 49*time.Hour {
		t.Errorf("with one: %s ago", now.Sub(at))
	}
}

func TestASecondDoorbellIsWarnedAboutAndDoublesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		other := newLog(t)
		twin := newBellOn(b, other)
		first, second := b.relay(), twin.relay()
		stopFirst, stopSecond := b.start(first), twin.start(second)
		for range 5 {
			b.log.ring(t, "A100", 4)
			other.ring(t, "A100", 4)
			time.Sleep(2 * time.Minute)
		}
		stopFirst()
		stopSecond()
		if len(first.Status().Rivals)+len(second.Status().Rivals) == 0 {
			t.Error("neither was warned")
		}
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}

// TestWhateverHappensTheStreamHoldsEachEventOnce deletes the stream, restarts the server, sets the log back and lets a second
// doorbell publish the same contact requests.
func TestWhateverHappensTheStreamHoldsEachEventOnce(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b, folder := newFolderBell(t)
	other := newLog(t)
	twin := newBellOn(b, other)
	stop, stopTwin := b.start(b.relay()), twin.start(twin.relay())
	agencies := []string{"A100", "B200"}
	count := map[string]int{}
	for range 10 * *rounds {
		backup := b.log.backup()
		for _, a := range agencies {
			n := random.IntN(30)
			b.log.ring(t, a, n)
			other.ring(t, a, n)
		}
		switch what := random.IntN(5); what {
		case 0:
			if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
				t.Logf("delete: %v", err)
			}
			count["deleted"]++
		case 1:
			b.whileDown(func() error { return nil })
			count["restarted"]++
		case 2: // the process ends, and its store is put back
			stop()
			lost, lostB := len(b.log.list("A100")), len(b.log.list("B200"))
			b.log.setBack(backup)
			lost, lostB = lost-len(b.log.list("A100")), lostB-len(b.log.list("B200"))
			stop = b.start(b.relay())
			b.log.ring(t, "A100", lost)
			b.log.ring(t, "B200", lostB)
			count["set back"]++
		case 3:
			count["left alone"]++
		case 4: // the tail is lost
			b.whileDown(func() error {
				return errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700))
			})
			count["emptied"]++
		}
		if random.IntN(2) == 0 {
			for _, a := range agencies {
				eventually(t, "published", func() bool { return b.published(a) })
			}
		}
	}
	b.log.ring(t, "A100", 1)
	b.log.ring(t, "B200", 1)
	other.ring(t, "A100", 1)
	other.ring(t, "B200", 1)
	for _, a := range agencies {
		eventually(t, "all published", func() bool { return b.holdsAll(a) })
	}
	stop()
	stopTwin()
	for _, a := range agencies {
		if missing, wrong, _ := compared(held(t, b.js, events.AgencyFilter("listings", a)), b.log, a, 0); len(missing)+len(wrong) > 0 {
			t.Errorf("agency %s: missing %v, duplicate or unknown %v", a, missing, wrong)
		}
	}
	t.Logf("%v", count)
}

// An id is known after a restart of the server, and after 29 days.
func TestIDsAreKnownForAsLongAsTheStreamKeepsMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		b.o.MaxAge = 30 * 24 * time.Hour
		b.log.ring(t, "A100", 20)
		never := b.log.backup() // its cursor was lost
		b.deliver()
		b.log.setBack(never)
		b.deliver()
		exactlyOnce(t, b.js, b.log, "A100", 0)
		b.server.Shutdown()
		time.Sleep(29 * 24 * time.Hour)
		must(t, b.server.Restart(context.Background()))
		within(t, 10*time.Second, "connected", b.nc.IsConnected)
		b.log.setBack(never)
		b.deliver()
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}
