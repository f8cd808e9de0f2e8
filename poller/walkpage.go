package poller

import (
	"bytes"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// walk is one reading of all pages.
type walk struct {
	a         *agency
	began     time.Time
	pages     int // that were read
	seen      map[string]struct{}
	fresh     int                 // references that were never seen before
	published int                 // insertions that are published after it
	absent    []string            // missed often enough to be told
	gone      map[string]struct{} // disappeared before
	held      bool                // a change too large to believe waits

	appeared int            // references that were never seen before, or had disappeared
	listed   int            // of those that are published, or were by then
	waiting  []watch.Listed // those of them that are told only when the walk is over
	bytes    int            // of their records
	overflow bool           // there were too many to keep
	before   knownPages     // of the walk before
	after    knownPages     // of this one
	trusting bool           // the walk before has shown that nothing is to be held
	second   bool           // the walk before has shown a mass appearance
}

// page commits what a page tells: changed insertions and their events, in one transaction; nothing if nothing changed.
func (w *walk) page(page *listings.InsertionsPage) error {
	if err := w.a.learnClock(page.Envelope); err != nil {
		return err
	}
	if err := w.a.learn(listings.OperationInsertions, "", page.Dialect(), len(page.Insertions), page.Received); err != nil {
		return err
	}
	if page.Same {
		w.again(page)
		return nil
	}
	sights, err := w.postpone(w.firstSights(page))
	if err != nil {
		return err
	}
	if err := w.take(sights); err != nil {
		return err
	}
	w.remember(page, len(sights))
	return nil
}

// take commits what some sights tell, if they tell anything.
func (w *walk) take(sights []watch.Listed) error {
	d, err := w.look(sights)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(d.Insertions, func(i watch.InsertionDiff) bool { return i.Write }) {
		if err := w.commit(sights); err != nil {
			return err
		}
	}
	w.a.tellSeen(sights, d)
	return nil
}

// firstSights is what a page shows and this walk has not seen yet. Where a reference stands twice, on pages that moved or
// because the API lists it so, the first sight of a walk decides, and of two on one page the smaller digest: else every
// walk would find a change. References that could not even be asked for are left out.
func (w *walk) firstSights(page *listings.InsertionsPage) []watch.Listed {
	place := make(map[string]int, len(page.Insertions))
	var first []watch.Listed
	for _, i := range page.Insertions {
		if !store.Storable(i.Reference) {
			w.a.p.log.Warn("an insertion without a usable reference is left out", "agency", w.a.id)
			continue
		}
		if _, seen := w.seen[i.Reference]; seen {
			continue
		}
		sight := watch.Listed{Insertion: i, At: page.Received.UTC()}
		n, twice := place[i.Reference]
		switch {
		case !twice:
			place[i.Reference] = len(first)
			first = append(first, sight)
		case bytes.Compare(i.Digest[:], first[n].Digest[:]) < 0:
			first[n] = sight
		}
	}
	for reference := range place {
		w.seen[reference] = struct{}{}
	}
	return first
}

// look says what sights change, without writing.
func (w *walk) look(sights []watch.Listed) (d watch.PageDiff, err error) {
	err = w.a.p.store.View(func(tx *store.Tx) (err error) {
		d, err = w.diff(tx, sights)
		return err
	})
	return d, err
}

func (w *walk) commit(sights []watch.Listed) error {
	var published []newcomer
	fresh := 0
	err := w.a.p.store.Update(func(tx *store.Tx) error {
		published, fresh = nil, 0
		all, err := w.diff(tx, sights)
		if err != nil {
			return err
		}
		if err := putDrift(tx, w.a.id, listings.OperationInsertions, all.Drift, sights[0].At); err != nil {
			return err
		}
		announced := 0
		for n, s := range sights {
			d := all.Insertions[n]
			if d.Fresh && d.Next.Baseline && d.Write && d.Event != nil {
				announced++
			}
			if err := w.put(tx, s.Insertion, d); err != nil {
				return err
			}
			if d.Fresh {
				fresh++
			}
			if d.Published {
				published = append(published, w.a.newcomer(s.Insertion, d))
			}
		}
		return countAnnounced(tx, w.a.id, announced)
	})
	if err != nil {
		return err
	}
	w.fresh += fresh
	for _, n := range published {
		w.a.admit(n.reference) // a refusal of another episode says nothing
	}
	w.a.plan(published)
	return nil
}

// diff compares sights of one page with what the store holds of their references.
func (w *walk) diff(tx *store.Tx, sights []watch.Listed) (d watch.PageDiff, err error) {
	if len(sights) == 0 {
		return d, nil
	}
	state, _, err := tx.Agency(w.a.id)
	if err != nil {
		return d, err
	}
	all := make([]watch.Known, len(sights))
	for n, read := range sights {
		k := &all[n]
		if k.Insertion, k.Exists, err = tx.Insertion(w.a.id, read.Reference); err != nil {
			return d, err
		}
		if k.Exists && (k.Digest != read.Digest || !k.GoneSince.IsZero()) {
			k.Record = tx.Record(w.a.id, read.Reference)
		}
	}
	emit := w.a.p.o.Announce && state.BaselineReason != watch.BaselineFilter
	s := watch.Observation{AgencyID: w.a.id, At: sights[0].At, After: watch.LastWithout(state), Emit: emit}
	return watch.DiffPage(s, state, all, sights, w.a.p.rules), nil
}

func (w *walk) put(tx *store.Tx, read listings.Insertion, d watch.InsertionDiff) error {
	if !d.Write {
		return nil
	}
	if err := tx.PutInsertion(w.a.id, d.Next); err != nil {
		return err
	}
	if d.NewRecord {
		if err := tx.PutRecord(w.a.id, read.Reference, read.Record); err != nil {
			return err
		}
	}
	if d.Event == nil {
		return nil
	}
	return appendEvent(tx, d.Event)
}

// countAnnounced adds to the insertions that were announced while baselining.
func countAnnounced(tx *store.Tx, agencyID string, n int) error {
	if n == 0 {
		return nil
	}
	state, _, err := tx.Agency(agencyID)
	if err != nil {
		return err
	}
	state.Announced += n
	return tx.PutAgency(agencyID, state)
}

func appendEvent(tx *store.Tx, p events.Payload) error {
	e, err := events.New(p)
	if err != nil {
		return err
	}
	_, err = tx.Append(e)
	return err
}
