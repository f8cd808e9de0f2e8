package watch

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// CatchUp is what the answers of one poll have shown so far. A window is closed when it surely leaves nothing unseen
// between itself and what was known before.
type CatchUp struct {
	Shown  map[string]bool // ids of all answers
	oldest time.Time       // oldest readable creation time of all answers
	Newest end             // the last answer that was asked newest first
	UpTo   time.Time       // newest of the last answer that was asked oldest first, and was so
	full   int             // contact requests in the largest answer that was as large as asked
	Most   int             // contact requests in the largest answer
	Total  int             // as last stated, -1 unknown
	New    int
	Whole  bool // the last answer looks like all there is
}

// end is an answer as it stands at one end of the list.
type end struct {
	IDs     []string // in its order
	times   map[string]time.Time
	Oldest  time.Time
	Ordered bool // it is in the order that was asked for, and no older answer than one before it
	Cut     bool // it may end because of its size
	Hidden  int  // contact requests that are remembered and not in it
}

func NewCatchUp() *CatchUp { return &CatchUp{Shown: map[string]bool{}, Total: -1} }

func (c CatchUp) Clone() *CatchUp {
	c.Shown = maps.Clone(c.Shown)
	return &c
}

// All says whether the last answer looks like all there is, and no other order showed more.
func (c *CatchUp) All() bool { return c.Whole && len(c.Shown) == len(c.Newest.IDs) }

// Verdict is why a window counts as closed; empty: it is open.
type Verdict string

const (
	Open           Verdict = ""
	ClosedOverlap  Verdict = "overlap"  // reaches one that was known before
	closedStart    Verdict = "start"    // reaches behind the insertion's start
	closedEmpty    Verdict = "empty"    // there is none
	closedTotal    Verdict = "total"    // as many as the total
	ClosedShort    Verdict = "short"    // fewer than asked, and this service has returned more at once
	closedReversed Verdict = "reversed" // both ends meet
	closedKnown    Verdict = "known"    // nothing new, and nothing that speaks for more
	ClosedGivenUp  Verdict = "given up" // nothing that can be asked shows more
)

// circumstances is what an answer is judged by, beside itself. Times are in the API's clock.
type circumstances struct {
	Insertion store.Insertion
	Known     []store.ContactRequest // what is remembered of it, before this answer
	Start     time.Time              // what was created before it is old
	Looked    time.Time              // the last good look before this catch-up
	Most      int                    // the most contact requests that this service has returned at once
	Totals    bool                   // its totals are more than the count of the answer that states them
	Larger    bool                   // a larger number may bring more
	Hidden    int                    // how many of those remembered were not shown when the last window closed; -1 unknown
}

// judge adds an answer to the catch-up and says whether the window is closed by now.
func (c *CatchUp) judge(s circumstances, a Answer, d contactsDiff) Verdict {
	for id := range d.times {
		c.Shown[id] = true
	}
	c.New += d.New
	c.Total = a.Total
	count := len(a.Requests) + a.Unreadable
	oldest, ordered := inspect(a)
	if !oldest.IsZero() && (c.oldest.IsZero() || oldest.Before(c.oldest)) {
		c.oldest = oldest
	}
	newest := a.SortBy == "createdAt" && a.Descending
	ordered = ordered && (!newest || s.current(d, oldest))
	e := end{d.ids, d.times, oldest, ordered, a.Asked == 0 || count >= a.Asked || count == c.full, s.notRecalled(d)}
	c.Most = max(c.Most, count)
	if count == a.Asked {
		c.full = max(c.full, a.Asked)
	}
	if a.SortBy == "createdAt" && !a.Descending {
		refuted := a.Unreadable > 0 || a.Total > len(c.Shown) && len(e.IDs) == 1
		return c.fromOldest(e, s.current(d, time.Time{}), refuted)
	}
	if newest {
		c.Newest = e
		c.Whole = count < s.Most && !e.Cut && e.Hidden == 0 && a.Unreadable == 0 && a.Total <= count
	}
	switch {
	case count == 0 && a.Total <= 0 && (len(s.Known) == 0 || s.Insertion.OpenSince.IsZero()):
		c.Whole = len(s.Known) == 0
		return closedEmpty
	case a.Unreadable == 0 && a.Total >= 0 && a.Total == len(c.Shown) && (s.Totals || a.Total > count):
		c.Whole = true
		return closedTotal
	case newest && ordered && s.overlaps(d, e):
		return ClosedOverlap
	case newest && ordered && !oldest.IsZero() && oldest.Before(s.Start):
		return closedStart
	case newest && c.New == 0 && s.settled(e):
		return closedKnown
	}
	return Open
}

// fromOldest judges an answer from the other end of the list: it proves that all was seen where both ends meet.
func (c *CatchUp) fromOldest(e end, current, refuted bool) Verdict {
	if e.Ordered {
		for _, t := range e.times {
			if t.After(c.UpTo) {
				c.UpTo = t
			}
		}
	}
	if refuted || !c.meets(e) && !(current && c.backwards(e)) {
		return Open
	}
	c.Whole = true
	return closedReversed
}

