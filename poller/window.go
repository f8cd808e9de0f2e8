package poller

import (
	"maps"
	"slices"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// catchUp is what the answers of one poll have shown so far. A window is closed when it surely leaves nothing unseen
// between itself and what was known before.
type catchUp struct {
	shown  map[string]bool // ids of all answers
	oldest time.Time       // oldest readable creation time of all answers
	newest end             // the last answer that was asked newest first
	upTo   time.Time       // newest of the last answer that was asked oldest first, and was so
	full   int             // contact requests in the largest answer that was as large as asked
	most   int             // contact requests in the largest answer
	total  int             // as last told, -1 unknown
	news   int
	whole  bool // the last answer looks like all there is
}

// end is an answer as it stands at one end of the list.
type end struct {
	ids     []string // in its order
	times   map[string]time.Time
	oldest  time.Time
	ordered bool // it is in the order that was asked for, and no older answer than one before it
	cut     bool // it may end because of its size
	hidden  int  // contact requests that are remembered and not in it
}

func newCatchUp() *catchUp { return &catchUp{shown: map[string]bool{}, total: -1} }

func (c catchUp) clone() *catchUp {
	c.shown = maps.Clone(c.shown)
	return &c
}

// all says whether the last answer looks like all there is, and no other order showed more.
func (c *catchUp) all() bool { return c.whole && len(c.shown) == len(c.newest.ids) }

// verdict is why a window counts as closed; empty: it is open.
type verdict string

const (
	open           verdict = ""
	closedOverlap  verdict = "overlap"  // reaches one that was known before
	closedStart    verdict = "start"    // reaches behind the insertion's start
	closedEmpty    verdict = "empty"    // there is none
	closedTotal    verdict = "total"    // as many as the total
	closedShort    verdict = "short"    // fewer than asked, and this service has returned more at once
	closedReversed verdict = "reversed" // both ends meet
	closedKnown    verdict = "known"    // nothing new, and nothing that speaks for more
	closedGivenUp  verdict = "given up" // nothing that can be asked shows more
)

// circumstances is what an answer is judged by, beside itself. Times are in the API's clock.
type circumstances struct {
	insertion store.Insertion
	known     []store.ContactRequest // what is remembered of it, before this answer
	start     time.Time              // what was created before it is old
	looked    time.Time              // the last good look before this catch-up
	most      int                    // the most contact requests that this service has returned at once
	totals    bool                   // its totals are more than the count of the answer that tells them
	larger    bool                   // a larger number may bring more
	hidden    int                    // how many of those remembered were not shown when the last window closed; -1 unknown
}

// judge adds an answer to the catch-up and says whether the window is closed by now.
func (c *catchUp) judge(s circumstances, a answer, d contactsDiff) verdict {
	for id := range d.times {
		c.shown[id] = true
	}
	c.news += d.news
	c.total = a.total
	count := len(a.requests) + a.unreadable
	oldest, ordered := inspect(a)
	if !oldest.IsZero() && (c.oldest.IsZero() || oldest.Before(c.oldest)) {
		c.oldest = oldest
	}
	newest := a.sortBy == "createdAt" && a.descending
	ordered = ordered && (!newest || s.current(d, oldest))
	e := end{d.ids, d.times, oldest, ordered, a.asked == 0 || count >= a.asked || count == c.full, s.notRecalled(d)}
	c.most = max(c.most, count)
	if count == a.asked {
		c.full = max(c.full, a.asked)
	}
	if a.sortBy == "createdAt" && !a.descending {
		refuted := a.unreadable > 0 || a.total > len(c.shown) && len(e.ids) == 1
		return c.fromOldest(e, s.current(d, time.Time{}), refuted)
	}
	if newest {
		c.newest = e
		c.whole = count < s.most && !e.cut && e.hidden == 0 && a.unreadable == 0 && a.total <= count
	}
	switch {
	case count == 0 && a.total <= 0 && (len(s.known) == 0 || s.insertion.OpenSince.IsZero()):
		c.whole = len(s.known) == 0
		return closedEmpty
	case a.unreadable == 0 && a.total >= 0 && a.total == len(c.shown) && (s.totals || a.total > count):
		c.whole = true
		return closedTotal
	case newest && ordered && s.overlaps(d, e):
		return closedOverlap
	case newest && ordered && !oldest.IsZero() && oldest.Before(s.start):
		return closedStart
	case newest && c.news == 0 && s.settled(e):
		return closedKnown
	}
	return open
}

// fromOldest judges an answer from the other end of the list: it proves that all was seen where both ends meet.
func (c *catchUp) fromOldest(e end, current, refuted bool) verdict {
	if e.ordered {
		for _, t := range e.times {
			if t.After(c.upTo) {
				c.upTo = t
			}
		}
	}
	if refuted || !c.meets(e) && !(current && c.backwards(e)) {
		return open
	}
	c.whole = true
	return closedReversed
}

// backwards says whether an answer is the newest one, turned round: then it is all there is, whatever it is sorted by. A
// single contact request is all there is if both ends show it, unless a total tells of more; a service that shows one at
// a time and ignores the order could not be told from that.
func (c *catchUp) backwards(e end) bool {
	ids := slices.Clone(e.ids)
	slices.Reverse(ids)
	return len(ids) > 0 && slices.Equal(ids, c.newest.ids)
}

// meets says whether the oldest ones reach up into the newest ones. Two different times in common leave no room between
// the two ends; one alone might hide others of the same time.
func (c *catchUp) meets(e end) bool {
	if !e.ordered || !c.newest.ordered {
		return false
	}
	var common time.Time
	for id, t := range e.times {
		if _, both := c.newest.times[id]; !both || t.IsZero() {
			continue
		}
		if !common.IsZero() && !common.Equal(t) {
			return true
		}
		common = t
	}
	return false
}

// overlaps says whether an answer that is newest first reaches what was known before this catch-up. It does where it
// holds one that was created before the last look: what came since then stands above it, unless it is late. One that was
// created later, by a clock that is ahead, says nothing: it may stand above all news for ever. Where it is the last one,
// others of its moment may have been cut off.
func (s circumstances) overlaps(d contactsDiff, e end) bool {
	last := false
	for _, t := range d.before {
		switch {
		case t.IsZero() || t.After(s.looked):
		case t.After(e.oldest):
			return true
		default:
			last = true
		}
	}
	if !e.cut {
		return last
	}
	tie := slices.ContainsFunc(d.fresh, e.oldest.Equal)
	return last && !tie && !s.larger
}

// settled says whether an answer without news needs no other: it is newest first, or shows no less than when the last
// window was closed.
func (s circumstances) settled(e end) bool {
	if !s.insertion.Polled || !s.insertion.OpenSince.IsZero() {
		return false
	}
	return e.ordered || s.hidden >= e.hidden && (!e.cut || !s.larger)
}

// current says whether an answer holds those that earlier answers of the same catch-up showed, as far as it reaches. One
// that does not comes from a cache or a replica that is behind: it proves nothing.
func (s circumstances) current(d contactsDiff, oldest time.Time) bool {
	for _, k := range s.known {
		if k.Epoch == s.insertion.Epoch && k.CreatedAt.After(oldest) && !d.recalled[k.ID] {
			return false
		}
	}
	return true
}

// notRecalled counts those that are remembered and that an answer does not hold.
func (s circumstances) notRecalled(d contactsDiff) (n int) {
	for _, k := range s.known {
		if !d.recalled[k.ID] {
			n++
		}
	}
	return n
}

// inspect returns the oldest readable time of an answer, and whether its order is as asked: it is checked, not believed.
// A few unreadable times are stepped over.
func inspect(a answer) (oldest time.Time, ordered bool) {
	ordered = a.sortBy == "createdAt"
	var last time.Time
	readable := 0
	for _, r := range a.requests {
		t := r.CreatedAt
		if t.IsZero() {
			continue
		}
		if oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
		if readable > 0 && (a.descending && t.After(last) || !a.descending && t.Before(last)) {
			ordered = false
		}
		last = t
		readable++
	}
	return oldest, ordered && 2*readable >= len(a.requests)
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

// settlesAtOnce says whether an answer is a catch-up of its own, begun and closed. Then nothing changes of the insertion itself:
// what is learned counts as learned before its Epoch. To write it would cost a commit two pages more.
// Where a clock that was ahead has written it, it is written again, for a time to come must not stay.
func settlesAtOnce(i store.Insertion, v verdict, at time.Time) bool {
	return v != open && i.Polled && i.OpenSince.IsZero() && i.Epoch > 0 && !i.LastPoll.After(at)
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

func oldestFirst(size int) question {
	return question{NumberOfItemsPerPage: size, SortBy: "createdAt", SortOrder: "asc"}
}

// byScore are the questions that are left when both ends do not meet.
func byScore(size int) []question {
	return []question{
		{NumberOfItemsPerPage: size, SortBy: "score", SortOrder: "desc"},
		{NumberOfItemsPerPage: size, SortBy: "score", SortOrder: "asc"},
	}
}
