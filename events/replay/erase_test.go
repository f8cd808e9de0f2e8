package replay

import (
	"errors"
	"slices"
	"testing"

	"doorbell/events"
)

func TestWhatIsErasedWhileAJobRunsIsNotReplayedAndTheJobGoesOn(t *testing.T) {
	w, list := newWorld(t), history(t, 20)
	erased := map[string]bool{}
	o, asked := w.options(), 0
	o.Erased = func(e events.Event) (bool, error) {
		asked++
		switch asked {
		case 1: // before it is published
			erased[e.ID] = true
		case 3: // the second time for the second one: when it was published
			erased[e.ID] = true
		}
		return erased[e.ID], nil
	}
	first := slices.IndexFunc(list, events.Event.HoldsPerson)
	log := slices.Clone(list)
	last := len(log) - 1
	for !log[last].HoldsPerson() {
		last--
	}
	log = log[:last+1] // the end is a contact request
	p, err := w.open(t, o).Run(t.Context(), each(log), silent)
	if err != nil || p.Published != len(log)-2 || len(erased) != 2 || !erased[log[first].ID] {
		t.Fatalf("%+v, %d erased, %v", p, len(erased), err)
	}
	s, err := w.js.Stream(t.Context(), streamName)
	if err != nil {
		t.Fatal(err)
	}
	if state := s.CachedInfo().State; state.Msgs != uint64(p.Published) || state.LastSeq != state.Msgs+1 { // one was published and is gone
		t.Errorf("%+v", state)
	}
	if err := s.SecureDeleteMsg(t.Context(), s.CachedInfo().State.LastSeq); err != nil { // where the job stood
		t.Fatal(err)
	}
	erased[log[last].ID] = true
	for n, e := range log {
		if erased[e.ID] {
			log[n] = e.Erase()
		}
	}
	again, err := w.open(t, w.options()).Run(t.Context(), each(append(log, list[last+1:]...)), silent)
	if err != nil || again.Published != len(list)-last-1 || again.AlreadyThere != p.Published-1 {
		t.Errorf("once more: %+v, %v", again, err)
	}
}

func TestALogThatCannotSayWhetherAnEventWasErasedEndsAJob(t *testing.T) {
	for failing, name := range map[int]string{1: "before it is published", 2: "afterwards"} {
		t.Run(name, func(t *testing.T) {
			w, list := newWorld(t), history(t, 20)
			list = list[slices.IndexFunc(list, events.Event.HoldsPerson):]
			broken, asked := errors.New("read: input/output error"), 0
			o := w.options()
			o.Erased = func(events.Event) (bool, error) {
				if asked++; asked == failing {
					return false, broken
				}
				return false, nil
			}
			if p, err := w.open(t, o).Run(t.Context(), each(list), silent); !errors.Is(err, broken) || p.Published != 0 {
				t.Fatalf("%+v, %v", p, err)
			}
			s, err := w.js.Stream(t.Context(), streamName)
			if err != nil || s.CachedInfo().State.Msgs != 0 {
				t.Fatalf("a message stands there, of which nobody knows whether it may: %v", err)
			}
		})
	}
}
