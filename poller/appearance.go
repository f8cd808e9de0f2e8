package poller

import (
	"doorbell/store"
)

// fewAppear is how many insertions may appear in one walk and be told page by page; of more the end of the walk is waited
// for. Only then it is known whether as many have vanished: the list of somebody else would be told as both.
const fewAppear = 5

// mostWaiting bounds the records that wait for the end of a walk, in bytes. With more of them another walk follows.
const mostWaiting = 16 << 20

// postpone keeps back what appears, where it is more than a few.
func (w *walk) postpone(sights []pageSight) (now []pageSight, err error) {
	var later []pageSight
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
	if err != nil || !baselined || w.trusting || w.appeared <= fewAppear {
		return sights, err
	}
	for _, s := range later {
		if w.bytes += len(s.Record); w.bytes > mostWaiting {
			w.overflow = true
			break
		}
		w.waiting = append(w.waiting, s)
	}
	return now, nil
}

// appear tells at the end of a walk what was kept back, unless it is held together with a mass disappearance; then it is
// found again by the next walk. It says whether another walk must follow to find what could not be kept.
func (w *walk) appear() (again bool, err error) {
	if w.held && w.appeared > fewAppear && w.appeared*10 > w.published*3 {
		for _, s := range w.waiting {
			delete(w.seen, s.Reference)
		}
		return false, nil
	}
	for _, page := range byPage(w.waiting) {
		if err := w.take(page); err != nil {
			return false, err
		}
	}
	w.published += len(w.waiting)
	return w.overflow, nil
}

// byPage parts sights by the page that showed them: each is one transaction.
func byPage(sights []pageSight) (pages [][]pageSight) {
	for n, s := range sights {
		if n == 0 || !s.at.Equal(sights[n-1].at) {
			pages = append(pages, nil)
		}
		pages[len(pages)-1] = append(pages[len(pages)-1], s)
	}
	return pages
}