// backwards says whether an answer is the newest one, turned round: then it is all there is, whatever it is sorted by. A
// single contact request is all there is if both ends show it, unless a total counts more; a service that shows one at
// a time and ignores the order could not be told from that.
func (c *CatchUp) backwards(e end) bool {
	ids := slices.Clone(e.IDs)
	slices.Reverse(ids)
	return len(ids) > 0 && slices.Equal(ids, c.Newest.IDs)
}

// meets says whether the oldest ones reach up into the newest ones. Two different times in common leave no room between
// the two ends; one alone might hide others of the same time.
func (c *CatchUp) meets(e end) bool {
	if !e.Ordered || !c.Newest.Ordered {
		return false
	}
	var common time.Time
	for id, t := range e.times {
		if _, both := c.Newest.times[id]; !both || t.IsZero() {
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
// created later, by a clock that is ahead, says nothing: it may stand above all new ones for ever. Where it is the last one,
// others of its moment may have been cut off.
func (s circumstances) overlaps(d contactsDiff, e end) bool {
	last := false
	for _, t := range d.before {
		switch {
		case t.IsZero() || t.After(s.Looked):
		case t.After(e.Oldest):
			return true
		default:
			last = true
		}
	}
	if !e.Cut {
		return last
	}
	tie := slices.ContainsFunc(d.fresh, e.Oldest.Equal)
	return last && !tie && !s.Larger
}

// settled says whether an answer with nothing new needs no other: it is newest first, or shows no less than when the last
// window was closed.
func (s circumstances) settled(e end) bool {
	if !s.Insertion.Polled || !s.Insertion.OpenSince.IsZero() {
		return false
	}
	return e.Ordered || s.Hidden >= e.Hidden && (!e.Cut || !s.Larger)
}

// current says whether an answer holds those that earlier answers of the same catch-up showed, as far as it reaches. One
// that does not comes from a cache or a replica that is behind: it proves nothing.
func (s circumstances) current(d contactsDiff, oldest time.Time) bool {
	for _, k := range s.Known {
		if k.Epoch == s.Insertion.Epoch && k.CreatedAt.After(oldest) && !d.recalled[k.ID] {
			return false
		}
	}
	return true
}

// notRecalled counts those that are remembered and that an answer does not hold.
func (s circumstances) notRecalled(d contactsDiff) (n int) {
	for _, k := range s.Known {
		if !d.recalled[k.ID] {
			n++
		}
	}
	return n
}

// inspect returns the oldest readable time of an answer, and whether its order is as asked: it is checked, not believed.
// A few unreadable times are stepped over.
func inspect(a Answer) (oldest time.Time, ordered bool) {
	ordered = a.SortBy == "createdAt"
	var last time.Time
	readable := 0
	for _, r := range a.Requests {
		t := r.CreatedAt
		if t.IsZero() {
			continue
		}
		if oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
		if readable > 0 && (a.Descending && t.After(last) || !a.Descending && t.Before(last)) {
			ordered = false
		}
		last = t
		readable++
	}
	return oldest, ordered && 2*readable >= len(a.Requests)
}

// closeCatchUp is the insertion after a window was closed or given up. After the first catch-up the start moves back, so
// that late arrivals are live; not behind the oldest that was shown, because what slides in from below is not. What was
// shown is known by id, so the start stands just after it: there may be others of the same moment.
func closeCatchUp(i store.Insertion, c *CatchUp, at time.Time, skew time.Duration) store.Insertion {
	if !i.Polled {
		i.Polled, i.LastWide = true, at
		back := i.Start.Add(-LateArrivals)
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
func mustWrite(i store.Insertion, d contactsDiff, v Verdict) bool {
	if v == Open {
		return d.New > 0 && i.OpenSince.IsZero()
	}
	return !i.Polled || !i.OpenSince.IsZero() || len(d.Puts) > 0
}

// Question is one way to ask for contact requests.
type Question = listings.ContactRequestsQuery

func NewestFirst(size int) Question {
	return Question{NumberOfItemsPerPage: size, SortBy: "createdAt", SortOrder: "desc"}
}

func OldestFirst(size int) Question {
	return Question{NumberOfItemsPerPage: size, SortBy: "createdAt", SortOrder: "asc"}
}

// ByScore are the questions that are left when both ends do not meet.
func ByScore(size int) []Question {
	return []Question{
		{NumberOfItemsPerPage: size, SortBy: "score", SortOrder: "desc"},
		{NumberOfItemsPerPage: size, SortBy: "score", SortOrder: "asc"},
	}
}

// rulesOf names what decides which contact requests are the same, and where they stand.
func rulesOf(state store.Agency, d contactsDiff) string {
	o := state.Operation(string(listings.OperationContactRequests))
	return state.IDField + "/" + strconv.Itoa(d.Fields) + "/" + strconv.FormatBool(o.Learned) + o.Path
}
