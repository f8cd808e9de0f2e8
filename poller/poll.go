package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	default:
		until, err = a.polled(reference, c, err, sent, now)
		if !a.p.scheduler.has(a.id, reference) { // a walk has ended its polls meanwhile: the alarms that this one raised end, too
			a.forget(reference)
		}
		if err == nil {
			err = a.keepFailures()
		}
	}
	if err != nil {
		wait, err := a.afterCommitError(err)
		return false, now.Add(wait), err
	}
	return c == watch.ClassNone, until, nil
}

// polled says until when an insertion waits after what came of its poll; where the answer was good, that is nothing.
func (a *agency) polled(reference string, c watch.Class, err error, sent, now time.Time) (time.Time, error) {
	due := now.Add(jitter(a.p.o.PollInterval))
	switch c {
	case watch.ClassNone:
		if a.retries(reference).succeeded(now) {
			a.p.log.Info("polls of an insertion work again", "agency", a.id, "reference", reference)
			a.markDirty(failureInsertion, reference)
		}
		a.answered(sent)
		return due, a.clear(now, watch.AlarmOf(watch.Unreadable, listings.OperationContactRequests, reference))
	case watch.ClassRefused:
		return due, a.refusedContacts(reference)
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
	a.markDirty(failureInsertion, reference)
	return due, a.raiseUnreadable(reference, now)
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
		if a.retries(reference).state().Failures == 0 {
			a.doubtList() // once: as long as it goes on, the list has nothing new to say
		}
		return false, nil
	}
	a.forget(reference)
	return true, nil
}

// unanswered counts a failure of the operation. Where it backs off, one insertion at a time is asked; the one that failed
// waits for its own turn anyway.
func (a *agency) unanswered(reference string, sent, now time.Time) {
	if b := a.asking.state(); b.Failures > 0 && b.Last == reference {
		return
	}
	a.asking.failed(reference, sent, now)
	a.markDirty(failurePolls, "")
	a.pause()
}

