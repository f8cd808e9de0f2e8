package poller

import (
	"maps"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// windowSizes are the numbers of contact requests that are asked for, one after the other, while a window stays open and
// the count grows.
var windowSizes = []int{20, 50, 100, 200, 500, 1000}

// catchUp is what the answers of one poll have shown so far. A window is closed when it surely leaves nothing unseen
// between itself and what was known before.
type catchUp struct {
	shown  map[string]bool      // ids of all answers
	oldest time.Time            // oldest readable creation time of all answers
	newest map[string]time.Time // the last answer that was newest first; nil before one
	full   int                  // contact requests in the largest answer that was as large as asked
	total  int                  // as last told, -1 unknown
	news   int
}

func (c catchUp) clone() *catchUp {
	c.shown = maps.Clone(c.shown)
	return &c
}

// oldestNewestFirst is the oldest time of the last answer that was newest first: where a gap would end.
func (c *catchUp) oldestNewestFirst() (oldest time.Time) {
	for _, t := range c.newest {
		if oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
	}
	return oldest
}

func newCatchUp() *catchUp { return &catchUp{shown: map[string]bool{}, total: -1} }

// verdict is why a window counts as closed; empty: it is open.
type verdict string

const (
	open           verdict = ""
	closedOverlap  verdict = "overlap"  // holds one that was known before
	closedStart    verdict = "start"    // reaches behind the insertion's start
	closedEmpty    verdict = "empty"    // there is none
	closedTotal    verdict = "total"    // as many as the total
	closedShort    verdict = "short"    // fewer than asked, and this service has returned more at once
	closedReversed verdict = "reversed" // both ends meet
	closedKnown    verdict = "known"    // nothing new in an order that cannot be checked, and nothing that speaks against it
)

// whole says whether the verdict proves that all contact requests were shown.
func (v verdict) whole() bool {
	return v == closedEmpty || v == closedTotal || v == closedShort || v == closedReversed
}

// judge adds an answer to the catch-up and says whether the window is closed by now. mostReturned is the largest number
// of contact requests that any answer to this agency has held before; start is the insertion's, in the API's clock.
func (c *catchUp) judge(i store.Insertion, start time.Time, a answer, d contactsDiff, mostReturned int) verdict {
	for id := range d.times {
		c.shown[id] = true
	}
	c.news += d.news
	capped := len(a.requests) == c.full // as many as when fewer were asked for: perhaps more are not shown
	if len(a.requests) == a.asked {
		c.full = max(c.full, a.asked)
	}
	c.total = a.total
	oldest, ordered := inspect(a)
	if !oldest.IsZero() && (c.oldest.IsZero() || oldest.Before(c.oldest)) {
		c.oldest = oldest
	}
	newest := a.sortBy == "createdAt" && a.descending
	newestFirst := ordered && newest
	if newestFirst {
		c.newest = d.times
	}
	refuted := a.total > len(c.shown)
	switch {
	case len(a.requests) == 0 && a.total <= 0:
		return closedEmpty
	case a.total >= 0 && a.total == len(c.shown):
		return closedTotal
	case len(a.requests) < min(a.asked, mostReturned) && !capped && !refuted && (d.overlap || d.known == 0) && newest:
		return closedShort
	case newestFirst && d.overlap:
		return closedOverlap
	case newestFirst && !oldest.IsZero() && oldest.Before(start):
		return closedStart
	case ordered && a.sortBy == "createdAt" && !a.descending && !refuted && c.meets(d.times):
		return closedReversed
	case c.news == 0 && len(a.requests) < a.asked && !capped && i.Polled && i.OpenSince.IsZero() && !refuted:
		return closedKnown
	}
	return open
}

// meets says whether the oldest ones, in an ascending answer, reach up into the newest ones. Two different times in
// common leave no room between the two ends; one alone might hide others of the same time. A single contact request is
// all there is if both ends show it; a service that shows one at a time and ignores the order could not be told from that.
func (c *catchUp) meets(ascending map[string]time.Time) bool {
	var common time.Time
	for id, t := range ascending {
		if _, both := c.newest[id]; !both {
			continue
		}
		if len(ascending) == 1 && len(c.newest) == 1 {
			return true
		}
		if !common.IsZero() && !common.Equal(t) {
			return true
		}
		common = t
	}
	return false
}

// inspect returns the oldest readable time of an answer, and whether its order is as asked: it is checked, not believed.
func inspect(a answer) (oldest time.Time, ordered bool) {
	ordered = a.sortBy == "createdAt"
	var last time.Time
	for n, r := range a.requests {
		t := r.CreatedAt
		if t.IsZero() {
			ordered = false
			continue
		}
		if oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
		if n > 0 && (a.descending && t.After(last) || !a.descending && t.Before(last)) {
			ordered = false
		}
		last = t
	}
	return oldest, ordered
}

// closeCatchUp is the insertion after a window was closed or given up. After the first catch-up the start moves back, so
// that late arrivals are news; not behind the oldest that was shown, because what slides in from below is not. What was
// shown is known by id, so the start stands just after it: there may be others of the same moment.
func closeCatchUp(i store.Insertion, c *catchUp, at time.Time, skew time.Duration) store.Insertion {
	if !i.Polled {
		i.Polled, i.LastWide = true, at
		back := i.Start.Add(-lateArrivals)
		if oldest := c.oldest.Add(-skew).Truncate(time.Millisecond).Add(time.Millisecond); !c.oldest.IsZero() && oldest.After(back) {
			back = oldest
		}
		if back.Before(i.Start) {
			i.Start = back
		}
	}
	i.Epoch++
	i.OpenSince = time.Time{}
	i.LastPoll = at
	return i
}

// mustWrite says whether an answer changes what is remembered of the insertion itself.
func mustWrite(i store.Insertion, d contactsDiff, v verdict) bool {
	if v == open {
		return d.news > 0 && i.OpenSince.IsZero()
	}
	return !i.Polled || !i.OpenSince.IsZero() || d.news > 0
}

// question is one way to ask for contact requests.
type question = listings.ContactRequestsQuery

func newestFirst(size int) question {
	return question{NumberOfItemsPerPage: size, SortBy: "createdAt", SortOrder: "desc"}
}

// otherOrders are asked when a window stays open and does not grow: the other end, then by score from both ends.
func otherOrders(size int) []question {
	return []question{
		{NumberOfItemsPerPage: size, SortBy: "createdAt", SortOrder: "asc"},
		{NumberOfItemsPerPage: size, SortBy: "score", SortOrder: "desc"},
		{NumberOfItemsPerPage: size, SortBy: "score", SortOrder: "asc"},
	}
}
