package watch

import (
	"bytes"
	"cmp"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// Walk is one reading of all pages of an agency's insertions, as far as it has come.
type Walk struct {
	Began     time.Time
	Seen      map[string]struct{} // references, but for those that are left to the next walk
	Fresh     int                 // of those that are announced: never seen before
	Appearing Appearing

	waiting       []Listed // announced only when the walk is over
	bytes         int      // of their records
	before, after KnownPages
}

// NewWalk begins a walk after one that has read these pages.
func NewWalk(before KnownPages, now time.Time) *Walk {
	return &Walk{Began: now.UTC(), Seen: map[string]struct{}{}, before: before, after: KnownPages{}}
}

// KnownPages are the pages that the next walk need not read again.
func (w *Walk) KnownPages() KnownPages { return w.after }

// Unseen is what a page shows that this walk has not seen yet. Where a reference stands twice, on pages that moved or because the API
// lists it so, the first record of a walk decides, and of two on one page the smaller digest: else every walk would find a change.
// References that could not even be asked for are left out.
func (w *Walk) Unseen(page *listings.InsertionsPage) (first []Listed, unusable int) {
	place := make(map[string]int, len(page.Insertions))
	for _, i := range page.Insertions {
		if !store.Storable(i.Reference) {
			unusable++
			continue
		}
		if _, seen := w.Seen[i.Reference]; seen {
			continue
		}
		one := Listed{Insertion: i, At: page.Received.UTC()}
		n, twice := place[i.Reference]
		switch {
		case !twice:
			place[i.Reference] = len(first)
			first = append(first, one)
		case bytes.Compare(i.Digest[:], first[n].Digest[:]) < 0:
			first[n] = one
		}
	}
	for reference := range place {
		w.Seen[reference] = struct{}{}
	}
	return first, unusable
}

// mostWaiting bounds the records that wait for the end of a walk, in bytes, but for the last of them. What is more is found again by a
// walk that follows.
const mostWaiting = 16 << 20

// Postpone keeps back what appears, where it is more than a few and no baseline, and returns the rest. published says which references
// are.
func (w *Walk) Postpone(listed []Listed, baselined bool, published func(reference string) bool) (now []Listed) {
	var later []Listed
	for _, s := range listed {
		if published(s.Reference) {
			now = append(now, s)
		} else {
			later = append(later, s)
		}
	}
	a := &w.Appearing
	a.New += len(later)
	a.Listed += len(now)
	if !baselined || !a.Many() {
		a.Listed += len(later)
		return listed
	}
	for _, s := range later {
		if w.bytes >= mostWaiting {
			a.Left = append(a.Left, s.Reference)
			delete(w.Seen, s.Reference) // it is not remembered, so it must not be polled
			continue
		}
		w.bytes += len(s.Record)
		a.Waits = append(a.Waits, s.Reference)
		w.waiting = append(w.waiting, s)
	}
	return now
}

// Appeared is what was kept back and is believed at the end of the walk, by the page that showed it. The rest is left to the next walk.
func (w *Walk) Appeared(e WalkEnd) (pages [][]Listed) {
	for _, s := range w.waiting {
		if _, believed := e.Appeared[s.Reference]; !believed {
			delete(w.Seen, s.Reference)
			continue
		}
		if last := len(pages) - 1; last >= 0 && pages[last][0].At.Equal(s.At) {
			pages[last] = append(pages[last], s)
		} else {
			pages = append(pages, []Listed{s})
		}
	}
	return pages
}

// KnownPages are the pages of the last walk that need not be looked at when they come again, by the hashes of their bodies and
// of their records: every reference on them is published, and what the store holds of it was decided by that page and no
// other. Who was missed by a walk, or was shown otherwise elsewhere, stands on no page that is known to the next one.
type KnownPages map[listings.Sum]*knownPage

func (k KnownPages) find(page *listings.InsertionsPage) *knownPage {
	return cmp.Or(k[page.Body], k[page.Records])
}

func (k KnownPages) add(page *listings.InsertionsPage, p *knownPage) {
	k[page.Body], k[p.records] = p, p
}

// knownPage is a page that a walk has read, and the sum of its records.
type knownPage struct {
	listings.KnownPage
	records listings.Sum
}

// Known is what the client need not read again of the pages of the walk before.
func (w *Walk) Known(h listings.Sum) *listings.KnownPage {
	if p := w.before[h]; p != nil {
		return &p.KnownPage
	}
	return nil
}

// Again takes a page of which everything is known, and says which of its records this walk sees for the first time, and whether it has
// taken the page before: page 1 may be the first one once more. The page stays known, unless another one of this walk has decided about
// one of its references.
func (w *Walk) Again(page *listings.InsertionsPage) (first []bool, repeated bool) {
	p := w.before.find(page)
	repeated = w.after[p.records] != nil
	first = make([]bool, len(page.Insertions))
	decided := true
	for n, i := range page.Insertions {
		if _, seen := w.Seen[i.Reference]; seen {
			decided = false
			continue
		}
		first[n] = true
		w.Seen[i.Reference] = struct{}{}
		w.Appearing.Listed++
	}
	if decided && !repeated {
		w.after.add(page, p)
	}
	return first, repeated
}

// Remember keeps a page that was committed, where all that is on it was decided by it.
func (w *Walk) Remember(page *listings.InsertionsPage, decided int) {
	if !page.Found || page.Unreadable > 0 || len(page.Insertions) == 0 || decided != len(page.Insertions) {
		return
	}
	p := &knownPage{listings.KnownPage{Path: page.Path, Total: page.Total, References: make([]string, 0, len(page.Insertions))}, page.Records}
	for _, i := range page.Insertions {
		p.References = append(p.References, i.Reference)
		p.Bytes += len(i.Record)
	}
	w.after.add(page, p)
}
