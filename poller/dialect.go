package poller

import (
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// The dialect of an agency's API is learned from its responses: where records stand, how times are written and pages numbered, which
// page sizes are taken.

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
				Common: events.Common{AgencyID: a.id, ObservedAt: at}, Operation: string(op), PropertyReferenceID: reference, Change: "place",
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

// pageSize is the size to begin a walk with where the usual one was refused, as [listings.WalkOptions] has it.
func (a *agency) pageSize(now time.Time) int {
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
