package poller

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// The larger a page, the fewer requests a walk costs. How many insertions the API gives at once is found by asking for more
// with the first page of a walk: no request is made for that alone, unless it fails.

// pageHabit is what is known of how large the pages of an agency's list may be.
type pageHabit struct {
	largest int       // that brought more than a smaller one; 0: the usual size
	again   time.Time // when a still larger one may be tried

	last listings.Verdict // of the last walk of this process
}

// largerPages are tried one after the other, each by a walk of its own.
var largerPages = []int{100, 200, 500, 1000}

// largerPageAgain is how often a page that was too large is tried again; one that was fine before sooner.
const (
	largerPageAgain = 7 * 24 * time.Hour
	lostPageAgain   = 24 * time.Hour
)

// largerPage is the size to read with where more than usual is known or hoped to do, and how many references the last walk
// has shown. 0: the usual size, also as long as walks fail: a larger one would be asked for in vain, and each try be two.
func (a *agency) largerPage(now time.Time) (size, known int, err error) {
	failures, _, _ := a.walking.state()
	a.mu.Lock()
	h := a.hearings[listings.OperationInsertions]
	page, published := h.page, a.known
	a.mu.Unlock()
	if !a.p.o.largerPages || h.size != 0 || failures > 0 {
		return 0, 0, nil
	}
	known = max(published, page.last.References)
	next := page.next(a.p.o.PageSize, a.p.client.Limits())
	if next == 0 || now.Before(page.again) {
		return page.largest, known, nil
	}
	var state store.Agency
	err = a.p.store.View(func(tx *store.Tx) (err error) {
		state, _, err = tx.Agency(a.id)
		return err
	})
	if err != nil || !state.Baselined {
		return page.largest, known, err
	}
	return next, known, nil
}

// next is the size to try beyond what is known; 0: none, because the list fits on a page as it is, or because a larger one
// would be too much for us or take too long.
func (p pageHabit) next(usual int, l listings.Limits) int {
	v := p.last
	if !v.Complete || v.References <= v.Fullest || v.Fullest == 0 {
		return 0
	}
	for _, size := range largerPages {
		if size <= max(usual, p.largest, v.Fullest) {
			continue
		}
		times := float64(size) / float64(v.Fullest)
		if times*float64(v.Bytes) > float64(l.MaxBody)/2 || times*v.Took.Seconds() > l.Timeout.Seconds()/2 {
			return 0
		}
		return size
	}
	return 0
}

// learn is what is known after a walk that was to be read with a larger size, or with the usual one.
func (p pageHabit) learn(larger int, v listings.Verdict, l listings.Limits, now time.Time) pageHabit {
	before := p.last
	if p.last = v; larger == 0 {
		return p
	}
	tried := larger > p.largest
	switch {
	case v.TooLarge && tried:
		p.again = now.Add(largerPageAgain)
	case v.TooLarge:
		p.largest, p.again = smallerPage(larger), now.Add(lostPageAgain)
	case !v.Complete || v.Size != larger: // nothing is known
	case v.Took > l.Timeout/2:
		p.largest, p.again = smallerPage(larger), now.Add(largerPageAgain)
	case !tried:
	case v.Fullest <= before.Fullest:
		p.again = now.Add(largerPageAgain)
	default:
		p.largest = larger
		if v.Fullest < larger && v.References > v.Fullest { // there is more: that is the API's bound
			p.largest, p.again = v.Fullest, now.Add(largerPageAgain)
		}
	}
	return p
}

// smallerPage is the size below another one; 0: the usual one.
func smallerPage(than int) (size int) {
	for _, s := range largerPages {
		if s < than {
			size = s
		}
	}
	return size
}

// learnPage remembers what a walk says about the size of pages.
func (a *agency) learnPage(larger int, v listings.Verdict, now time.Time) error {
	a.mu.Lock()
	h := a.hearings[listings.OperationInsertions]
	before := h.page
	h.page = before.learn(larger, v, a.p.client.Limits(), now.UTC())
	after := h.page
	a.mu.Unlock()
	if after.largest == before.largest && after.again.Equal(before.again) {
		return nil
	}
	a.p.log.Debug("size of pages", "agency", a.id, "tried", larger, "largest", after.largest)
	return a.updateOperation(listings.OperationInsertions, func(_ *store.Tx, o *store.Operation) error {
		o.Largest, o.LargerAgain = after.largest, after.again
		return nil
	})
}
