package relay

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go/jetstream"
)

// anybody wants all of an agency's people erased.
func anybody(e events.Event) bool { return e.HoldsPerson() }

// numbered wants contact requests that contactRequest has made.
func numbered(agency string, numbers ...int) func(events.Event) bool {
	wanted := map[string]bool{}
	for _, n := range numbers {
		wanted[fmt.Sprintf("%s-%d", agency, n)] = true
	}
	return func(e events.Event) bool {
		p, err := e.Payload()
		c, ok := p.(*events.ContactRequestCreated)
		return err == nil && ok && wanted[c.ContactRequestID]
	}
}

// wantErased erases in the stream, and wants so many.
func wantErased(t *testing.T, r *Relay, agency string, wants func(events.Event) bool, want int) {
	t.Helper()
	if n, err := r.Erase(t.Context(), agency, wants); n != want || err != nil {
		t.Fatalf("%d erased, want %d: %v", n, want, err)
	}
}

func TestWhatWasErasedIsNeitherMissedNorSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		b.log.ring(t, "A100", 6)
		b.log.ring(t, "B200", 1)
		r := b.relay()
		once := func() {
			t.Helper()
			if err := r.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		once()
		b.log.erase("A100", 1, 3, 6)
		wantErased(t, r, "A100", numbered("A100", 1, 3, 6), 3)
		wantErased(t, r, "A100", numbered("A100", 1, 3, 6), 0)
		want := Comparison{AgencyID: "A100", Logged: 6, Streamed: 3, Erased: 3}
		b.wantCompared(want)
		b.log.ring(t, "A100", 2) // the relay that has erased goes on
		once()
		if c, _ := b.log.Cursor("A100"); c.Sequence != 8 {
			t.Errorf("cursor %+v", c)
		}
		time.Sleep(3 * time.Minute) // the server has forgotten the ids
		if n, err := r.Resend(t.Context(), "A100"); n != 0 || err != nil {
			t.Errorf("%d sent again, %v", n, err)
		}
		b.deliver() // and one that is started anew
		b.wantRepairs("A100")
		b.wantCompared(Comparison{AgencyID: "A100", Logged: 8, Streamed: 5, Erased: 3})

		b.log.erase("A100", 8)
		if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // the folder is being removed
		for range 2 {
			b.deliver()
		}
		b.log.ring(t, "A100", 1)
		b.deliver()
		b.wantRepairs("A100", "recreated 2-8 sent 4")
		b.wantCompared(Comparison{AgencyID: "A100", Logged: 10, Streamed: 6, Erased: 4})
		if held := b.compared("B200"); !held.Well() || held.Streamed != 2 { // one, and the report
			t.Errorf("%+v", held)
		}
	})
}

func TestARelayThatRunsGoesOnBehindItsLastEventThatWasErased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		r, stop := b.started(t, "A100")
		defer stop()
		wantErased(t, r, "A100", anybody, 1)
		b.log.ring(t, "A100", 1)
		within(t, time.Second, "published", func() bool { return b.published("A100") })
		if failed := r.Status().Failures; len(failed) > 0 {
			t.Errorf("%v", failed)
		}
	})
}

// whileRead calls once when the relay has read what it publishes next.
type whileRead struct {
	*memLog
	once func()
}

func (l *whileRead) Unsent(agency string, most, size int) ([]events.Event, error) {
	list, err := l.memLog.Unsent(agency, most, size)
	if once := l.once; once != nil {
		l.once = nil
		once()
	}
	return list, err
}

func TestWhatWasReadBeforeItWasErasedAndPublishedAfterwardsIsErased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		log := &whileRead{memLog: b.log}
		b.o.Log = log
		r := b.relay()
		done := make(chan error, 1)
		log.once = func() {
			b.log.erase("A100", 1, 2)
			go func() {
				n, err := r.Erase(t.Context(), "A100", anybody)
				if err == nil && n != 2 {
					err = fmt.Errorf("%d erased", n)
				}
				done <- err
			}()
			time.Sleep(time.Second) // the batch is still on its way when the erasure begins
		}
		b.log.ring(t, "A100", 2)
		if err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.wantCompared(Comparison{AgencyID: "A100", Logged: 2, Erased: 2})
	})
}

func TestWhatIsPublishedDoesNotWaitForAnErasure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		b.log.ring(t, "A100", 2)
		b.deliver()
		r := b.relay()
		met := 0
		n, err := r.Erase(t.Context(), "A100", func(e events.Event) bool {
			if met++; met == 1 {
				b.log.ring(t, "A100", 1)
				if err := r.RunOnce(t.Context()); err != nil || !b.published("A100") {
					t.Errorf("published while it is erased: %v", err)
				}
			}
			return true
		})
		if n != 3 || err != nil {
			t.Errorf("%d erased, %v", n, err)
		}
		b.log.ring(t, "A100", 1)
		if err := r.RunOnce(t.Context()); err != nil {
			t.Errorf("behind an erased fence: %v", err)
		}
	})
}

