package watch

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// ladder are sizes that are asked for, one after the other, as long as a larger one brings more.
type ladder []int

var pageSizes = ladder{100, 200, 500, 1000} // of insertions, each tried by a walk of its own

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
