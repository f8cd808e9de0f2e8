package poller

import (
	"context"
	"errors"
	"net/http"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// pollScheduled polls an insertion that is due. It says whether the answer was good; if not, until when the insertion
// waits. The error is fatal.
func (a *agency) pollScheduled(ctx context.Context, reference string) (good bool, until time.Time, err error) {
	sent := time.Now()
	if a.occupied(reference) {
		return false, sent.Add(time.Second), nil // who waits here keeps all others from having their turn
	}
	c, err := a.poll(ctx, reference)
	now := time.Now()
	switch c {
	case watch.ClassCanceled:
		return false, now, ctx.Err()
	case watch.ClassFatal:
		wait, err := a.afterCommitError(err)
		return false, now.Add(wait), err
	}
	until, err = a.polled(reference, c, err, sent, now)
	if err == nil {
		err = a.keepTroubles()
	}
	if err != nil {
		wait, err := a.afterCommitError(err)
		return false, now.Add(wait), err
	}
	return c == watch.ClassNone, until, a.retire(reference, now)
}

// polled says until when an insertion waits after what came of its poll; where the answer was good, that is nothing.
func (a *agency) polled(reference string, c watch.Class, err error, sent, now time.Time) (time.Time, error) {
	due := now.Add(jitter(a.p.o.PollInterval))
	switch c {
	case watch.ClassNone:
		if a.retries(reference).succeeded(now) {
			a.p.log.Info("polls of an insertion work again", "agency", a.id, "reference", reference)
			a.touch(troubleInsertion, reference)
		}
		a.answered(sent)
		return due, a.tellReadable(reference, now)
	case watch.ClassRefused:
		return due, a.refusedContacts(reference, err, sent)
	case watch.ClassHalted:
		return a.haltedUntil(reference, due), nil
	case watch.ClassWaiting:
		var early *watch.WaitError
		errors.As(err, &early)
		return early.Until, nil
	case watch.ClassDown, watch.ClassBusy:
		return due, nil // everything waits; nothing was learned of this insertion
	}
	return a.setAside(reference, c, err, sent, now)
}

// setAside makes an insertion wait after an answer that was of no use, and its agency too if others fail as well.
func (a *agency) setAside(reference string, c watch.Class, err error, sent, now time.Time) (time.Time, error) {
	if a.note(err) {
		a.p.log.Warn("a poll failed", "agency", a.id, "class", string(c), "err", err)
	}
	if done, err := a.goneForGood(reference, err); done || err != nil {
		return now, err
	}
	a.unanswered(reference, sent, now)
	due := a.retry(reference).failed(reference, now, now)
	a.touch(troubleInsertion, reference)
	return due, a.tellUnreadable(reference, now)
}

// goneForGood ends the polls of a disappeared insertion that the API does not know any more. Of a listed one, the list
// is asked.
func (a *agency) goneForGood(reference string, err error) (bool, error) {
	var status *listings.StatusError
	if !errors.As(err, &status) || status.Status != http.StatusNotFound && status.Status != http.StatusGone {
		return false, nil
	}
	i, err := a.insertion(reference)
	if err != nil {
		return false, err
	}
	if i.GoneSince.IsZero() {
		if failures, _, _ := a.retries(reference).state(); failures == 0 {
			a.doubtList() // once: as long as it goes on, the list has nothing new to say
		}
		return false, nil
	}
	a.forget(reference)
	return true, nil
}

func (a *agency) insertion(reference string) (i store.Insertion, err error) {
	err = a.p.store.View(func(tx *store.Tx) (err error) {
		i, _, err = tx.Insertion(a.id, reference)
		return err
	})
	return i, err
}

// retire ends the polls of an insertion that disappeared long enough ago. Where none did, the store need not be asked.
func (a *agency) retire(reference string, now time.Time) error {
	a.mu.Lock()
	none := a.gone == 0
	a.mu.Unlock()
	if none {
		return nil
	}
	i, err := a.insertion(reference)
	if err == nil && !i.GoneSince.IsZero() && now.Sub(i.GoneSince) > watch.LateArrivals {
		a.forget(reference)
	}
	return err
}

// operationLimit is how many different insertions must fail in a row before the whole operation backs off.
const operationLimit = 3

// unanswered counts a failure of the operation. Where it backs off, one insertion at a time is asked; the one that failed
// waits for its own turn anyway.
func (a *agency) unanswered(reference string, sent, now time.Time) {
	if failures, last, _ := a.asking.state(); failures > 0 && last == reference {
		return
	}
	a.asking.failed(reference, sent, now)
	a.touch(troublePolls, "")
	a.pause()
}

func (a *agency) answered(sent time.Time) {
	if a.asking.succeeded(sent) {
		a.touch(troublePolls, "")
		a.note(nil)
		a.pause()
	}
}

// poll asks for the contact requests of an insertion until its window is closed or given up, and commits every answer
// before the next question. If all went well, whoever wished it, the schedule learns what was found.
func (a *agency) poll(ctx context.Context, reference string) (watch.Class, error) {
	if err := a.enter(ctx, reference); err != nil {
		return watch.ClassCanceled, err
	}
	defer a.leave(reference)
	p := &poll{a: a, reference: reference, look: a.look(reference)}
	err := p.run(ctx)
	c := watch.Classify(err)
	var status *listings.StatusError
	if c == watch.ClassRefused && errors.As(err, &status) && a.outdated(status.Request) {
		err = &watch.WaitError{Until: time.Now()} // the key has changed: again, with the new one
		return watch.ClassWaiting, err
	}
	if c == watch.ClassFatal && ctx.Err() != nil {
		return watch.ClassCanceled, ctx.Err()
	}
	if c == watch.ClassNone {
		a.p.turns.polled(a.id, reference, p.look.at, p.look.tellable(a.skew(), p.look.at))
	}
	if told := a.tell(listings.OperationContactRequests, reference, c, err); told != nil {
		return watch.ClassFatal, told
	}
	return c, err
}

// tell lets the vigil know what came of asking.
func (a *agency) tell(op listings.Operation, reference string, c watch.Class, err error) error {
	switch c {
	case watch.ClassNone:
		return a.heard(op, reference, time.Now())
	case watch.ClassTransient, watch.ClassAside, watch.ClassBusy, watch.ClassDown, watch.ClassDrift, watch.ClassRefused:
		return a.unheard(op, reference, c, err, time.Now())
	}
	return nil
}