func TestAStreamThatWasPutBackFromAnOlderCopyLosesWhoWasErased(t *testing.T) {
	b, folder := newFolderBell(t)
	b.log.ring(t, "A100", 3)
	b.deliver()
	restore := b.backup(folder)
	b.log.erase("A100", 1, 3)
	wantErased(t, b.relay(), "A100", numbered("A100", 1, 3), 2)
	b.log.ring(t, "A100", 2)
	b.deliver()
	restore()
	b.deliver()
	b.wantCompared(Comparison{AgencyID: "A100", Logged: 6, Streamed: 4, Erased: 2})
	b.wantRepairs("A100", "tail_lost 4-5 sent 2")
}

func TestATailThatIsLostAgainBehindAnErasedEndIsFound(t *testing.T) {
	b, folder := newFolderBell(t)
	b.log.ring(t, "A100", 4)
	b.deliver()
	restore := b.backup(folder)
	b.log.ring(t, "A100", 3)
	b.deliver()
	b.log.erase("A100", 7)
	wantErased(t, b.relay(), "A100", numbered("A100", 7), 1)
	restore()
	log := &ending{b.log, true}
	b.o.Log = log
	for range 2 { // what has been mended is no loss
		if err := b.relay().RunOnce(t.Context()); !errors.Is(err, ErrLog) {
			t.Fatalf("%v", err)
		}
		b.wantRepairs("A100", "tail_lost 5-7 sent 2")
	}
	restore()
	log.ends = false
	b.deliver()
	b.wantRepairs("A100", "tail_lost 5-7 sent 2", "tail_lost 5-7 sent 2")
	b.wantCompared(Comparison{AgencyID: "A100", Logged: 9, Streamed: 8, Erased: 1})
}

func TestABatchWithoutAnAnswerIsErased(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 2)
	unheard := b.log.copyOf()
	b.deliver()
	b.log, b.o.Log = unheard, unheard
	b.log.erase("A100", 1)
	wantErased(t, b.relay(), "A100", anybody, 2)
	b.log.erase("A100", 2)
	b.deliver()
	b.wantCompared(Comparison{AgencyID: "A100", Logged: 2, Erased: 2})
	b.wantRepairs("A100")
}

func TestWhatTheLogHasErasedIsErasedInTheStreamByTheComparisonADayLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		var log bytes.Buffer
		b.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b.log.ring(t, "A100", 4)
		b.deliver()
		b.log.erase("A100", 2, 4)
		b.log.ring(t, "A100", 1)
		b.log.erase("A100", 5) // before it is published: it holds nobody, and stays
		b.deliver()
		time.Sleep(23 * time.Hour)                                   // virtual: not a day yet
		b.log.ringAt(t, "A100", 1, time.Now().Add(-90*24*time.Hour)) // NATS was away: it is read only now
		b.deliver()
		b.log.erase("A100", 6)
		r := b.relay()
		compare := func() {
			t.Helper()
			if err := r.compareOne(t.Context(), "A100", map[string]int{}); err != nil {
				t.Fatal(err)
			}
		}
		compare()
		all := Comparison{AgencyID: "A100", Logged: 6, Streamed: 6}
		b.wantCompared(all)
		time.Sleep(time.Hour) // virtual: now a day
		all.Unerased = []uint64{2, 4}
		if found := b.compared("A100"); !reflect.DeepEqual(found, all) || found.Well() {
			t.Fatalf("%+v", found)
		}
		compare()
		b.wantCompared(Comparison{AgencyID: "A100", Logged: 6, Streamed: 4, Erased: 2})
		b.log.ring(t, "A100", 1) // the relay goes on
		if err := r.RunOnce(t.Context()); err != nil {
			t.Error(err)
		}
		b.wantRepairs("A100")
		config := b.stream().CachedInfo().Config
		config.DenyDelete = true
		if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		b.log.erase("A100", 1)
		if compare(); !strings.Contains(log.String(), "the stream holds people") {
			t.Error("where it is denied nobody hears of it")
		}
	})
}

func TestAConsumerGoesOnOverWhatIsErased(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 6)
	b.deliver()
	c, err := b.stream().CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "crm", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	next := func() jetstream.Msg {
		t.Helper()
		m, err := c.Next(jetstream.FetchMaxWait(5 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if err := next().DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	inHand := next()
	wantErased(t, b.relay(), "A100", numbered("A100", 1, 2, 3, 6), 4)
	if err := inHand.Ack(); err != nil {
		t.Error(err)
	}
	for _, want := range []uint64{4, 5} {
		m := next()
		if at, err := m.Metadata(); err != nil || at.Sequence.Stream != want {
			t.Errorf("%+v, %v", at, err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "nothing is open", func() bool {
		info, err := c.Info(t.Context())
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0
	})
}
