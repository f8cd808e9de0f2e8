package watch

import (
	"maps"
	"time"
)

// fewAppear is how many insertions may appear in one walk and be announced page by page; of more the end of the walk is waited
// for. Only then it is known whether as many have vanished: the list of somebody else would be announced as both.
const fewAppear = 5

// Appearing is what a walk shows of insertions that were never seen before, or had disappeared.
type Appearing struct {
	New    int      // how many
	Listed int      // references that are published, or were by then
	Waits  []string // of the new ones, what is announced only when the walk is over
	Left   []string // the same, of which the records are too much to keep: a walk that follows shows them again
}

// Many says whether what appears waits for the end of the walk.
func (a Appearing) Many() bool { return a.New > fewAppear }

// Unconfirmed are the references that walks have shown and that are not announced, because one walk alone is not believed about so many.
// It is a value and never changed. A restart forgets it, and the next walks show them again.
type Unconfirmed map[string]Sighting

// Sighting is how walks have shown a reference.
type Sighting struct {
	First, Last time.Time // ends of walks
	Plain       bool      // by one that showed enough of what is known
}

// appear decides which of the insertions that were kept back are announced. None is while a mass disappearance is held: both may be the
// list of somebody else. Each of a mass is announced when a second walk shows it, because one may have begun in our list and ended in that
// of somebody else; where most of what is known was not seen, and no complete walk holds it, only when walks have shown it for as long
// as a change is held. A walk between them that does not show it, because it fails or lags, says nothing against it.
func (e *walkEnd) appear() {
	w, r, published := e.walk.Appearing, e.rules, e.Published
	mass := w.Many() && w.New*10 > published*3
	_, foreign := Implausible(published-w.Listed, published, w.Listed)
	approved := e.walk.Complete && e.State.Held != nil && e.State.Held.Approved // with what it has shown
	believed := func(s Sighting) bool {
		switch {
		case e.Held:
			return false
		case !mass:
			return true
		case approved, foreign:
			return !s.First.IsZero() && (approved || e.now.Sub(s.First) >= r.HoldFor)
		}
		return s.Plain
	}
	remembered := max(r.HoldFor, 3*r.Interval, 3*e.now.Sub(e.walk.Began))
	e.Unconfirmed = maps.Clone(e.walk.Unconfirmed)
	maps.DeleteFunc(e.Unconfirmed, func(_ string, s Sighting) bool { return e.walk.Began.Sub(s.Last) >= remembered })
	first := len(e.Unconfirmed) == 0
	if first {
		e.Unconfirmed = Unconfirmed{}
	}
	wait := func(reference string, s Sighting) {
		if s.First.IsZero() {
			s.First = e.now
		}
		s.Last, s.Plain = e.now, s.Plain || !e.Held && !foreign
		e.Unconfirmed[reference] = s
	}
	e.Appeared = map[string]struct{}{}
	for _, reference := range w.Waits {
		if s := e.Unconfirmed[reference]; believed(s) {
			e.Appeared[reference] = struct{}{}
			delete(e.Unconfirmed, reference)
		} else {
			wait(reference, s)
		}
	}
	for _, reference := range w.Left {
		wait(reference, e.Unconfirmed[reference])
	}
	// What is another one each time is confirmed by no walk that follows at once.
	confirm := mass && first && !e.Held && !foreign && len(e.Appeared) == 0
	e.Again = e.Again || confirm || len(w.Left) > 0 && len(e.Appeared) > 0
}