func (a *agency) answered(sent time.Time) {
	if a.asking.succeeded(sent) {
		a.markDirty(failurePolls, "")
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
	p := &poll{a: a, reference: reference, state: a.pollState(reference)}
	err := p.run(ctx)
	c := watch.Classify(err)
	var status *listings.StatusError
	if c == watch.ClassRefused && errors.As(err, &status) && !a.access().Shows(status.Request) {
		err = &watch.WaitError{Until: time.Now()} // the key has changed: again, with the new one
		return watch.ClassWaiting, err
	}
	if c == watch.ClassFatal && ctx.Err() != nil {
		return watch.ClassCanceled, ctx.Err()
	}
	if c == watch.ClassNone {
		a.p.scheduler.polled(a.id, reference, p.state.At, p.state.takeArrived(a.skew(), p.state.At))
	}
	if failed := a.noteOutcome(listings.OperationContactRequests, reference, c, err); failed != nil {
		return watch.ClassFatal, failed
	}
	return c, err
}

// noteOutcome notes in the health of an operation what came of a request.
func (a *agency) noteOutcome(op listings.Operation, reference string, c watch.Class, err error) error {
	switch c {
	case watch.ClassNone:
		return a.noteSuccess(op, reference, time.Now())
	case watch.ClassTransient, watch.ClassAside, watch.ClassBusy, watch.ClassDown, watch.ClassDrift, watch.ClassRefused:
		return a.noteFailure(op, reference, c, err, time.Now())
	}
	return nil
}

// poll is one reading of the contact requests of one insertion.
type poll struct {
	a         *agency
	reference string
	state     *pollState
	catchUp   *watch.CatchUp
	verdict   watch.Verdict
	rules     string // under which the first answer was committed
}

func (p *poll) run(ctx context.Context) error {
	first, err := p.askFirst(ctx)
	if err != nil {
		return err
	}
	if first.Same {
		p.state.Same(first)
		return nil
	}
	p.catchUp = watch.NewCatchUp()
	p.state.Begin()
	if err := p.catchUpFrom(ctx, first); err != nil {
		return err
	}
	now := time.Now()
	p.state.Ended(first, p.rules, p.catchUp, p.verdict, p.a.windows(), p.wideSlot(now), now)
	return nil
}

// wideSlot is when the widest window of the insertion is read next.
func (p *poll) wideSlot(now time.Time) time.Time { return watch.WideSlot(p.a.id, p.reference, now) }

// askFirst asks for the newest few, or for what was learned to do instead.
func (p *poll) askFirst(ctx context.Context) (*listings.ContactRequestsPage, error) {
	var refusal error
	var sizes []int
	p.a.learned(func(w *watch.Sizes) { sizes = p.state.First(w, time.Now()) })
	for _, size := range sizes {
		q := watch.NewestFirst(max(size, 0))
		q.Expect.Known = p.state.Known(p.a.windows().Rules, time.Now())
		page, err := p.ask(ctx, q)
		if watch.RefusedSize(err) {
			refusal = cmp.Or(refusal, err)
			p.a.learned(func(w *watch.Sizes) { w.RefusedFirst(size) })
			continue
		}
		if err == nil {
			p.a.learned(func(w *watch.Sizes) { w.Answered(size) })
		}
		return page, err
	}
	return nil, refusal
}

// catchUpFrom commits the first answer and asks on until the window is closed or given up.
func (p *poll) catchUpFrom(ctx context.Context, page *listings.ContactRequestsPage) error {
	for most := -1; ; {
		if err := p.answer(ctx, page, watch.NewestFirst(page.Size)); err != nil {
			return err
		}
		if p.verdict != watch.Open {
			return p.widen(ctx, page)
		}
		count := len(page.ContactRequests)
		if count <= most {
			return p.fromOtherSides(ctx, page)
		}
		most = count
		if !p.catchUp.Newest.Cut { // perhaps all there is: the other end shows it sooner than a larger number
			if err := p.fromOldest(ctx, page); err != nil || p.verdict != watch.Open {
				return err
			}
		}
		size := 0
		p.a.learned(func(w *watch.Sizes) { size = w.Next(page.Size, count, time.Now()) })
		if size == 0 {
			return p.fromOtherSides(ctx, page)
		}
		next, err := p.grow(ctx, size, page)
		if err != nil {
			return err
		}
		if next == nil {
			return p.fromOtherSides(ctx, page)
		}
		page = next
	}
}

// fromOldest asks for the other end of the list.
func (p *poll) fromOldest(ctx context.Context, page *listings.ContactRequestsPage) error {
	err := p.alsoAsk(ctx, watch.OldestFirst(page.Size))
	if err == nil && p.verdict == watch.Open && p.catchUp.All() {
		return p.end(watch.ClosedShort)
	}
	return err
}

// fromOtherSides asks in the other documented orders when the newest ones do not reach back far enough.
func (p *poll) fromOtherSides(ctx context.Context, page *listings.ContactRequestsPage) error {
	if err := p.fromOldest(ctx, page); err != nil {
		return err
	}
	for _, q := range watch.ByScore(page.Size) {
		if p.verdict != watch.Open {
			break
		}
		if err := p.alsoAsk(ctx, q); err != nil {
			return err
		}
	}
	if p.state.Slow == nil { // else a larger answer was none
		p.a.learned(func(w *watch.Sizes) { w.LearnCap(p.catchUp, len(page.ContactRequests), page.Total) })
	}
	if p.verdict != watch.Open {
		return nil
	}
	return p.end(watch.ClosedGivenUp)
}

// alsoAsk asks in another order; one that this service does not take is left out.
func (p *poll) alsoAsk(ctx context.Context, q watch.Question) error {
	page, err := p.ask(ctx, q)
	if watch.RefusedSize(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.answer(ctx, page, q)
}

// ask puts one question to the API.
func (p *poll) ask(ctx context.Context, q watch.Question) (*listings.ContactRequestsPage, error) {
	key := p.a.keyFor(listings.OperationContactRequests)
	q.Expect.Dialect = p.a.dialect(listings.OperationContactRequests)
	page, err := p.a.p.client.ContactRequests(ctx, key, p.a.id, p.reference, q)
	if err != nil {
		return nil, err
	}
	if err := p.a.answeredWell(listings.OperationContactRequests, p.reference, key); err != nil {
		return nil, err
	}
	if err := p.a.learn(listings.OperationContactRequests, p.reference, page.Dialect(), len(page.ContactRequests), page.Received); err != nil {
		return nil, err
	}
	return page, p.a.learnClock(page.Envelope)
}

// answer commits what an answer shows: new and changed contact requests with their events, and whether the window is
// closed, in one transaction; nothing if nothing changed.
func (p *poll) answer(ctx context.Context, page *listings.ContactRequestsPage, q watch.Question) error {
	p.a.learned(func(w *watch.Sizes) { w.Observe(page.Total, len(page.ContactRequests)) })
	a := answerOf(page, q)
	a.Identities = watch.IdentitiesOf(p.reference, page.ContactRequests)
	j, err := p.judge(page, a)
	if err == nil && j.Unidentified {
		if err := p.learnIdentity(ctx, a.Identities, q); err != nil {
			return err
		}
		a.Identified = true
		j, err = p.judge(page, a)
	}
	if err != nil {
		return err
	}
	p.catchUp, p.verdict = j.CatchUp, j.Verdict
	p.a.learned(func(w *watch.Sizes) {
		if w.Most = max(w.Most, len(a.Requests)); w.Rules != j.Rules {
			w.Rules = j.Rules
		}
		p.rules = cmp.Or(p.rules, w.Rules) // the one text that all share
	})
	p.state.arrived(j.Since)
	p.a.announced(j.Waits, page.Received)
	return nil
}

// judge judges an answer by what is remembered and commits what it changes.
func (p *poll) judge(page *listings.ContactRequestsPage, a watch.Answer) (j watch.Judged, err error) {
	err = p.commit(func(prior watch.Prior) (watch.Effects, error) {
		j = watch.Judge(p.watched(), prior, a, page.Received)
		return j.Effects, nil
	})
	return j, err
}

// commit makes one transaction of what is decided by what is remembered of the insertion.
func (p *poll) commit(decide func(watch.Prior) (watch.Effects, error)) error {
	p.a.committing.Lock()
	defer p.a.committing.Unlock()
	return p.a.commit(func(tx *store.Tx) (watch.Effects, error) {
		prior, err := p.prior(tx)
		if err != nil {
			return watch.Effects{}, err
		}
		return decide(prior)
	})
}

// prior is what the store knows of the insertion and its agency.
func (p *poll) prior(tx *store.Tx) (r watch.Prior, err error) {
	id := p.a.id
	i, exists := tx.Insertion(id, p.reference)
	if !exists {
		return r, fmt.Errorf("agency %s: an insertion is polled that is not remembered", id)
	}
	state, _ := tx.Agency(id)
	return watch.Prior{
		State: state, Insertion: i, Known: tx.ContactRequests(id, p.reference), Record: tx.Record(id, p.reference),
		Fields: tx.FieldNames(id), Alarms: p.a.published().alarms,
	}, nil
}

// watched is the poll as it is judged.
func (p *poll) watched() watch.Poll {
	o := p.a.p.o
	return watch.Poll{
		AgencyID: p.a.id, Announce: o.Announce, People: *p.a.people.Load(), Rules: p.a.p.rules, IDFields: o.IDFields, Skew: p.a.skew(),
		Before: p.state.Polls, Sizes: p.a.windows(), CatchUp: p.catchUp,
	}
}

// end ends a catch-up that no answer closed by itself.
func (p *poll) end(v watch.Verdict) error {
	err := p.commit(func(prior watch.Prior) (watch.Effects, error) {
		return watch.Close(p.watched(), prior, v, time.Now()), nil
	})
	if err == nil {
		p.verdict = v
	}
	return err
}

// learnIdentity decides which member tells contact requests apart, by reading one answer twice.
func (p *poll) learnIdentity(ctx context.Context, prints *watch.Identities, q watch.Question) error {
	again, err := p.ask(ctx, q)
	if err != nil {
		return err
	}
	return p.commit(func(prior watch.Prior) (watch.Effects, error) {
		return watch.LearnIdentity(p.watched(), prior, prints, again.ContactRequests, time.Now()), nil
	})
}

func answerOf(page *listings.ContactRequestsPage, q watch.Question) watch.Answer {
	return watch.Answer{
		Requests: page.ContactRequests, Asked: q.NumberOfItemsPerPage, SortBy: q.SortBy,
		Descending: q.SortOrder == "desc", Total: page.Total, Unreadable: page.Unreadable,
	}
}

// grow asks for a larger number. There is no page where the API does not give one.
func (p *poll) grow(ctx context.Context, size int, page *listings.ContactRequestsPage) (*listings.ContactRequestsPage, error) {
	if !p.state.MayAsk(size, time.Now()) {
		return nil, nil
	}
	next, err := p.ask(ctx, watch.NewestFirst(size))
	if watch.RefusedSize(err) {
		p.a.learned(func(w *watch.Sizes) { w.Largest = max(page.Size, watch.CapOf(len(page.ContactRequests))) })
		return nil, nil
	}
	if err != nil {
		p.state.LargerFailed(err, size, time.Now())
		return nil, err
	}
	p.state.LargerAnswered(size)
	p.a.learned(func(w *watch.Sizes) { w.Lift(size, len(next.ContactRequests)) })
	return next, nil
}

// widen reads the widest window where it is time, or where a total counts something unseen.
func (p *poll) widen(ctx context.Context, page *listings.ContactRequestsPage) error {
	now := time.Now()
	if p.catchUp.Whole {
		return nil
	}
	due, grew := p.state.WideDue(now), p.state.Grew(page.Total, p.catchUp.New, now)
	if !due && !grew {
		return nil
	}
	wide, err := p.askWidest(ctx, page)
	if !grew && watch.IsSlow(err) { // the regular window is read all the same
		p.state.WideFailed(now)
		return nil
	}
	if err != nil {
		return err
	}
	found := 0
	if wide != page {
		err := p.commit(func(prior watch.Prior) (e watch.Effects, _ error) {
			e, found = watch.JudgeWidest(p.watched(), prior, answerOf(wide, watch.NewestFirst(wide.Size)), wide.Received)
			return e, nil
		})
		if err != nil {
			return err
		}
	}
	p.state.Widened(grew, page.Total, found, p.wideSlot(now), now)
	return nil
}

// askWidest asks for as many as this service shows at once: the last answer itself, if it takes no larger number.
func (p *poll) askWidest(ctx context.Context, page *listings.ContactRequestsPage) (*listings.ContactRequestsPage, error) {
	least := max(page.Size, len(page.ContactRequests))
	refused := false
	size := 0
	for p.a.learned(func(w *watch.Sizes) { size = w.Widest(time.Now()) }); size > least; size = p.a.windows().Below(size) {
		wide, err := p.ask(ctx, watch.NewestFirst(size))
		if watch.RefusedSize(err) {
			refused = true
			continue
		}
		if err != nil {
			return nil, err
		}
		count := len(wide.ContactRequests)
		p.a.learned(func(w *watch.Sizes) {
			w.Observe(wide.Total, count)
			w.Lift(size, count)
			switch {
			case refused:
				w.Largest = size
			case wide.Total > count && w.Totals:
				w.Capped(count)
			}
		})
		return wide, nil
	}
	if refused {
		p.a.learned(func(w *watch.Sizes) { w.Largest = watch.CapOf(least) })
	}
	return page, nil
}
