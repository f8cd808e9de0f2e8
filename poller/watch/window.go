package watch

import (
	"maps"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Question is one way to ask for contact requests.
type Question = listings.ContactRequestsQuery

// Ask is the question for contact requests sorted by a member, desc or asc. A size of 0 leaves the number to the API.
func Ask(sortBy, order string, size int) Question {
	return Question{NumberOfItemsPerPage: size, SortBy: sortBy, SortOrder: order}
}

// Closed is why a window leaves nothing unseen between itself and what was known before; empty: it is open.
type Closed string

const (
	Open            Closed = ""
	ClosedNone      Closed = "none"      // nothing is known, and there is nothing
	ClosedTotal     Closed = "total"     // as many as the API counts
	ClosedOverlap   Closed = "overlap"   // the last one was known before
	ClosedStart     Closed = "start"     // it reaches behind the insertion's start
	ClosedShort     Closed = "short"     // it is shorter than it may be, and shows every one that is known
	ClosedReversed  Closed = "reversed"  // the other end shows the same
	ClosedSteady    Closed = "steady"    // nothing is new, no order is seen, the same number was all there is, and no total counts more
	ClosedUnordered Closed = "unordered" // its list is in no order, which was reported
	ClosedGivenUp   Closed = "given up"  // no question shows more
	ClosedSilent    Closed = "silent"    // nothing is shown where some are known: it says nothing
)

// Window is what the responses of one catch-up have shown.
type Window struct {
	shown  map[string]bool // ids, as they are remembered
	newest []string        // of the last response to the question for the newest ones, in its order
	view   view            // of that
	oldest time.Time       // of all responses
	list   bool            // there was a list
	total  int             // as last stated, -1 unknown
}

func NewWindow() *Window { return &Window{shown: map[string]bool{}, total: -1} }

// Shown is how many contact requests the catch-up has shown.
func (w *Window) Shown() int { return len(w.shown) }

// with is the window after one more response.
func (w *Window) with(r Response, d contacts, v view) *Window {
	next := *w
	next.shown = make(map[string]bool, len(w.shown)+len(d.shown))
	maps.Copy(next.shown, w.shown)
	for _, id := range d.shown {
		next.shown[id] = true
	}
	if r.newestFirst() {
		next.newest, next.view = d.shown, v
	}
	if !v.oldest.IsZero() && (w.oldest.IsZero() || v.oldest.Before(w.oldest)) {
		next.oldest = v.oldest
	}
	next.list, next.total = w.list || r.List, r.Total
	return &next
}

// view is how a response stands in time. Order is checked, not believed.
type view struct {
	oldest, newest time.Time
	ordered        bool // newest first, as it was asked for
	ascending      bool // oldest first, as it was asked for
	zoneless       bool // times name no zone
	readable       bool // most times can be read, so that an order is seen
	cut            bool // there may be more than it shows

	agency time.Time // the newest that any window of the agency has shown in order; zero: none has
}

// fewCut is how many contact requests a service is taken to show at least, whatever it is asked for.
const fewCut = 10

// viewOf reads the times of a response. A few unreadable ones are stepped over. longest is the largest number that the service has
// shown at once.
func viewOf(r Response, longest int) view {
	v := view{cut: r.NumberOfItemsPerPage > 0 && r.count() >= r.NumberOfItemsPerPage || r.count() >= max(longest, fewCut)}
	falls, rises, readable := true, true, 0
	var last time.Time
	for _, c := range r.Requests {
		t := c.CreatedAt
		if t.IsZero() {
			continue
		}
		if readable++; readable > 1 {
			falls, rises = falls && !t.After(last), rises && !t.Before(last)
		}
		if v.oldest.IsZero() || t.Before(v.oldest) {
			v.oldest = t
		}
		if t.After(v.newest) {
			v.newest = t
		}
		v.zoneless = v.zoneless || !c.HasZone()
		last = t
	}
	v.readable = 2*readable >= len(r.Requests)
	v.ordered, v.ascending = v.readable && falls && r.newestFirst(), v.readable && rises && r.oldestFirst()
	return v
}

// shows reports whether the response shows all that was created in a second.
func (v view) shows(second time.Time) bool {
	switch {
	case !v.cut:
		return true
	case v.ordered:
		return second.After(v.oldest)
	case v.ascending:
		return second.Before(v.newest.Truncate(time.Second))
	}
	return false
}

// closed reports why the window is closed by a response, after which it is next.
func (p Poll) closed(prior Prior, r Response, d contacts, v view, next *Window) Closed {
	i, count := prior.Insertion, r.count()
	lasting := d.missing == 0 && r.Unreadable == 0 && r.Total <= count // it shows every one that is known or counted
	current := v.ordered && p.isCurrent(prior, d, v)
	switch {
	case count == 0 && len(prior.Known) == 0 && r.Total <= 0:
		return ClosedNone
	case count == 0:
		return Open
	case r.Unreadable == 0 && r.Total == len(next.shown) && (p.Totals || r.Total > count):
		return ClosedTotal
	case r.oldestFirst():
		if next.isReversed(d.shown, v) && r.Unreadable == 0 && r.Total <= len(next.shown) {
			return ClosedReversed
		}
	case !r.newestFirst():
	case current && d.endsBefore(v):
		return ClosedOverlap
	case current && v.oldest.Before(startOf(i, v, !v.zoneless)) && !v.oldest.IsZero():
		return ClosedStart
	case lasting && !v.cut && (current || !v.ordered) && (count < fewCut || d.isShort(i, v)):
		return ClosedShort
	case !v.readable && d.new == 0 && i.OpenSince.IsZero() && p.Proved > 0 && count >= p.Proved && r.Total <= count:
		return ClosedSteady
	case !v.ordered && i.Unordered && !(p.Larger && count >= r.NumberOfItemsPerPage):
		return ClosedUnordered
	}
	return Open
}

// isShort reports whether a list that is shorter than others were, and shows every known one, shows all there is. After the first poll
// that is not certain where it shows new ones, for the service may show less than it did: unless they stand above known ones.
func (d contacts) isShort(i store.Insertion, v view) bool {
	return !i.Polled || len(d.fresh) == 0 || v.ordered && slices.Contains(d.before, true)
}

// endsBefore reports whether the last one shown was known before the catch-up. One that was not and is of the same moment says that
// there may be more of that moment.
func (d contacts) endsBefore(v view) bool {
	last := len(d.before) - 1
	if last < 0 || !d.before[last] {
		return false
	}
	for _, t := range d.fresh {
		if isSameSecond(t, v.oldest) {
			return !v.cut
		}
	}
	return true
}

// isCurrent reports whether a response shows what earlier ones of the same catch-up did, as far as it reaches. One that does not comes
// from a cache or a replica that is behind: it proves nothing.
func (p Poll) isCurrent(prior Prior, d contacts, v view) bool {
	for _, k := range prior.Known {
		if k.Epoch == prior.Insertion.Epoch && k.CreatedAt.After(v.oldest) && !slices.Contains(d.shown, k.ID) {
			return false
		}
	}
	return true
}

// isReversed reports whether a response to the question for the oldest ones shows what that for the newest ones did, turned round:
// then both show all there is. Ties may stand in any order where both are seen to be in theirs, which takes two times that differ:
// a service that ignores the order looks the same where all are of one second.
func (w *Window) isReversed(ids []string, v view) bool {
	back := slices.Clone(ids)
	slices.Reverse(back)
	if len(back) == 0 || slices.Equal(back, w.newest) {
		return len(back) > 0
	}
	slices.Sort(back)
	return v.ascending && w.view.ordered && v.oldest.Before(v.newest) && slices.Equal(back, slices.Sorted(slices.Values(w.newest)))
}

// Begin and end of a watch.
const (
	// beforeBegin is how far back the begin of a watch lies: no two clocks agree. zoneless is how much farther, where times
	// name no zone: they may be of another one than is configured.
	beforeBegin = 15 * time.Minute
	zoneless    = 2 * time.Hour
)

// ComesBackWithin is how long after an insertion has vanished its contact requests may be live at a new one, which has another
// name: they come as late as the old one is polled, and the start of the new one lies as far back, and farther where times name no zone.
// It is reckoned from a complete walk, which may be some time ago.
const ComesBackWithin = 2*LateArrivals + zoneless + 2*time.Hour

// startOf is the moment before which contact requests of an insertion are old. Until a list was shown the zone of a time is in
// doubt. From then on what is younger than all that the agency has shown before is news in any case, for our clock may have been
// ahead at the begin.
func startOf(i store.Insertion, v view, zoned bool) time.Time {
	switch {
	case !i.Listed && !zoned:
		return i.Start.Add(-zoneless)
	case i.Listed && !v.agency.IsZero() && v.agency.Before(i.Start):
		return v.agency
	}
	return i.Start
}

// closeWindow is the insertion after its window was closed or given up. After the first list the start moves back, so that late
// arrivals are live, but not behind the oldest that was shown: what slides in from below is old. Nor is it later than the newest
// that was shown in order.
func closeWindow(i store.Insertion, w *Window, at time.Time) store.Insertion {
	i.Polled = true
	if w.list && !i.Listed {
		i.Listed = true
		start := i.Start.Add(-LateArrivals)
		if oldest := w.oldest.Truncate(time.Millisecond).Add(time.Millisecond); !w.oldest.IsZero() && oldest.After(start) {
			start = oldest
		}
		if start.Before(i.Start) {
			i.Start = start
		}
	}
	if newest := w.view.newest; i.Listed && w.view.ordered && !newest.IsZero() && newest.Before(i.Start) {
		i.Start = newest
	}
	i.Epoch++
	i.OpenSince = time.Time{}
	i.LastPoll = at
	return i
}

// WindowFull is the reason of a gap: no response reaches back to what is known.
const WindowFull = "window_full"

// gap is the event that contact requests may be unseen: they lie above the newest that was known before, and below what the last
// response reached. Without an order they lie anywhere since the last good look.
func (p Poll) gap(prior Prior, w *Window, now time.Time) *events.WatchGapDetected {
	i := prior.Insertion
	from, to := i.Start, w.view.oldest
	if ordered := w.view.ordered && !to.IsZero(); !ordered {
		to = now
		if i.Polled {
			from = i.LastPoll
		}
	} else {
		for _, k := range prior.Known {
			if k.Epoch < i.Epoch && k.CreatedAt.After(from) && !k.CreatedAt.After(to) {
				from = k.CreatedAt
			}
		}
	}
	g := p.gapOf(i.Reference, WindowFull, w.reached(prior), now)
	if g.From, g.To = from, to; from.After(to) {
		g.From = to
	}
	if w.total >= 0 {
		g.Total = &w.total
	}
	return g
}

func (p Poll) gapOf(reference, reason string, reached int, now time.Time) *events.WatchGapDetected {
	return &events.WatchGapDetected{
		Common:    events.Common{AgencyID: p.AgencyID, ObservedAt: now},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: reference, Reason: reason, Reached: reached,
	}
}

// reached counts the contact requests that this catch-up has shown, also before a restart.
func (w *Window) reached(prior Prior) int {
	n := len(w.shown)
	for _, k := range prior.Known {
		if k.Epoch == prior.Insertion.Epoch && !w.shown[k.ID] {
			n++
		}
	}
	return n
}
