package poller

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// walks walks the agency's insertions again and again until ctx is done.
func (a *agency) walks(ctx context.Context) error {
	if err := a.tellHalt(ctx); err != nil { // of the process before
		return err
	}
	if err := a.waitForWalk(ctx); err != nil {
		return err
	}
	for {
		next, err := a.walkOnce(ctx)
		if err == nil {
			err = a.keepTroubles()
		}
		if err == nil {
			err = a.tellHalt(ctx)
		}
		if err != nil && errors.Is(err, store.ErrNoSpace) {
			next, err = a.afterCommitError(err)
		}
		if err != nil {
			return err
		}
		again, err := a.tryContactRequests(ctx)
		if err != nil {
			return err
		}
		if err := a.untilNextWalk(ctx, min(next, again)); err != nil {
			return err
		}
	}
}

// waitForWalk waits for what the process before would have waited for, so that one that crashes again and again walks no
// more often: the end of a back-off, else the next walk after the last one.
func (a *agency) waitForWalk(ctx context.Context) error {
	if failures, _, until := a.walking.state(); failures > 0 {
		return a.untilNextWalk(ctx, time.Until(until))
	}
	var state store.Agency
	err := a.p.store.View(func(tx *store.Tx) (err error) {
		state, _, err = tx.Agency(a.id)
		return err
	})
	if err != nil || !state.Baselined {
		return err
	}
	a.mu.Lock()
	a.walkBegan = state.LastCompleteWalk
	a.mu.Unlock()
	since := time.Since(state.LastCompleteWalk)
	return a.untilNextWalk(ctx, min(a.p.o.WalkInterval, a.p.o.WalkInterval-since))
}

// walkOnce reads all pages once and says when to do so again. The error is fatal; what the API does wrong is not.
func (a *agency) walkOnce(ctx context.Context) (next time.Duration, err error) {
	if a.isHalted(listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id}) {
		return time.Hour, ctx.Err() // resume wakes us
	}
	defer a.confirmed()
	defer a.walkBegins(time.Now())()
	w := a.newWalk()
	defer func() { a.knownPages = w.after }()
	key := a.keyFor(listings.OperationInsertions)
	o := listings.WalkOptions{
		PageSize: a.p.o.PageSize, Filter: a.p.o.Filter, Dialect: a.dialect(listings.OperationInsertions),
		EndsEmpty: a.endsEmpty(w.began), FirstSize: a.firstSize(w.began), Known: w.known,
	}
	if o.Larger, o.LastShown, err = a.largerPage(w.began); err != nil {
		return 0, err
	}
	pages := a.p.client.Walk(key, a.id, o)
	for page, err := range pages.Pages(ctx) {
		switch watch.Classify(err) {
		case watch.ClassFatal, watch.ClassCanceled:
			return 0, err
		case watch.ClassWaiting:
			return 0, nil // the key has changed: from the start, with the new one
		case watch.ClassRefused:
			told := a.tell(listings.OperationInsertions, "", watch.ClassRefused, err)
			if err := errors.Join(told, a.refusedKey(events.ScopeAgency, err)); err != nil {
				return a.afterCommitError(err)
			}
			return time.Hour, nil
		}
		if err != nil {
			break
		}
		a.excuse(listings.OperationInsertions, time.Now(), unbroken)
		if err := a.worked(listings.OperationInsertions, key); err != nil {
			return a.afterCommitError(err)
		}
		if err := w.page(page); err != nil {
			return a.afterCommitError(err)
		}
		a.p.turns.walked(a.id, w.pages, a.pages, page.Received)
		w.pages++
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err := a.learnPage(o.Larger, pages.Verdict(), time.Now()); err != nil {
		return a.afterCommitError(err)
	}
	return a.endWalk(ctx, w, pages.Verdict())
}

func (a *agency) newWalk() *walk {
	return &walk{
		a: a, began: time.Now().UTC(), seen: map[string]struct{}{}, before: a.knownPages, after: knownPages{},
		trusting: a.trusting, second: a.second,
	}
}

// afterCommitError lets a full disk pass: nothing was changed, it is tried again.
func (a *agency) afterCommitError(err error) (time.Duration, error) {
	if !errors.Is(err, store.ErrNoSpace) {
		return 0, err
	}
	a.note(err)
	a.p.outOfSpace(err)
	return spaceEvery, nil
}

func (a *agency) endWalk(ctx context.Context, w *walk, v listings.Verdict) (time.Duration, error) {
	again, err := w.end(v)
	if err != nil {
		return a.afterCommitError(err)
	}
	more, err := w.appear()
	if err != nil {
		return a.afterCommitError(err)
	}
	a.walked(w, v)
	a.touch(troubleWalks, "")
	if !v.Complete {
		now := time.Now()
		if err := a.tellPartial(v, now); err != nil {
			return a.afterCommitError(err)
		}
		return min(time.Until(a.walking.failed(v.Reason, now, now)), a.p.o.WalkInterval), nil
	}
	a.pages = v.Pages
	a.walking.succeeded(time.Now())
	if err := w.keepScheduled(); err != nil {
		return 0, err
	}
	if err := a.tell(listings.OperationInsertions, "", watch.ClassNone, nil); err != nil {
		return a.afterCommitError(err)
	}
	if err := w.withdraw(ctx); err != nil {
		return a.afterCommitError(err)
	}
	if err := a.judgeRefused(w); err != nil {
		return a.afterCommitError(err)
	}
	if again || more {
		return 0, nil
	}
	return jitter(a.p.o.WalkInterval), nil
}

// tellPartial lets the vigil know why a walk is not complete: a failure, or what is odd in how the API pages.
func (a *agency) tellPartial(v listings.Verdict, now time.Time) error {
	if v.Pages > 0 {
		a.excuse(listings.OperationInsertions, now, always) // there is a list; that it is not all of it is another alarm
	}
	if v.Err != nil {
		return a.tell(listings.OperationInsertions, "", watch.Classify(v.Err), v.Err)
	}
	return a.unheard(listings.OperationInsertions, "", "partial", errors.New("walk is partial: "+v.Reason), now)
}

// walked keeps what the status shows of a walk.
func (a *agency) walked(w *walk, v listings.Verdict) {
	a.mu.Lock()
	a.lastWalk = WalkStatus{At: w.began, Took: time.Since(w.began), Complete: v.Complete, Reason: v.Reason, Pages: v.Pages, Insertions: v.References}
	a.known = w.published
	if v.Complete {
		a.ended.Complete++
	} else {
		a.ended.Partial++
	}
	a.mu.Unlock()
	if a.note(v.Err) && v.Err != nil && watch.Classify(v.Err) != watch.ClassDown {
		a.failedWalk = true
		a.p.log.Warn("walk is partial", "agency", a.id, "reason", v.Reason, "err", v.Err, hint(v.Err))
	}
	if v.Complete && a.failedWalk {
		a.failedWalk = false
		a.p.log.Info("walks are complete again", "agency", a.id, "insertions", v.References)
	}
	a.p.log.Debug("walk", "agency", a.id, "complete", v.Complete, "reason", v.Reason, "pages", v.Pages, "insertions", v.References)
}

// hint says what to look at where an answer is not that of the API. Where there is nothing to say, the log leaves it out.
func hint(err error) slog.Attr {
	if watch.Classify(err) == watch.ClassDrift || watch.Status(http.StatusNotFound)(err) {
		return slog.String("hint", "is the base URL the address of the API?")
	}
	return slog.Attr{}
}

// jitter spreads an interval by a tenth, so that agencies do not march in step.
func jitter(d time.Duration) time.Duration {
	return d - d/20 + rand.N(d/10+1)
}
