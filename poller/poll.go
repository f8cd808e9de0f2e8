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
		wait, err := a.afterCommitError(err)
		return false, now.Add(wait), err
	}
	until, err = a.polled(reference, c, err, sent, now)
	if len(a.p.scheduler.among(a.id, []string{reference})) == 0 { // a walk has ended its polls meanwhile: what this one told ends, too
		a.forget(reference)
	}
	if err == nil {
		err = a.keepFailures()
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
		a.p.scheduler.polled(a.id, reference, p.state.at, p.state.tellable(a.skew(), p.state.at))
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
	if err != nil || p.unchanged(first) {
		return err
	}
	p.catchUp = watch.NewCatchUp()
	p.state.body, p.state.records = listings.Sum{}, listings.Sum{}
	if err := p.catchUpFrom(ctx, first); err != nil {
		return err
	}
	p.remember(first)
	return nil
}

// askFirst asks for the newest few, or for what was learned to do instead.
func (p *poll) askFirst(ctx context.Context) (*listings.ContactRequestsPage, error) {
	var refusal error
	var sizes []int
	p.a.learned(func(w *watch.Sizes) { sizes = w.First(int(p.state.first), time.Now()) })
	for _, size := range sizes {
		q := watch.NewestFirst(max(size, 0))
		q.Expect.Known = p.known()
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
		if !p.catchUp.Newest.Cut { // perhaps all there is: the other end tells sooner than a larger number
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
	// There are more than any answer held: that is as many as this service shows.
	if count := len(page.ContactRequests); p.catchUp.Most == count && p.state.slow == nil && // else a larger answer was none
		(len(p.catchUp.Shown) > count || p.a.windows().Totals && page.Total > count) {
		p.a.learned(func(w *watch.Sizes) { w.Capped(count) })
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

// unchanged says whether nothing has happened since this very answer was committed.
func (p *poll) unchanged(page *listings.ContactRequestsPage) bool {
	if page.Same {
		p.state.body, p.state.at = page.Body, page.Received
	}
	return page.Same
}

// remember keeps what lets the next poll tell at once that nothing has changed.
func (p *poll) remember(page *listings.ContactRequestsPage) {
	l, c := p.state, p.catchUp
	l.body, l.records, l.rules, l.whole = page.Body, page.Records, p.rules, c.Whole
	if page.Total != c.Total {
		l.body, l.records = listings.Sum{}, listings.Sum{} // the same answer would tell of another total than was told last
	}
	l.at, l.total, l.hidden = page.Received, small(c.Total), small(c.Newest.Hidden)
	if l.wide == 0 {
		l.wide = wideSlot(p.a.id, p.reference, time.Now()).UnixNano()
	}
	if again := time.Now().Add(slowAgain).UnixNano(); p.verdict == watch.ClosedGivenUp && l.slow != nil {
		l.wide = min(l.wide, again)
	}
	l.first = 0
	if !c.Newest.Ordered && len(c.Newest.IDs) > 1 {
		l.first = small(watch.CapOf(len(c.Newest.IDs) + 1)) // order is not to be had: only a window with all of them tells what is new
		if !p.a.windows().Larger(0, len(c.Newest.IDs)) {
			l.first = small(watch.CapOf(len(c.Newest.IDs)))
		}
	}
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

// answer commits what an answer tells: new and changed contact requests with their events, and whether the window is
// closed, in one transaction; nothing if nothing changed.
func (p *poll) answer(ctx context.Context, page *listings.ContactRequestsPage, q watch.Question) error {
	p.a.learned(func(w *watch.Sizes) { w.Observe(page.Total, len(page.ContactRequests)) })
	a := answerOf(page, q)
	a.Identities = watch.IdentitiesOf(p.reference, page.ContactRequests)
	j, err := p.judge(page, a, true)
	if errors.Is(err, errIdentity) {
		if err := p.learnIdentity(ctx, a.Identities, q); err != nil {
			return err
		}
		j, err = p.judge(page, a, false)
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

// errIdentity ends the judgement of an answer where it has to be decided first what tells contact requests apart.
var errIdentity = errors.New("no identity")

// judge judges an answer by what is remembered and commits what it changes. Where identify is wanted, it stops with errIdentity
// instead of judging without.
func (p *poll) judge(page *listings.ContactRequestsPage, a watch.Answer, identify bool) (j watch.Judged, err error) {
	err = p.commit(func(prior watch.Prior) (watch.Effects, error) {
		w := p.watched()
		if _, decided := watch.Identified(w, prior, a.Identities); identify && !decided {
			return watch.Effects{}, errIdentity
		}
		j = watch.Judge(w, prior, a, page.Received)
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
	i, exists, err := tx.Insertion(id, p.reference)
	if err == nil && !exists {
		err = fmt.Errorf("agency %s: an insertion is polled that is not remembered", id)
	}
	if err != nil {
		return r, err
	}
	state, _, err2 := tx.Agency(id)
	known, err3 := tx.ContactRequests(id, p.reference)
	fields, err4 := tx.FieldNames(id)
	return watch.Prior{
		State: state, Insertion: i, Known: known, Record: tx.Record(id, p.reference), Fields: fields, Alarms: p.a.published().alarms,
	}, errors.Join(err, err2, err3, err4)
}

// watched is the poll as it is judged.
func (p *poll) watched() watch.Poll {
	o := p.a.p.o
	return watch.Poll{
		AgencyID: p.a.id, Announce: o.Announce, Rules: p.a.p.rules, IDFields: o.IDFields, Skew: p.a.skew(),
		Looked: p.state.at, Hidden: int(p.state.hidden), Sizes: p.a.windows(), CatchUp: p.catchUp,
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

// known says which answer need not be decoded, by its hash; nil where all of it is wanted in any case.
func (p *poll) known() func(listings.Sum) bool {
	if p.state.body == (listings.Sum{}) || p.wideDue(time.Now()) || p.state.rules != p.a.windows().Rules {
		return nil
	}
	return func(h listings.Sum) bool { return h == p.state.body || h == p.state.records }
}

// grow asks for a larger number. There is no page where the API does not give one.
func (p *poll) grow(ctx context.Context, size int, page *listings.ContactRequestsPage) (*listings.ContactRequestsPage, error) {
	if p.state.slow.given(size, time.Now()) {
		return nil, nil
	}
	next, err := p.ask(ctx, watch.NewestFirst(size))
	if watch.RefusedSize(err) {
		p.a.learned(func(w *watch.Sizes) { w.Largest = max(page.Size, watch.CapOf(len(page.ContactRequests))) })
		return nil, nil
	}
	if err != nil {
		p.state.slow = p.state.slow.failed(err, size, time.Now())
		return nil, err
	}
	if s := p.state.slow; s != nil && size >= s.size {
		p.state.slow = nil
	}
	p.a.learned(func(w *watch.Sizes) { w.Lift(size, len(next.ContactRequests)) })
	return next, nil
}

// wideDue says whether the daily time has come to read the widest window of an insertion that is not seen whole.
func (p *poll) wideDue(now time.Time) bool {
	return !p.state.whole && p.state.wide != 0 && now.UnixNano() >= p.state.wide
}

// widen reads the widest window where it is time, or where a total tells of something unseen.
func (p *poll) widen(ctx context.Context, page *listings.ContactRequestsPage) error {
	now := time.Now()
	if p.catchUp.Whole {
		return nil
	}
	due, grew := p.wideDue(now), p.grew(page.Total, now)
	if !due && !grew {
		return nil
	}
	wide, err := p.askWidest(ctx, page)
	if !grew && isSlow(err) { // the regular window is read all the same
		p.state.wide = now.Add(slowAgain).UnixNano()
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
	p.state.wide, p.state.slow = wideSlot(p.a.id, p.reference, now).UnixNano(), nil
	if grew {
		p.state.learnGrowth(page.Total, found, now)
	}
	return nil
}

// grew says whether the total is larger than it was by more than was found, for a reason that is not known yet.
func (p *poll) grew(total int, now time.Time) bool {
	l := p.state
	if l.total < 0 || total-int(l.total) <= p.catchUp.New {
		return false
	}
	return l.growth == nil || total > l.growth.explained && !now.Before(l.growth.until)
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
