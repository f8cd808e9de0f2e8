package poller

import (
	"regexp"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// What is here was learned of how the API of an agency answers: where records stand, how lists end, which sizes are taken.

// toldShapeEvery bounds how often another shape is told, where two machines of the API answer in different ones.
const toldShapeEvery = time.Hour

// shape is where the records of an operation were found before.
func (a *agency) shape(op listings.Operation) listings.Shape {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hearings[op].shape
}

// learnShape remembers where the records of an operation were found, and says where it was elsewhere before. An answer
// without records teaches nothing.
func (a *agency) learnShape(op listings.Operation, reference string, e listings.Envelope, records int) error {
	a.mu.Lock()
	h := a.hearings[op]
	same := h.shape.Known && h.shape.Path == e.Path
	quiet := time.Since(h.shapeTold) < toldShapeEvery
	a.mu.Unlock()
	if !e.Found || records == 0 || same {
		return nil
	}
	told := false
	err := a.updateOperation(op, func(tx *store.Tx, o *store.Operation) error {
		before := *o
		o.Path, o.Learned = e.Path, true
		if told = before.Learned && before.Path != e.Path && !quiet; !told {
			return nil
		}
		return appendEvent(tx, &events.WatchSchemaDrifted{
			Common: events.Common{AgencyID: a.id, ObservedAt: e.Received}, Operation: string(op), PropertyReferenceID: reference,
			Expected: "records at " + pointer(before.Path), Found: "records at " + pointer(e.Path),
		})
	})
	if err == nil && told {
		a.mu.Lock()
		h.shapeTold = time.Now()
		a.mu.Unlock()
		a.p.log.Warn("the answers have another shape", "agency", a.id, "operation", string(op))
	}
	return err
}

// looksLikePointer is what a pointer made of names looks like. Others are not told: nobody knows what they hold.
var looksLikePointer = regexp.MustCompile(`^(/[A-Za-z_$][A-Za-z0-9_.-]{0,39}){1,4}$`)

// pointer names a JSON pointer to people: that of the whole body is empty.
func pointer(path string) string {
	switch {
	case path == "":
		return "the root"
	case looksLikePointer.MatchString(path):
		return path
	}
	return "an odd name"
}

// sizeAgain is how often a page size that was refused is asked for again.
const sizeAgain = 24 * time.Hour

// firstSize is the page size to begin a walk with, where what is configured was refused; 0: what is configured.
func (a *agency) firstSize(now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.hearings[listings.OperationInsertions]
	if h.sizeTried.IsZero() {
		h.sizeTried = a.began
	}
	if h.size != 0 && now.Sub(h.sizeTried) < sizeAgain {
		return h.size
	}
	h.sizeTried = now
	return 0
}

// habit is how long an API is taken to end its lists as it last did. Where it ends them by refusing pages from then on, and
// not by failing, that is believed afterwards.
const habit = 48 * time.Hour

// endsEmpty says whether the agency's list is known to end with an empty page.
func (a *agency) endsEmpty(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.hearings[listings.OperationInsertions].endsEmpty
	return !at.IsZero() && now.Sub(at) < habit
}
