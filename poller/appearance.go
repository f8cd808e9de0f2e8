package poller

import (
	"doorbell/poller/watch"
	"doorbell/store"
)

// fewAppear is how many insertions may appear in one walk and be told page by page; of more the end of the walk is waited
// for. Only then it is known whether as many have vanished: the list of somebody else would be told as both.
const fewAppear = 5

// mostWaiting bounds the records that wait for the end of a walk, in bytes. With more of them another walk follows.
const mostWaiting = 16 << 20

// postpone keeps back what appears, where it is more than a few.
func (w *walk) postpone(sights []watch.Listed) (now []watch.Listed, err error) {
	var later []watch.Listed
	baselined := false
	err = w.a.p.store.View(func(tx *store.Tx) error {
		now, later = nil, nil
		state, _, err := tx.Agency(w.a.id)
		if err != nil {
			return err
		}
		baselined = state.Baselined
		for _, s := range sights {
			i, exists, err := tx.Insertion(w.a.id, s.Reference)
			if err != nil {
				return err
			}
			if exists && i.GoneSince.IsZero() {
				now = append(now, s)
			} else {
				later = append(later, s)
			}
		}
		return nil
	})
	w.appeared += len(later)
	w.listed += len(now)
	if err != nil || !baselined || w.trusting || w.appeared <= fewAppear {
		w.listed += len(later)
		return sights, err
	}
	for _, s := range later {
		if w.bytes += len(s.Record); w.bytes > mostWaiting {
			w.overflow = true
			delete(w.seen, s.Reference) // nothing remembers it, so nobody may poll it
			continue
		}
		w.waiting = append(w.waiting, s)
	}
	return now, nil
}

// appear tells at the end of a walk what was kept back. A mass appearance is told only by a second walk in a row, because
// the first may have begun in our list and ended in that of somebody else; and not while it is held together with a mass
// disappearance, or where most of what is known was not seen. What is not told is found again by the next walk. It says
// whether another walk is to follow at once.
func (w *walk) appear() (again bool, err error) {
	mass := w.appeared > fewAppear && w.appeared*10 > w.published*3
	if !w.held { // it may be that of a walk that is not complete
		_, w.held = watch.Implausible(w.published-w.listed, w.published, w.listed)
	}
	first := mass && !w.second && !w.trusting
	w.a.second, w.a.trusting = first && !w.held, false
	if mass && (w.held || first) {
		for _, s := range w.waiting {
			delete(w.seen, s.Reference)
		}
		return w.a.second, nil
	}
	for _, page := range byPage(w.waiting) {
		if err := w.take(page); err != nil {
			return false, err
		}
	}
	w.published += len(w.waiting)
	w.a.trusting = w.overflow
	return w.overflow, nil
}

// byPage parts sights by the page that showed them: each is one transaction.
func byPage(sights []watch.Listed) (pages [][]watch.Listed) {
	for n, s := range sights {
		if n == 0 || !s.At.Equal(sights[n-1].At) {
			pages = append(pages, nil)
		}
		pages[len(pages)-1] = append(pages[len(pages)-1], s)
	}
	return pages
}
