package poller

import (
	"errors"
	"testing"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// TestASettledResponseIsJudgedAgainWhereAnythingElseHasChanged changes, one at a time, everything that a judgement depends on.
func TestASettledResponseIsJudgedAgainWhereAnythingElseHasChanged(t *testing.T) {
	const reference = "a#1##"
	now := time.Now()
	for name, change := range map[string]func(a *agency, p *poll){
		"nothing": nil,
		"the insertion is written": func(a *agency, _ *poll) {
			must(t, a.p.store.Update(func(tx *store.Tx) error {
				return tx.PutInsertion(a.id, store.Insertion{Reference: reference, Episode: 1})
			}))
		},
		"a contact request is written": func(a *agency, _ *poll) {
			must(t, a.p.store.Update(func(tx *store.Tx) error {
				return tx.PutContactRequests(a.id, reference, store.ContactRequest{ID: "1"})
			}))
		},
		"a person is forgotten": func(a *agency, _ *poll) {
			_, err := a.p.store.Erase(a.id, []store.Request{{Reference: reference, ID: "1"}})
			must(t, err)
		},
		"counts are believed": func(a *agency, _ *poll) { a.learnShown(1, 2, time.Time{}) },
		"members are left out": func(a *agency, _ *poll) {
			a.snapshot.Store(&snapshot{state: store.Agency{Volatile: []store.Volatile{{Path: "/views"}}}})
		},
		"redactions are held": func(a *agency, _ *poll) {
			a.snapshot.Store(&snapshot{state: store.Agency{Redaction: &store.Held{}}})
		},
		"the clock was set back": func(_ *agency, p *poll) { p.state.at = now.Add(time.Hour) },
		"it is no longer polled": func(a *agency, p *poll) { a.forget(reference); p.state = a.pollState(reference) },
	} {
		t.Run(name, func(t *testing.T) {
			a := anAgency(t)
			must(t, a.p.store.Update(func(tx *store.Tx) error {
				return tx.PutContactRequests(a.id, reference, store.ContactRequest{ID: "1"})
			}))
			p := &poll{a: a, reference: reference, state: a.pollState(reference)}
			p.state.at = now.Add(-time.Minute)
			p.state.settled = settled{body: listings.Sum{1}, version: a.p.store.Version(a.id, reference)}
			if !p.isSettled(listings.Sum{1}) {
				t.Fatal("it is not settled")
			}
			if change == nil {
				return
			}
			if change(a, p); p.isSettled(listings.Sum{1}) {
				t.Error("it is still settled")
			}
		})
	}
}

// TestASettledPageIsReadAgainWhereAnythingElseHasChanged is the same of a page of the list.
func TestASettledPageIsReadAgainWhereAnythingElseHasChanged(t *testing.T) {
	a := anAgency(t)
	page := &listings.InsertionsPage{Insertions: []listings.Insertion{{Reference: "a#1##"}, {Reference: "a#2##"}}, Envelope: listings.Envelope{Sum: listings.Sum{1}}}
	settles := func() bool {
		w := &walk{Walk: watch.NewWalk(time.Now()), a: a, settled: map[listings.Sum]settledPage{}}
		must(t, w.page(page))
		a.settled = w.settled
		return len(w.settled) > 0
	}
	isKnown := func() bool { return a.settledPage(page.Sum) != nil }
	if settles() || !settles() || !isKnown() {
		t.Fatal("a page of new insertions is settled, or a page of known ones is not")
	}
	must(t, a.p.store.Update(func(tx *store.Tx) error {
		return tx.PutInsertion(a.id, store.Insertion{Reference: "a#2##", Episode: 1})
	}))
	if isKnown() {
		t.Error("it is settled although an insertion was written")
	}
	a.snapshot.Store(&snapshot{state: store.Agency{Volatile: []store.Volatile{{Path: "/views"}}}})
	if settles() {
		t.Error("it is settled although members are left out")
	}
}

func TestAPollIsJudgedByTheStateInTheStore(t *testing.T) {
	a := anAgency(t)
	must(t, a.p.store.Update(func(tx *store.Tx) error {
		state, _ := tx.Agency(a.id)
		state.SetBack = true // as the relay finds while the poller runs
		return errors.Join(tx.PutAgency(a.id, state),
			tx.PutInsertion(a.id, store.Insertion{Reference: "a#1##", Episode: 1}))
	}))
	p := &poll{a: a, reference: "a#1##"}
	must(t, p.commit(func(prior watch.Prior) (watch.Effects, error) {
		if !prior.State.SetBack {
			t.Error("it does not know that the store was set back")
		}
		return watch.Effects{}, nil
	}))
}
