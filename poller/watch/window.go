package watch

import (
	"maps"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Closed is why a window leaves nothing unseen between itself and what was known before; empty: it
// is open.
type Closed string

const (
	Open          Closed = ""
	ClosedNone    Closed = "none"    // nothing is known, and there is nothing
	ClosedTotal   Closed = "total"   // as many as the API counts
	ClosedOverlap Closed = "overlap" // the last one was known before
	ClosedStart   Closed = "start"   // it reaches behind the insertion's start
	// it is shorter than it may be, and shows every one that is known
	ClosedShort    Closed = "short"
	ClosedReversed Closed = "reversed" // the other end shows the same
	// nothing is new, and times are unreadable, where as many were all there is
	ClosedSteady    Closed = "steady"
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
func (w *Window) with(r Response, c *comparison) *Window {
	next := *w
	next.shown = maps.Clone(w.shown)
	for _, id := range c.shown {
		next.shown[id] = true
	}
	if r.newestFirst() {
		next.newest, next.view = c.shown, c.view
	}
	if oldest := c.view.oldest; !oldest.IsZero() && (w.oldest.IsZero() || oldest.Before(w.oldest)) {
		next.oldest = oldest
	}
	next.list, next.total = w.list || r.List, r.Total
	return &next
}

// view is how a response lies in time. Order is checked, not believed.
type view struct {
	oldest, newest time.Time
	ordered        bool // newest first, as it was asked for
	ascending      bool // oldest first, as it was asked for
	zoneless       bool // times name no zone
	readable       bool // most times can be read, so that an order is seen
	cut            bool // there may be more than it shows
}

// fewCut is how many contact requests a service is taken to show at least, whatever it is asked
// for.
const fewCut = 10

// viewOf reads the times of a response. A few unreadable ones are stepped over. longest is the
// largest number that the service has shown at once.
func viewOf(r Response, longest int) view {
	v := view{cut: r.NumberOfItemsPerPage > 0 && r.count() >= r.NumberOfItemsPerPage ||
		r.count() >= max(longest, fewCut)}
	var times []time.Time
	for _, c := range r.Requests {
		if !c.CreatedAt.IsZero() {
			times = append(times, c.CreatedAt)
			v.zoneless = v.zoneless || !c.HasZone()
		}
	}
	if v.readable = 2*len(times) >= len(r.Requests); len(times) > 0 {
		v.oldest, v.newest = slices.MinFunc(times, time.Time.Compare),
			slices.MaxFunc(times, time.Time.Compare)
	}
	falls := slices.IsSortedFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	v.ordered = v.readable && r.newestFirst() && falls
	v.ascending = v.readable && r.oldestFirst() && slices.IsSortedFunc(times, time.Time.Compare)
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
		return second.Before(secondOf(v.newest))
	}
	return false
}

// closed reports why the window is closed by a response, after which it is next.
func (c *comparison) closed(r Response, next *Window) Closed {
	v, count := c.view, r.count()
	// every one that is known or counted
	whole := c.missing == 0 && r.Unreadable == 0 && r.Total <= count
	current := v.ordered && c.isCurrent()
	switch {
	case count == 0 && len(c.Known) == 0 && r.Total <= 0:
		return ClosedNone
	case count == 0:
		return Open
	case r.Unreadable == 0 && r.Total == len(next.shown) && (c.Totals || r.Total > count):
		return ClosedTotal
	case r.oldestFirst():
		if next.isReversed(c.shown, v) && r.Unreadable == 0 && r.Total <= len(next.shown) {
			return ClosedReversed
		}
	case !r.newestFirst():
	case current && c.endsBefore():
		return ClosedOverlap
	case current && v.oldest.Before(c.startOf(!v.zoneless)) && !v.oldest.IsZero():
		return ClosedStart
	case whole && !v.cut && (current || !v.ordered) && (count < fewCut || c.isShort()):
		return ClosedShort
	case !v.readable && c.new == 0 && c.Insertion.OpenSince.IsZero() &&
		c.Proved > 0 && count >= c.Proved && r.Total <= count:
		return ClosedSteady
	case !v.ordered && c.Insertion.Unordered &&
		(count < r.NumberOfItemsPerPage || r.NumberOfItemsPerPage >= WidestSize):
		return ClosedUnordered
	}
	return Open
}

// isShort reports whether a list that is shorter than others were, and shows every known one, shows
// all there is. After the first poll that is not certain where it shows new ones, for the service
// may show less than it did: unless they stand above known ones.
func (c *comparison) isShort() bool {
	return !c.Insertion.Polled || len(c.fresh) == 0 ||
		c.view.ordered && slices.ContainsFunc(c.shown, c.isOverlap)
}

// isOverlap reports whether one that is shown was known before the catch-up.
func (c *comparison) isOverlap(id string) bool { _, fresh := c.fresh[id]; return !fresh }

// endsBefore reports whether the last one shown was known before the catch-up. One that was not and
// is of the same moment says that there may be more of that moment.
func (c *comparison) endsBefore() bool {
	if len(c.shown) == 0 || !c.isOverlap(c.shown[len(c.shown)-1]) {
		return false
	}
	for _, t := range c.fresh {
		if isSameSecond(t, c.view.oldest) {
			return !c.view.cut
		}
	}
	return true
}

// isCurrent reports whether a response shows what earlier ones of the same catch-up did, as far as
// it reaches. One that does not comes from a cache or a replica that is behind: it proves nothing.
func (c *comparison) isCurrent() bool {
	return !slices.ContainsFunc(c.Known, func(k store.ContactRequest) bool {
		return k.Epoch == c.Insertion.Epoch && k.CreatedAt.After(c.view.oldest) &&
			!slices.Contains(c.shown, k.ID)
	})
}

// isReversed reports whether a response to the question for the oldest ones shows what that for the
// newest ones did, turned round: then both show all there is. Ties may stand in any order where
// both are seen to be in theirs, which takes two times that differ: a service that ignores the
// order looks the same where all are of one second.
func (w *Window) isReversed(ids []string, v view) bool {
	back := slices.Clone(ids)
	slices.Reverse(back)
	if len(back) == 0 || slices.Equal(back, w.newest) {
		return len(back) > 0
	}
	slices.Sort(back)
	return v.ascending && w.view.ordered && v.oldest.Before(v.newest) &&
		slices.Equal(back, slices.Sorted(slices.Values(w.newest)))
}

// Begin and end of a watch.
const (
	// beforeBegin is how far back the begin of a watch lies: no two clocks agree. zoneless is how
	// much farther, where times name no zone: they may be of another one than is configured.
	beforeBegin = 15 * time.Minute
	zoneless    = 2 * time.Hour
)

// ComesBackWithin is how long after an insertion has vanished its contact requests may be live at a
// new one, which has another name: they come as late as the old one is polled, and the start of the
// new one lies as far back, and farther where times name no zone. It is reckoned from a complete
// walk, which may be some time ago.
const ComesBackWithin = 2*LateArrivals + zoneless + 2*time.Hour

// startOf is the moment before which contact requests of an insertion are old. Until a list was
// shown the zone of a time is in doubt. From then on it is never later than the newest time that
// the agency has shown, for our clock may be ahead of the API's: what this insertion alone has
// shown says nothing where its first window was empty.
func (c *comparison) startOf(zoned bool) time.Time {
	start := c.Insertion.Start
	if !c.Insertion.Listed && !zoned {
		return start.Add(-zoneless)
	}
	if newest := c.Newest; c.Insertion.Listed && !newest.IsZero() {
		// after a restart others may have shown less than this one did before
		for _, k := range c.Known {
			newest = later(newest, k.CreatedAt)
		}
		return earlier(start, newest)
	}
	return start
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// closeWindow is the insertion after its window was closed or given up. After the first list the
// start moves back, so that late arrivals are live, but not behind the oldest that was shown: what
// slides in from below is old. Nor is it later than the newest that was shown in order.
func closeWindow(i store.Insertion, w *Window, at time.Time) store.Insertion {
	i.Polled = true
	if w.list && !i.Listed {
		i.Listed = true
		start := i.Start.Add(-LateArrivals)
		if !w.oldest.IsZero() {
			start = later(start, w.oldest.Truncate(time.Millisecond).Add(time.Millisecond))
		}
		i.Start = earlier(i.Start, start)
	}
	if newest := w.view.newest; i.Listed && w.view.ordered && !newest.IsZero() {
		i.Start = earlier(i.Start, newest)
	}
	i.Epoch++
	i.OpenSince = time.Time{}
	i.LastPoll = at
	return i
}

// WindowFull is the reason of a gap: no response reaches back to what is known.
const WindowFull = "window_full"

// gap is the event that contact requests may be unseen: they lie above the newest that was known
// before, and below what the last response reached. Without an order they lie anywhere since the
// last good look.
func (p Poll) gap(prior Prior, w *Window, now time.Time) *events.WatchGapDetected {
	i := prior.Insertion
	from, to := i.Start, w.view.oldest
	if ordered := w.view.ordered && !to.IsZero(); !ordered {
		to = now
		if i.Polled {
			from = i.LastPoll
		}
	}
	reached := len(w.shown)
	for _, k := range prior.Known {
		if k.Epoch == i.Epoch && !w.shown[k.ID] { // before a restart
			reached++
		}
		if w.view.ordered && k.Epoch < i.Epoch && k.CreatedAt.After(from) && !k.CreatedAt.After(to) {
			from = k.CreatedAt
		}
	}
	g := p.gapOf(i.Reference, WindowFull, reached, now)
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
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: reference,
		Reason: reason, Reached: reached,
	}
}
