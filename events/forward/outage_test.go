package forward

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/events/stream"
)

// The receiver takes one message, and then none of those that were tried before: what is tried once
// more may be taken now.
func TestAMessageIsTriedOnceMoreAfterTheReceiverTookAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		s.down()
		w := newWorld(t, leadsTo(s))
		_, stop := w.start()
		w.lead("A100")
		w.lead("A100")
		s.will(func(d Delivery) error {
			if d.Events[0].Sequence == 2 { // it begins to work just when the other one is tried
				s.answer = nil
				return nil
			}
			return &Retry{Reason: "500"}
		})
		time.Sleep(time.Hour)
		w.must(stop())
		if l := w.letters(); len(l) != 0 || len(s.ids()) != 2 {
			t.Errorf("%+v, %d events", l, len(s.ids()))
		}
	})
}

func TestADeliveryThatIsTriedAgainIsTheSame(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Second)
		w.leads(8, "A100")
		s.will(func(d Delivery) error {
			if len(d.Events) != 8 || d.Events[7].ID != w.history[7].ID {
				t.Errorf("a delivery of %d", len(d.Events))
			}
			return &Retry{Reason: "greylisted"}
		})
		w.run(6*time.Minute, func() { // less than ten tries take
			time.Sleep(time.Minute)
			w.leads(8, "A100")
		})
		if s.called() < 8 {
			t.Error(s.called())
		}
	})
}

func TestADeadLetterThatCannotBeWrittenKeepsTheMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		s.will(func(Delivery) error { return &Refused{Reason: "no", Certain: true} })
		w := newWorld(t, leadsTo(s))
		w.o.Manage = false
		f, stop := w.start()
		w.lead("A100")
		time.Sleep(time.Hour)
		if st := f.Status()[0]; st.Waiting != 1 || !strings.Contains(st.LastError, "dead letter") {
			t.Errorf("%+v", st)
		}
		w.must(EnsureDeadLetters(t.Context(), stream.Conn{Conn: w.nc}, DeadLetterConfig("listings", "LISTINGS", time.Hour, 0), false))
		time.Sleep(7 * time.Minute)
		if st := f.Status()[0]; st.Waiting != 0 || st.DeadLetters != 1 {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil || len(w.letters()) != 1 {
			t.Errorf("%v, %+v", err, w.letters())
		}
	})
}

func TestErrorsOfReceiversAreNotQuotedUnlessTheyAreOurs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		s.will(func(Delivery) error {
			return fmt.Errorf("Post https://hooks.example/s3cret: %w", context.Canceled)
		})
		w := newWorld(t, leadsTo(s))
		f, stop := w.start()
		w.lead("A100")
		time.Sleep(time.Minute)
		text := fmt.Sprintf("%+v", f.Status())
		w.must(stop())
		if strings.Contains(text+w.log.String(), "s3cret") {
			t.Error("a secret is told")
		}
		s.will(func(Delivery) error {
			return &Refused{Certain: true, Reason: "ä\r\nx: y" + strings.Repeat("z", 10_000)}
		})
		w.run(10 * time.Minute)
		if l := w.letters(); len(l) != 1 || strings.ContainsAny(l[0].Reason, "\r\nä") || len(l[0].Reason) > 300 {
			t.Errorf("%+v", l)
		}
	})
}

// letters are all dead letters.
func (w *world) letters() (all []Letter) {
	w.t.Helper()
	d, err := OpenDeadLetters(stream.Conn{Conn: w.nc}, "listings", "LISTINGS")
	if err != nil {
		w.t.Fatal(err)
	}
	for l, err := range d.List(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func TestALaneGivesSignsOfLifeWhateverItWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		f, stop := w.start()
		quiet := func(most time.Duration) {
			t.Helper()
			for _, l := range f.Status() {
				if since := time.Since(l.Turned); since > most {
					t.Errorf("%s: none since %s", l.Destination, since)
				}
			}
		}
		for range 3 {
			time.Sleep(10 * time.Minute)
			quiet(time.Minute)
		}
		s.will(func(Delivery) error { return &Retry{After: time.Hour, Reason: "429"} })
		w.lead("A100")
		w.halt("A100", "k")
		for range 6 {
			time.Sleep(30 * time.Minute)
			quiet(150 * time.Minute)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatIsLostOnTheWayFromTheServerIsNotDoneWithThoseBehindIt has messages that the server has
// sent and the worker never got, as when a connection breaks and is made again. The server offers
// them again after half a minute, when the worker has delivered more behind them than a checkpoint
// lists.
func TestWhatIsLostOnTheWayFromTheServerIsNotDoneWithThoseBehindIt(t *testing.T) {
	for _, digest := range []int{1, 200} {
		bubble(t, func(t *testing.T) {
			s := newScript("a", digest)
			s.traits.Pace = 20 * time.Millisecond
			w := newWorld(t, leadsTo(s))
			s.will(func(d Delivery) error {
				if d.Events[0].Sequence > 1 {
					return nil
				}
				w.leads(3*recent, "A100")
				c, err := w.js.Consumer(t.Context(), "LISTINGS", consumer("a"))
				if err != nil {
					t.Fatal(err)
				}
				lost, err := c.FetchNoWait(3)
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for range lost.Messages() {
					n++
				}
				if n != 3 {
					t.Errorf("%d messages are lost", n)
				}
				return nil
			})
			w.run(2*time.Minute, func() { w.lead("A100") })
			ids := map[string]bool{}
			for _, id := range s.ids() {
				ids[id] = true
			}
			if len(ids) != len(w.history) || len(s.ids()) != len(ids) {
				t.Errorf("%d deliveries of %d leads, of %d", len(s.ids()), len(ids), len(w.history))
			}
		})
	}
}

func TestWhatWaitsOnTheServerIsCounted(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		f, stop := w.start()
		if _, err := w.js.PauseConsumer(t.Context(), "LISTINGS", consumer("a"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		w.leads(3, "A100")
		time.Sleep(2 * time.Minute)
		if st := f.Status()[0]; st.Waiting != 3 || time.Since(st.WaitingSince) < time.Minute {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Hour)
		if st := f.Status()[0]; st.Waiting != 0 || !st.WaitingSince.IsZero() {
			t.Errorf("%+v", st)
		}
		w.must(stop())
		wantIDs(t, s, w.history)
	})
}

// erase erases the n last leads, counted from the end of the stream.
func (w *world) erase(last int) {
	w.t.Helper()
	s, err := w.js.Stream(w.t.Context(), "LISTINGS")
	if err != nil {
		w.t.Fatal(err)
	}
	for n := range uint64(last) {
		w.must(s.SecureDeleteMsg(w.t.Context(), s.CachedInfo().State.LastSeq-n))
	}
}

func TestALetterOfALeadThatWasErasedIsNotWritten(t *testing.T) {
	scene(t, 1, func(t *testing.T, w *world, s *script) {
		s.will(func(d Delivery) error {
			if d.Events[0].Sequence == 2 {
				w.erase(1) // at this moment
			}
			return &Refused{Reason: "no", Certain: true}
		})
		w.run(time.Minute, func() { w.lead("A100"); w.lead("A100") })
		if log := w.log.String(); strings.Count(log, "moved to the dead letters") != 1 || strings.Count(log, "was erased before") != 1 {
			t.Error("the log does not tell of one letter and one erasure")
		}
		written, err := w.js.Stream(t.Context(), "LISTINGS_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		if n := written.CachedInfo().State.LastSeq; n != 1 || len(w.letters()) != 1 {
			t.Errorf("%d letters were written", n)
		}
	})
}
