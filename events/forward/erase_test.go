package forward

import (
	"testing"
	"time"

	"doorbell/events"
)

// erase erases the n last leads, counted from the end of the stream.
func (w *world) erase(last int) {
	w.t.Helper()
	s, err := w.js.Stream(w.t.Context(), "LISTINGS")
	if err != nil {
		w.t.Fatal(err)
	}
	for n := range uint64(last) {
		if err := s.SecureDeleteMsg(w.t.Context(), s.CachedInfo().State.LastSeq-n); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestAForwarderGoesOnBehindALeadThatWasErased(t *testing.T) {
	for name, inTurn := range map[string]bool{"alone": false, "in turn": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScript("a", 1)
				w := newWorld(t, leadsTo(s))
				w.o.InTurn = inTurn
				w.run(5*time.Minute, w.fifty)
				w.erase(1)
				if err := w.js.DeleteConsumer(t.Context(), "LISTINGS", "doorbell-slack-leads"); err != nil {
					t.Fatal(err)
				}
				f, stop := w.start()
				time.Sleep(2 * time.Second)
				f.state.look(func(m *memory) {
					if m.Workers["a/leads"].Early {
						t.Error("it begins with the stream")
					}
				})
				w.lead("A100")
				time.Sleep(time.Minute)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				wantIDs(t, s, w.history)
			})
		})
	}
}

func TestALeadThatIsErasedWhileItIsTriedIsNeitherSentNorADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		s.down()
		w.run(time.Hour, func() {
			w.lead("A100")
			w.lead("A100")
			time.Sleep(2 * time.Minute)
			w.erase(2)
			w.lead("A100")
			time.Sleep(time.Minute)
			s.up()
		})
		wantIDs(t, s, w.history[2:])
	})
}

func TestALetterOfALeadThatWasErasedIsNotWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		s.will(func(d Delivery) error {
			if d.Events[0].Sequence == 2 {
				w.erase(1) // at this moment
			}
			return &Permanent{Reason: "no"}
		})
		w.run(time.Minute, func() { w.lead("A100"); w.lead("A100") })
		written, err := w.js.Stream(t.Context(), "LISTINGS_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		if n := written.CachedInfo().State.LastSeq; n != 1 || len(w.letters()) != 1 {
			t.Errorf("%d letters were written", n)
		}
		n, err := w.deadLetters().Erase(t.Context(), func(e events.Event) bool { return e.HoldsPerson() })
		if n != 1 || err != nil || len(w.letters()) != 0 {
			t.Errorf("%d erased, %v", n, err)
		}
	})
}
