package poller

import (
	"context"
	"errors"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// walks walks the agency's insertions repeatedly until ctx is done.
func (a *agency) walks(ctx context.Context) error {
	for {
		next, err := a.walkOnce(ctx)
		if err == nil {
			err = a.endForgotten()
		}
		if err != nil {
			return err
		}
		if err := await(ctx, a.walkNow, next); err != nil {
			return err
		}
	}
}

// walkOnce reads all pages once and returns how long to wait before the next walk. An error is one
// of a commit or of ctx; failures of the API are not returned.
func (a *agency) walkOnce(ctx context.Context) (next time.Duration, err error) {
	if a.isHalted(listings.OperationInsertions, "") && !a.access().Untried() {
		return time.Hour, ctx.Err() // the end of the halt wakes it
	}
	w := &walk{Walk: watch.NewWalk(time.Now()), a: a, settled: map[listings.Sum]settledPage{}}
	defer w.scheduleFound()
	o := listings.WalkOptions{
		Filter: a.p.o.Filter, Place: a.place(listings.OperationInsertions),
		Size:    a.published().state.Operation(string(listings.OperationInsertions)).Size,
		Settled: a.settledPage,
	}
	pages := a.p.client.Walk(a.key(), a.id, o)
	for page, err := range pages.Pages(ctx) {
		switch watch.Classify(err) {
		case watch.ClassFatal, watch.ClassCanceled:
			return 0, err
		case watch.ClassWaiting:
			return 0, nil
		case watch.ClassRefused:
			noted := a.noteFailure(listings.OperationInsertions, "", watch.ClassRefused, err)
			return time.Hour, errors.Join(noted, a.refused(err))
		}
		if err != nil {
			break
		}
		if err := a.answered(listings.OperationInsertions, ""); err != nil {
			return 0, err
		}
		// that walks stay partial is another alarm
		a.excuse(listings.OperationInsertions, time.Now())
		if err := w.page(page); err != nil {
			return 0, err
		}
		if time.Since(w.Began) >= longestWalk {
			w.scheduleFound()
		}
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return a.endWalk(w, pages.Verdict())
}

// endWalk commits what the walk as a whole shows, and returns how long to wait before the next one.
func (a *agency) endWalk(w *walk, v listings.Verdict) (next time.Duration, err error) {
	if err := w.end(v); err != nil {
		return 0, err
	}
	a.walked(w, v)
	if v.Complete {
		a.settled = w.settled
		if a.walking.succeeded(time.Now()) {
			a.p.log.Info("walks are complete again", "agency", a.id, "insertions", v.References)
		}
		if next = jitter(a.p.o.WalkInterval); w.ended.Again {
			next = 0
		}
		err = errors.Join(w.keepScheduled(),
			a.noteSuccess(listings.OperationInsertions, "", time.Now()))
	} else {
		now := time.Now()
		err = a.notePartial(v)
		next = min(time.Until(a.walking.failed(v.Reason, now, now)), a.p.o.WalkInterval)
	}
	return next, errors.Join(err, a.decideRefusals(watch.Listing{
		Complete: v.Complete, Began: w.Began, Seen: w.Seen, Gone: w.ended.Gone,
		Published: w.ended.Published,
	}))
}

// notePartial records in the health of the list why a walk is not complete: a failure, or odd
// paging by the API.
func (a *agency) notePartial(v listings.Verdict) error {
	if v.Err != nil {
		return a.noteFailure(listings.OperationInsertions, "", watch.Classify(v.Err), v.Err)
	}
	partial := errors.New("walk is partial: " + v.Reason)
	return a.noteFailure(listings.OperationInsertions, "", "partial", partial)
}

// walked records a walk for the status and the log.
func (a *agency) walked(w *walk, v listings.Verdict) {
	a.mu.Lock()
	a.lastWalk = WalkStatus{
		At: w.Began, Complete: v.Complete, Reason: v.Reason,
		Pages: v.Pages, Insertions: v.References,
	}
	a.known = w.ended.Published
	a.mu.Unlock()
	if a.note(v.Err) && v.Err != nil && watch.Classify(v.Err) != watch.ClassDown {
		a.p.log.Warn("walk is partial", "agency", a.id, "reason", v.Reason, "err", v.Err)
	}
	a.p.log.Debug("walk", "agency", a.id, "complete", v.Complete, "reason", v.Reason,
		"pages", v.Pages, "insertions", v.References)
}

// walk is one reading of all pages.
type walk struct {
	*watch.Walk
	a       *agency
	edits   int                          // records that have changed
	drift   watch.Drift                  // of the pages so far
	settled map[listings.Sum]settledPage // pages that changed nothing
	ended   watch.WalkEnd

	// found are the insertions that were never polled. They wait for the end of the walk: only then
	// is it known whether another one is no longer listed, whose new reference one of them may be.
	found []store.Insertion
}

// longestWalk is how long a new insertion waits for the end of the walk that found it.
const longestWalk = 2 * time.Minute

// scheduleFound has the insertions polled that the walk has found.
func (w *walk) scheduleFound() {
	for _, i := range w.found {
		w.a.schedule(i, time.Time{}, true)
	}
	w.found = nil
}

// settledPage is a page of the list that changed nothing and would change nothing again.
type settledPage struct {
	*listings.InsertionsPage        // without records
	version                  uint64 // of its insertions in the store
}

// maxSettled bounds the settled pages that are remembered of an agency.
const maxSettled = 256

// settledPage returns the settled page with a sum if it would change nothing now either, else nil.
func (a *agency) settledPage(sum listings.Sum) *listings.InsertionsPage {
	s, known := a.settled[sum]
	if !known || s.version != a.version(s.InsertionsPage) || watch.Unsettled(a.published().state) {
		return nil
	}
	return s.InsertionsPage
}

// version returns a number that changes with any of a page's insertions in the store.
func (a *agency) version(page *listings.InsertionsPage) (sum uint64) {
	for _, i := range page.Insertions {
		sum += a.p.store.Version(a.id, i.Reference)
	}
	return sum
}

// page commits the changed insertions of a page and their events in one transaction. It commits
// nothing if nothing changed.
func (w *walk) page(page *listings.InsertionsPage) error {
	err := w.a.locate(listings.OperationInsertions, "", page.Place(), len(page.Insertions),
		page.Received)
	if err != nil {
		return err
	}
	listed := w.Unseen(page)
	if page.Settled {
		w.settled[page.Sum] = w.a.settled[page.Sum]
		return nil
	}
	version := w.a.version(page) // of before: what is written meanwhile lets it be read again
	changes, err := w.take(listed)
	settled := !changes && len(listed) == len(page.Insertions) &&
		!watch.Unsettled(w.a.published().state)
	if err == nil && settled && len(w.settled) < maxSettled {
		w.settled[page.Sum] = settledPage{page.Bare(), version}
	}
	return err
}

// take commits what records change, if anything.
func (w *walk) take(listed []watch.Listed) (changes bool, err error) {
	if len(listed) == 0 {
		return false, nil
	}
	a := w.a
	a.committing.Lock()
	defer a.committing.Unlock()
	listed = watch.Reduced(a.published().state, listed, a.p.rules)
	var page watch.Paged
	err = a.commitLocked(func(tx *store.Tx) (watch.Effects, error) {
		page = w.compare(tx, listed)
		return page.Effects, nil
	})
	if err != nil {
		return false, err
	}
	w.drift = page.Drift
	w.Fresh += len(page.Published)
	for _, i := range page.Published {
		if !i.Baseline && !i.Polled {
			w.found = append(w.found, i)
		} else { // of the baseline it takes its turn: what comes meanwhile is live in any case
			a.schedule(i, time.Time{}, i.Episode > 1)
		}
	}
	if len(page.Published) > 0 {
		a.tryHalted()
	}
	w.urge(page.Edited)
	a.volatility.ObservePage(listed, page.Rotating)
	return !page.Empty(), nil
}

// compare compares the records of one page with the insertions in the store. Halts of those that
// are listed again end.
func (w *walk) compare(tx *store.Tx, listed []watch.Listed) watch.Paged {
	a := w.a
	state, _ := tx.Agency(a.id)
	all := make([]watch.Known, len(listed))
	for n, read := range listed {
		k := &all[n]
		k.Insertion, k.Exists = tx.Insertion(a.id, read.Reference)
		if k.Exists && (k.Digest != read.Digest || !k.GoneSince.IsZero()) {
			k.Record = tx.Record(a.id, read.Reference)
		}
	}
	s := watch.Observation{
		AgencyID: a.id, At: listed[0].At, After: state.LastCompleteWalk,
		Emit: a.p.o.Announce && state.BaselineReason != watch.BaselineFilter,
	}
	page := watch.Page(s, state, all, listed, a.p.rules, w.drift)
	for _, i := range page.Published {
		if h, halted := a.access().Insertion(i.Reference); halted {
			page.Ended = append(page.Ended, h)
		}
	}
	return page
}

// end commits what the walk as a whole shows.
func (w *walk) end(v listings.Verdict) error {
	a := w.a
	a.committing.Lock()
	defer a.committing.Unlock()
	failing := a.walking.state()
	now := time.Now()
	walked := watch.Walked{Verdict: v, Walk: w.Walk, Alarms: a.published().alarms}
	if failing.Failures > 0 {
		walked.Failing = now.Sub(failing.Since)
	}
	rules := watch.WalkRules{Interval: a.p.o.WalkInterval, HoldFor: a.p.o.HoldFor}
	var e watch.WalkEnd
	err := a.commitLocked(func(tx *store.Tx) (watch.Effects, error) {
		state, _ := tx.Agency(a.id)
		record := func(reference string) []byte { return tx.Record(a.id, reference) }
		e = watch.EndWalk(a.id, rules, state, tx.Insertions(a.id), record, walked, now)
		a.noteGood(e.State)
		return e.Effects, nil
	})
	if err != nil {
		return err
	}
	w.ended = e
	if v.Complete || v.Structural {
		err = a.leaveOut(listings.OperationInsertions, a.volatility.ObserveWalk(), now)
	}
	if err != nil {
		return err
	}
	for _, reference := range e.Over {
		if a.p.schedule.Has(a.id, reference) {
			a.forget(reference)
		}
	}
	return nil
}

// keepScheduled makes sure that every insertion that a complete walk saw is polled.
func (w *walk) keepScheduled() error {
	for reference := range w.Seen {
		if w.a.p.schedule.Has(w.a.id, reference) {
			continue
		}
		i, err := w.a.insertion(reference)
		if err != nil {
			return err
		}
		w.a.schedule(i, time.Time{}, false)
	}
	return nil
}

// schedule has an insertion polled, unless it is already. lastPoll is zero if it is unknown.
func (a *agency) schedule(i store.Insertion, lastPoll time.Time, urgent bool) {
	appeared := i.FirstSeen
	if i.Baseline { // before the watch began, at an unknown time
		appeared = time.Time{}
	}
	a.p.schedule.Add(a.id, i.Reference, appeared, lastPoll, time.Now())
	if urgent {
		a.p.schedule.Urge(a.id, i.Reference)
	}
}
