package forward

import (
	"slices"
	"strings"
	"testing"
	"time"
)

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

// TestALeadThatIsErasedWhileItWaitsIsNotSent erases the last event. The times are virtual.
func TestALeadThatIsErasedWhileItWaitsIsNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(Delivery) error
		first  func(*world)
	}{
		"in hand, and refused": {
			answer: func(Delivery) error { return &Retry{Reason: "down"} },
			first:  func(w *world) { w.lead("A100") },
		},
		"for another": {
			answer: func(Delivery) error { return &Retry{Reason: "down", Receiver: true} },
			first:  func(w *world) { w.lead("A100"); w.lead("A100") },
		},
		"for the pace": { // the receiver wants half an hour of silence, and was asked by another worker
			answer: func(Delivery) error { return &Retry{After: 30 * time.Minute, Receiver: true, Reason: "too many"} },
			first:  func(w *world) { w.halt("A100", "k0"); time.Sleep(time.Minute); w.lead("A100") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScript("a", 1)
				w := newWorld(t, Route{Receiver: s})
				s.will(c.answer)
				w.run(40*time.Minute, func() {
					c.first(w)
					time.Sleep(2 * time.Minute)
					w.erase(1)
					s.up()
				}, func() { w.lead("A100") })
				last := len(w.history) - 1
				wantIDs(t, s, append(slices.Clone(w.history[:last-1]), w.history[last]))
				if n := len(w.letters()); n != 0 {
					t.Errorf("%d letters", n)
				}
			})
		})
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

// losses are how a lead in hand goes from its stream though nobody has erased it.
var losses = map[string]func(*world){
	"no stream": func(w *world) {
		w.must(w.js.DeleteStream(w.t.Context(), "LISTINGS"))
	},
	"another stream": func(w *world) {
		w.must(w.js.DeleteStream(w.t.Context(), "LISTINGS"))
		time.Sleep(time.Second) // the folder is being removed
		w.makeStream()
		w.halt("A100", "k1")
		w.halt("A100", "k2")
		w.halt("A100", "k3")
		w.erase(2) // what stands at its place now
	},
}

func TestALeadThatTheStreamHasLostWhileItIsTriedIsSent(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			scene(t, 1, func(t *testing.T, w *world, s *script) {
				s.down()
				w.run(time.Hour, func() {
					w.halt("A100", "k0")
					w.lead("A100")
					time.Sleep(2 * time.Minute) // virtual: it is in hand, and refused
					lose(w)
					s.up()
				})
				wantIDs(t, s, w.history[1:2])
			})
		})
	}
}
