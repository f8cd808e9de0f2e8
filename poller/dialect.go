package poller

import (
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// The dialect of an agency's API is learned from its responses: where records stand, how times are written and pages numbered, how
// lists end, which sizes are taken.

// pathEvery bounds how often another path is announced, where two machines of the API answer in different ones.
const pathEvery = time.Hour

// dialect is what is known of the answers to an operation.
func (a *agency) dialect(op listings.Operation) listings.Dialect {
	return dialectOf(a.published().state.Operation(string(op)).Dialect)
}

func dialectOf(d store.Dialect) listings.Dialect {
	return listings.Dialect{Known: d.Learned, Path: d.Path, TotalTold: d.TotalTold, FirstPage: d.FirstPage, CreatedForm: d.CreatedForm}
}

// dialects is what is remembered of the answers to both operations.
func dialects(state store.Agency) map[listings.Operation]listings.Dialect {
	all := map[listings.Operation]listings.Dialect{}
	for _, op := range operations {
		if d := dialectOf(state.Operation(string(op)).Dialect); d.Known {
			all[op] = d
		}
	}
	return all
}

// shownDialects is dialects without names that do not look like one.
func shownDialects(state store.Agency) map[listings.Operation]listings.Dialect {
	all := dialects(state)
	for op, d := range all {
		all[op] = d.Printable()
	}
	return all
}

// learn remembers what an answer shows of how answers are written, once, and says where its records stand if they stood elsewhere
// before. An answer without records teaches nothing.
func (a *agency) learn(op listings.Operation, reference string, shown listings.Dialect, records int, at time.Time) error {
	known := a.dialect(op)
	if !shown.Known || records == 0 || known.Learned(shown) == known {
		return nil
	}
	a.mu.Lock()
	h := a.health[op]
	quiet := at.Sub(h.pathAnnounced) < pathEvery
	a.mu.Unlock()
	announce := false
	err := a.commitOperation(op, func(o *store.Operation, e *watch.Effects) {
		before := dialectOf(o.Dialect)
		after := before.Learned(shown)
		o.Path, o.Learned, o.TotalTold, o.CreatedForm = after.Path, true, after.TotalTold, after.CreatedForm
		if announce = before.Known && before.Path != after.Path && !quiet; announce {
			e.Events = append(e.Events, &events.WatchSchemaDrifted{
				Common: events.Common{AgencyID: a.id, ObservedAt: at}, Operation: string(op), PropertyReferenceID: reference,
				Expected: "records at " + watch.DescribePointer(before.Path), Found: "records at " + watch.DescribePointer(after.Path),
			})
		}
	})
	if err == nil && announce {
		a.mu.Lock()
		h.pathAnnounced = at
		a.mu.Unlock()
	}
	return err
}

// firstSize is the page size to begin a walk with, where what is configured was refused; 0: what is configured.
func (a *agency) firstSize(now time.Time) int {
	size := a.published().state.Operation(string(listings.OperationInsertions)).Size
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.health[listings.OperationInsertions]
	if h.sizeTried.IsZero() {
		h.sizeTried = a.began
	}
	if size != 0 && now.Sub(h.sizeTried) < sizeAgain {
		return size
	}
	h.sizeTried = now
	return 0
}

// endsAsBefore is how long an API is taken to end its lists as it last did. Where it ends them by refusing pages from then
// on, and not by failing, that is believed afterwards.
const endsAsBefore = 48 * time.Hour

// endsEmpty says whether the agency's list is known to end with an empty page.
func (a *agency) endsEmpty(now time.Time) bool {
	at := a.published().state.Operation(string(listings.OperationInsertions)).EndsEmpty
	return !at.IsZero() && now.Sub(at) < endsAsBefore
}

// largerPage is the size to read with where more than usual is known or hoped to do, and how many references the last walk
// has shown. 0: the usual size, also as long as walks fail: a larger one would be asked for in vain, and each try be two.
func (a *agency) largerPage(now time.Time) (size, known int) {
	state := a.published().state
	d := state.Operation(string(listings.OperationInsertions)).Dialect
	if !a.p.o.largerPages || d.Size != 0 || a.walking.state().Failures > 0 {
		return 0, 0
	}
	a.mu.Lock()
	last, published := a.health[listings.OperationInsertions].lastWalk, a.known
	a.mu.Unlock()
	known = max(published, last.References)
	next := watch.NextPage(d, last, a.p.o.PageSize, a.p.client.Limits())
	if next == 0 || now.Before(d.LargerAgain) || !state.Baselined {
		return d.Largest, known
	}
	return next, known
}

// learnPage remembers what a walk says about the size of pages.
func (a *agency) learnPage(larger int, v listings.Verdict, now time.Time) error {
	a.mu.Lock()
	h := a.health[listings.OperationInsertions]
	last := h.lastWalk
	h.lastWalk = v
	a.mu.Unlock()
	if larger == 0 {
		return nil
	}
	op := listings.OperationInsertions
	before := a.published().state.Operation(string(op)).Dialect
	after := watch.LearnPage(before, last, v, larger, a.p.client.Limits(), now.UTC())
	if after == before {
		return nil
	}
	a.p.log.Debug("size of pages", "agency", a.id, "tried", larger, "largest", after.Largest)
	return a.commitOperation(op, func(o *store.Operation, _ *watch.Effects) {
		o.Largest, o.LargerAgain = after.Largest, after.LargerAgain
	})
}
