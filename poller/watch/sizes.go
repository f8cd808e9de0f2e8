package watch

import (
	"cmp"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// ladder are sizes that are asked for, one after the other, as long as a larger one brings more.
type ladder []int

var (
	windowSizes = ladder{20, 50, 100, 200, 500, 1000} // of contact requests, while a window stays open and the count grows
	pageSizes   = ladder{100, 200, 500, 1000}         // of insertions, each tried by a walk of its own
)

// above is the next larger size; 0: there is none.
func (l ladder) above(n int) int {
	for _, size := range l {
		if size > n {
			return size
		}
	}
	return 0
}

// below is the next smaller size; 0: there is none.
func (l ladder) below(n int) (below int) {
	for _, size := range l {
		if size < n {
			below = size
		}
	}
	return below
}

// atLeast is the smallest size that shows as many, or the largest.
func (l ladder) atLeast(n int) int { return cmp.Or(l.above(n-1), l[len(l)-1]) }

// WithoutNumber as a size asks for as many as the API likes.
const WithoutNumber = -1

// Sizes is what the answers of contact requests taught of an agency's windows: which numbers may be asked for, and whether what
// stands beside the records can be believed. Numbers are remembered with whatever is committed next; the rest is learned anew by
// every process.
type Sizes struct {
	Size, Largest int       // as in store.Dialect
	Most          int       // contact requests in the largest answer so far
	Probe         time.Time // when a number that was of no use may be asked for again
	Totals        bool      // a total was more than the count of its answer
	Rules         string    // under which contact requests are identified
}

// ProbeEvery is how often a number that was of no use is asked for again: a cap may have been lifted. ProbeFirst is when at first:
// after a start not at once, for there may be many starts.
const (
	ProbeEvery = 24 * time.Hour
	ProbeFirst = time.Hour
)

// SizesOf is what is remembered of an agency.
func SizesOf(state store.Agency, probe time.Time) Sizes {
	o := state.Operation(string(listings.OperationContactRequests))
	return Sizes{Size: o.Size, Largest: o.Largest, Most: state.MostReturned, Probe: probe}
}

// note writes what was learned into the state of the agency, and says whether there was something.
func (w Sizes) note(state *store.Agency) bool {
	op := string(listings.OperationContactRequests)
	o := state.Operation(op)
	if o.Size == w.Size && o.Largest == w.Largest && state.MostReturned == w.Most {
		return false
	}
	o.Size, o.Largest, state.MostReturned = w.Size, w.Largest, w.Most
	state.SetOperation(op, o)
	return true
}

// mayProbe says whether it is time to ask for a number that was of no use, and takes the turn.
func (w *Sizes) mayProbe(now time.Time) bool {
	if now.Before(w.Probe) {
		return false
	}
	w.Probe = now.Add(ProbeEvery)
	return true
}

// First are the numbers to begin a poll with: the first one, and those to try where it is refused.
func (w *Sizes) First(wish int, now time.Time) []int {
	small := windowSizes[0]
	switch {
	case w.Size == WithoutNumber && w.mayProbe(now):
		return []int{small, WithoutNumber}
	case w.Size == WithoutNumber:
		return []int{WithoutNumber, small}
	case wish > small:
		return []int{wish, small, WithoutNumber}
	}
	return []int{small, WithoutNumber}
}

// Answered learns which of the first sizes the API takes.
func (w *Sizes) Answered(size int) {
	if w.Size = 0; size == WithoutNumber {
		w.Size = size
	}
}

// Next is the number to ask for after an answer to a smaller one; 0 if none brings more.
func (w *Sizes) Next(asked, count int, now time.Time) int {
	if asked == 0 {
		asked = windowSizes[0]
	}
	size := windowSizes.above(max(asked, count))
	if size == 0 || w.Largest == 0 || size <= w.Largest || w.mayProbe(now) {
		return size
	}
	return 0
}

// Larger says whether Next would name a number, without asking for it.
func (w Sizes) Larger(asked, count int) bool {
	limit := windowSizes[len(windowSizes)-1]
	if w.Largest > 0 {
		limit = w.Largest
	}
	return max(asked, count) < limit
}

// Widest is the number that shows the most at once; 0: not learned.
func (w *Sizes) Widest(now time.Time) int {
	if w.Largest == 0 || w.mayProbe(now) {
		return windowSizes[len(windowSizes)-1]
	}
	return w.unrefused(w.Largest)
}

// unrefused is a number, or 0 where it is one of those that are known to be refused.
func (w Sizes) unrefused(size int) int {
	if w.Size == WithoutNumber && size <= windowSizes[0] {
		return 0
	}
	return size
}

// Below is the next smaller number to try after a refused one.
func (w Sizes) Below(size int) int {
	if w.Largest > 0 && w.Largest < size {
		return w.unrefused(w.Largest)
	}
	return w.unrefused(windowSizes.below(size))
}

// RefusedFirst learns that a first number was refused.
func (w *Sizes) RefusedFirst(size int) {
	if size > windowSizes[0] {
		w.Largest = w.Below(size)
	}
}

// Lift learns that a number was worth asking for, because of how many it brought.
func (w *Sizes) Lift(asked, count int) {
	if w.Largest > 0 && asked > w.Largest && count > w.Largest {
		w.Largest = asked
	}
}

// Observe learns whether the totals count more than the count of their own answer.
func (w *Sizes) Observe(total, count int) { w.Totals = w.Totals || total > count && count > 0 }

// LearnCap learns how many this service shows at most, after every number and order was asked for: where there are more than the answer
// to the largest held, it is as many as that.
func (w *Sizes) LearnCap(c *CatchUp, count, total int) {
	if c.Most == count && (len(c.Shown) > count || w.Totals && total > count) {
		w.Capped(count)
	}
}

// Capped learns that no answer holds more than count, whatever is asked for. What was returned at once before proves nothing any
// more.
func (w *Sizes) Capped(count int) { w.Largest, w.Most = CapOf(count), min(w.Most, count) }

// CapOf is the smallest number that shows as many as a service shows at most.
func CapOf(count int) int { return windowSizes.atLeast(count) }

// The larger a page of insertions, the fewer requests a walk costs. How many the API gives at once is found by asking for more with
// the first page of a walk: no request is made for that alone, unless it fails.

// pageAgain is how often a page that was too large is tried again; one that was fine before sooner.
const (
	pageAgain     = 7 * 24 * time.Hour
	lostPageAgain = 24 * time.Hour
)

// NextPage is the size to try beyond what is known after a walk; 0: none, because the list fits on a page as it is, or because a
// larger one would be too much for us or take too long.
func NextPage(d store.Dialect, v listings.Verdict, usual int, l listings.Limits) int {
	if !v.Complete || v.References <= v.Fullest || v.Fullest == 0 {
		return 0
	}
	size := pageSizes.above(max(usual, d.Largest, v.Fullest))
	times := float64(size) / float64(v.Fullest)
	if times*float64(v.Bytes) > float64(l.MaxBody)/2 || times*v.Took.Seconds() > l.Timeout.Seconds()/2 {
		return 0
	}
	return size
}

// LearnPage is what is known of the size of pages after a walk that was to be read with a larger one, beside the walk before.
func LearnPage(d store.Dialect, before, v listings.Verdict, larger int, l listings.Limits, now time.Time) store.Dialect {
	tried := larger > d.Largest
	switch {
	case v.TooLarge && tried:
		d.LargerAgain = now.Add(pageAgain)
	case v.TooLarge:
		d.Largest, d.LargerAgain = pageSizes.below(larger), now.Add(lostPageAgain)
	case !v.Complete || v.Size != larger: // nothing is known
	case v.Took > l.Timeout/2:
		d.Largest, d.LargerAgain = pageSizes.below(larger), now.Add(pageAgain)
	case !tried:
	case v.Fullest <= before.Fullest:
		d.LargerAgain = now.Add(pageAgain)
	default:
		d.Largest = larger
		if v.Fullest < larger && v.References > v.Fullest { // there is more: that is the API's bound
			d.Largest, d.LargerAgain = v.Fullest, now.Add(pageAgain)
		}
	}
	return d
}
