package poller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/store"
)

// walks walks the agency's insertions again and again until ctx is done.
func (a *agency) walks(ctx context.Context) error {
	for {
		next, err := a.walkOnce(ctx)
		if err != nil {
			return err
		}
		if err := a.untilNextWalk(ctx, next); err != nil {
			return err
		}
	}
}

func (a *agency) untilNextWalk(ctx context.Context, wait time.Duration) error {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.walkNow:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// walkOnce reads all pages once and says when to do so again. The error is fatal; what the API does wrong is not.
func (a *agency) walkOnce(ctx context.Context) (next time.Duration, err error) {
	if a.isHalted(listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id}) {
		return time.Hour, ctx.Err() // resume wakes us
	}
	defer a.confirmed()
	w := &walk{a: a, began: time.Now().UTC(), seen: map[string]struct{}{}}
	pages := a.p.client.Walk(a.currentKey(), a.id, listings.WalkOptions{PageSize: a.p.o.PageSize, Filter: a.p.o.Filter})
	for page, err := range pages.Pages(ctx) {
		switch classify(err) {
		case classFatal, classCanceled:
			return 0, err
		case classWaiting:
			return 0, nil // the key has changed: from the start, with the new one
		case classRefused:
			if err := a.refusedList(err); err != nil {
				return a.afterCommitError(err)
			}
			return time.Hour, nil
		}
		if err != nil {
			break
		}
		if err := w.page(page); err != nil {
			return a.afterCommitError(err)
		}
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return a.endWalk(ctx, w, pages.Verdict())
}

// afterCommitError lets a full disk pass: nothing was changed, it is tried again.
func (a *agency) afterCommitError(err error) (time.Duration, error) {
	if !errors.Is(err, store.ErrNoSpace) {
		return 0, err
	}
	if a.note(err) {
		a.p.log.Error("polling waits for space", "agency", a.id, "err", err)
	}
	return 5 * time.Second, nil
}

func (a *agency) endWalk(ctx context.Context, w *walk, v listings.Verdict) (time.Duration, error) {
	again, err := w.end(v)
	if err != nil {
		return a.afterCommitError(err)
	}
	a.walked(w, v)
	if !v.Complete {
		now := time.Now()
		return min(time.Until(a.walking.failed(v.Reason, now, now)), a.p.o.WalkInterval), nil
	}
	a.walking.succeeded(time.Now())
	w.keepScheduled()
	if err := w.withdraw(ctx); err != nil {
		return a.afterCommitError(err)
	}
	if err := a.judgeRefused(w); err != nil {
		return a.afterCommitError(err)
	}
	if again {
		return 0, nil
	}
	return jitter(a.p.o.WalkInterval), nil
}

// walked keeps what the status shows of a walk.
func (a *agency) walked(w *walk, v listings.Verdict) {
	a.mu.Lock()
	a.lastWalk = WalkStatus{At: w.began, Took: time.Since(w.began), Complete: v.Complete, Reason: v.Reason, Pages: v.Pages, Insertions: v.References}
	a.known = w.published
	a.mu.Unlock()
	if a.note(v.Err) && v.Err != nil && classify(v.Err) != classDown {
		a.p.log.Warn("walk is partial", "agency", a.id, "reason", v.Reason, "err", v.Err, "hint", hint(v.Err))
	}
	a.p.log.Debug("walk", "agency", a.id, "complete", v.Complete, "reason", v.Reason, "pages", v.Pages, "insertions", v.References)
}

// hint says what to look at where an answer is not that of the API.
func hint(err error) string {
	if classify(err) == classDrift {
		return "is the base URL the address of the API?"
	}
	return ""
}

// jitter spreads an interval by a tenth, so that agencies do not march in step.
func jitter(d time.Duration) time.Duration {
	return d - d/20 + rand.N(d/10+1)
}

// walk is one reading of all pages.
type walk struct {
	a         *agency
	began     time.Time
	seen      map[string]struct{}
	fresh     int                 // references that were never seen before
	published int                 // insertions that are published after it
	absent    []string            // missed often enough to be told
	gone      map[string]struct{} // disappeared before
}

// page commits what a page tells: changed insertions and their events, in one transaction; nothing if nothing changed.
func (w *walk) page(page *listings.InsertionsPage) error {
	if err := w.a.learnClock(page.Envelope); err != nil {
		return err
	}
	page, digests, err := w.firstSights(page)
	if err != nil {
		return err
	}
	diff := func(tx *store.Tx, n int) (insertionDiff, error) { return w.diff(tx, page, n, digests[n]) }
	changed, err := w.look(page, diff)
	if err != nil || !changed {
		return err
	}
	return w.commit(page, diff)
}

// firstSights is the page with what this walk has not seen yet, and its digests. Where a reference stands twice, on
// pages that moved or because the API lists it so, the first sight of a walk decides, and of two on one page the smaller
// digest: else every walk would find a change. References that could not even be asked for are left out.
func (w *walk) firstSights(page *listings.InsertionsPage) (*listings.InsertionsPage, [][32]byte, error) {
	place := make(map[string]int, len(page.Insertions))
	first := &listings.InsertionsPage{Envelope: page.Envelope} // the page itself belongs to the walk of listings
	var digests [][32]byte
	for _, i := range page.Insertions {
		if !store.Storable(i.Reference) {
			w.a.p.log.Warn("an insertion without a usable reference is left out", "agency", w.a.id)
			continue
		}
		if _, seen := w.seen[i.Reference]; seen {
			continue
		}
		d, err := listings.Digest(i.Record, w.a.p.rules.ignoreInsertion)
		if err != nil {
			return nil, nil, fmt.Errorf("agency %s: page of insertions: %w", w.a.id, err)
		}
		n, twice := place[i.Reference]
		switch {
		case !twice:
			place[i.Reference] = len(first.Insertions)
			first.Insertions, digests = append(first.Insertions, i), append(digests, d)
		case bytes.Compare(d[:], digests[n][:]) < 0:
			first.Insertions[n], digests[n] = i, d
		}
	}
	for reference := range place {
		w.seen[reference] = struct{}{}
	}
	return first, digests, nil
}

// look says whether a page changes anything, without writing.
func (w *walk) look(page *listings.InsertionsPage, diff func(*store.Tx, int) (insertionDiff, error)) (changed bool, err error) {
	err = w.a.p.store.View(func(tx *store.Tx) error {
		for n := range page.Insertions {
			d, err := diff(tx, n)
			if err != nil {
				return err
			}
			changed = changed || d.write
		}
		return nil
	})
	return changed, err
}

func (w *walk) commit(page *listings.InsertionsPage, diff func(*store.Tx, int) (insertionDiff, error)) error {
	var published []schedule.Target
	fresh := 0
	err := w.a.p.store.Update(func(tx *store.Tx) error {
		published, fresh = published[:0], 0
		for n, i := range page.Insertions {
			d, err := diff(tx, n)
			if err != nil {
				return err
			}
			if err := w.put(tx, i, d); err != nil {
				return err
			}
			if d.fresh {
				fresh++
			}
			if d.published {
				published = append(published, schedule.Target{Agency: w.a.id, Reference: i.Reference})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.fresh += fresh
	for _, t := range published {
		w.a.admit(t.Reference) // a refusal of another episode says nothing
	}
	w.a.p.plan(func(s *schedule.Schedule) {
		for _, t := range published {
			s.Urge(t)
		}
	})
	return nil
}

func (w *walk) diff(tx *store.Tx, page *listings.InsertionsPage, n int, digest [32]byte) (insertionDiff, error) {
	read := page.Insertions[n]
	state, _, err := tx.Agency(w.a.id)
	if err != nil {
		return insertionDiff{}, err
	}
	var k known
	if k.Insertion, k.exists, err = tx.Insertion(w.a.id, read.Reference); err != nil {
		return insertionDiff{}, err
	}
	if k.exists && (k.Digest != digest || !k.GoneSince.IsZero()) {
		k.record = tx.Record(w.a.id, read.Reference)
	}
	s := sight{agencyID: w.a.id, at: page.Received.UTC(), after: state.LastCompleteWalk, emit: w.a.p.o.Announce}
	return diffInsertion(s, state, k, read, digest, w.a.p.rules), nil
}

func (w *walk) put(tx *store.Tx, read listings.Insertion, d insertionDiff) error {
	if !d.write {
		return nil
	}
	if err := tx.PutInsertion(w.a.id, d.next); err != nil {
		return err
	}
	if d.newRecord {
		if err := tx.PutRecord(w.a.id, read.Reference, read.Record); err != nil {
			return err
		}
	}
	if d.payload == nil {
		return nil
	}
	if d.fresh && d.next.Baseline {
		if err := countAnnounced(tx, w.a.id); err != nil {
			return err
		}
	}
	return appendEvent(tx, d.payload)
}

func countAnnounced(tx *store.Tx, agencyID string) error {
	state, _, err := tx.Agency(agencyID)
	if err != nil {
		return err
	}
	state.Announced++
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
