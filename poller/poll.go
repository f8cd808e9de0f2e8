package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"doorbell/events"
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

// poll is one reading of the contact requests of one insertion.
type poll struct {
	a         *agency
	reference string
	look      *look
	catchUp   *watch.CatchUp
	verdict   watch.Verdict
	rules     string // under which the first answer was committed
}

func (p *poll) run(ctx context.Context) error {
	if err := p.knowWindows(); err != nil {
		return err
	}
	first, err := p.askFirst(ctx)
	if err != nil || p.unchanged(first) {
		return err
	}
	p.catchUp = watch.NewCatchUp()
	doubt := p.doubt(first)
	p.look.body, p.look.records = listings.Sum{}, listings.Sum{}
	if err := p.catchUpFrom(ctx, first); err != nil {
		return err
	}
	p.remember(first)
	return doubt(ctx)
}

// askFirst asks for the newest few, or for what was learned to do instead.
func (p *poll) askFirst(ctx context.Context) (*listings.ContactRequestsPage, error) {
	var refusal error
	for n, size := range p.a.windows.firstSizes(int(p.look.first), time.Now()) {
		q := watch.NewestFirst(max(size, 0))
		if q.Expect = p.expect(q.NumberOfItemsPerPage); n > 0 {
			q.Expect.ETag, q.Expect.LastModified = "", ""
		}
		page, err := p.ask(ctx, q)
		if watch.RefusedSize(err) {
			refusal = cmp.Or(refusal, err)
			if size > watch.WindowSizes[0] {
				p.a.windows.limit(p.a.windows.below(size))
			}
			continue
		}
		if err == nil {
			p.a.windows.answered(size)
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
		size := p.a.windows.next(page.Size, count)
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
	if count := len(page.ContactRequests); p.catchUp.Most == count &&
		(len(p.catchUp.Shown) > count || p.a.windows.believable() && page.Total > count) {
		p.a.capped(count)
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
	if page.NotModified {
		p.look.validators.deny()
		p.look.at = page.Received
		return true
	}
	if !page.Same {
		return false
	}
	p.look.body = page.Body
	p.look.validators.confirm(page.Envelope)
	p.look.at = page.Received
	return true
}

// remember keeps what lets the next poll tell at once that nothing has changed.
func (p *poll) remember(page *listings.ContactRequestsPage) {
	l, c := p.look, p.catchUp
	l.body, l.records, l.rules, l.whole = page.Body, page.Records, p.rules, c.Whole
	if page.Total != c.Total {
		l.body, l.records = listings.Sum{}, listings.Sum{} // the same answer would tell of another total than was told last
	}
	l.at, l.total, l.hidden = page.Received, small(c.Total), small(c.Newest.Hidden)
	if l.wide == 0 {
		l.wide = wideSlot(p.a.id, p.reference, time.Now()).UnixNano()
	}
	l.first = 0
	if !c.Newest.Ordered && len(c.Newest.IDs) > 1 {
		l.first = small(watch.CapOf(len(c.Newest.IDs) + 1)) // order is not to be had: only a window with all of them tells what is new
		if !p.a.windows.larger(0, len(c.Newest.IDs)) {
			l.first = small(watch.CapOf(len(c.Newest.IDs)))
		}
	}
	l.validators = asked{}
	if p.verdict != watch.ClosedGivenUp {
		l.validators.confirm(page.Envelope)
	}
}

// small is a count as it is remembered, once for each insertion.
func small(n int) int32 { return int32(min(n, math.MaxInt32)) }

// ask puts one question to the API.
func (p *poll) ask(ctx context.Context, q watch.Question) (*listings.ContactRequestsPage, error) {
	key := p.a.keyFor(listings.OperationContactRequests)
	q.Expect.Dialect = p.a.dialect(listings.OperationContactRequests)
	page, err := p.a.p.client.ContactRequests(ctx, key, p.a.id, p.reference, q)
	if err != nil {
		return nil, err
	}
	if err := p.a.wellAsked(p.reference, key); err != nil {
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
	p.a.windows.hear(page.Total, len(page.ContactRequests))
	a := answerOf(page, q)
	a.Identities = watch.IdentitiesOf(p.reference, page.ContactRequests)
	r, err := p.apply(page, a, true)
	if errors.Is(err, errIdentity) {
		if err := p.learnIdentity(ctx, page, a.Identities, q); err != nil {
			return err
		}
		r, err = p.apply(page, a, false)
	}
	if err != nil {
		return err
	}
	p.catchUp, p.verdict, p.rules = r.catchUp, r.verdict, cmp.Or(p.rules, p.a.windows.setRules(r.rules))
	if r.recovered {
		p.a.toldGap(p.reference, nil)
	}
	p.a.returned(len(a.Requests))
	p.look.arrived(r.since)
	p.a.announced(r.waits, page.Received)
	return nil
}

func answerOf(page *listings.ContactRequestsPage, q watch.Question) watch.Answer {
	return watch.Answer{
		Requests: page.ContactRequests, Asked: q.NumberOfItemsPerPage, SortBy: q.SortBy,
		Descending: q.SortOrder == "desc", Total: page.Total, Unreadable: page.Unreadable,
	}
}

// result is what a committed answer adds to the poll.
type result struct {
	catchUp   *watch.CatchUp
	verdict   watch.Verdict
	rules     string
	recovered bool // a gap that was told has ended
	since     map[string]time.Time
	waits     []time.Duration // of the contact requests that are announced
}

func (p *poll) circumstances(i store.Insertion, known []store.ContactRequest, a watch.Answer, skew time.Duration) watch.Circumstances {
	looked := i.LastPoll
	if p.look.at.After(looked) {
		looked = p.look.at
	}
	return watch.Circumstances{
		Insertion: i, Known: known, Start: i.Start.Add(skew), Looked: looked.Add(skew + time.Second),
		Most: p.a.mostReturned(), Totals: p.a.windows.believable(),
		Larger: p.a.windows.larger(a.Asked, len(a.Requests)), Hidden: int(p.look.hidden),
	}
}

// remembered is what the store knows of the insertion and its agency.
func (p *poll) remembered(tx *store.Tx) (i store.Insertion, state store.Agency, known []store.ContactRequest, err error) {
	i, exists, err := tx.Insertion(p.a.id, p.reference)
	if err == nil && !exists {
		err = fmt.Errorf("agency %s: an insertion is polled that is not remembered", p.a.id)
	}
	if err != nil {
		return i, state, nil, err
	}
	if state, _, err = tx.Agency(p.a.id); err != nil {
		return i, state, nil, err
	}
	if known, err = tx.ContactRequests(p.a.id, p.reference); err != nil {
		return i, state, nil, err
	}
	polled, err := tx.LastPoll(p.a.id, p.reference)
	if polled.After(i.LastPoll) {
		i.LastPoll = polled
	}
	return i, state, known, err
}

func (p *poll) sight(tx *store.Tx, i store.Insertion, state store.Agency, at time.Time) (watch.ContactsObservation, error) {
	after := p.look.at
	if after.IsZero() {
		after = i.LastPoll
	}
	names, err := tx.FieldNames(p.a.id)
	last := listings.Insertion{Reference: p.reference, Record: tx.Record(p.a.id, p.reference)}
	return watch.ContactsObservation{
		Observation: watch.Observation{AgencyID: p.a.id, At: at.UTC(), After: after.UTC(), Emit: p.a.p.o.Announce && !watch.Refiltered(state, i)},
		Insertion:   i, Summary: watch.Summary(last), Rules: p.a.p.rules.After(state.FieldsVersion), Skew: p.a.skew(),
		IDField: state.IDField, PastIDs: state.PastIDFields, NoIDs: state.RefusedIDFields,
		Names: names, Drifts: state.Operation(string(listings.OperationContactRequests)).Drifts,
	}, err
}

func (p *poll) write(tx *store.Tx, j judgement, at time.Time) error {
	i, state, d := j.insertion, j.state, j.diff
	if j.recovered {
		if err := p.tellRecovered(tx, j.gap, at); err != nil {
			return err
		}
	}
	settles := watch.SettlesAtOnce(i, j.verdict, at)
	for _, put := range d.Puts {
		if settles && put.Epoch == i.Epoch {
			put.Epoch--
		}
		if err := tx.PutContactRequest(p.a.id, p.reference, put); err != nil {
			return err
		}
	}
	for _, payload := range d.Events {
		if err := appendEvent(tx, payload); err != nil {
			return err
		}
	}
	if err := p.tellFields(tx, &state, d, at); err != nil {
		return err
	}
	most := p.a.mostReturned()
	learned := p.a.windows.note(&state)
	if most != state.MostReturned || learned {
		state.MostReturned = most
		if err := tx.PutAgency(p.a.id, state); err != nil {
			return err
		}
	}
	if !settles && !watch.MustWrite(i, d, j.verdict) {
		return nil
	}
	if j.verdict == watch.Open {
		i.OpenSince = at.UTC()
		return tx.PutInsertion(p.a.id, i)
	}
	if err := tx.NotePoll(p.a.id, p.reference, at.UTC()); err != nil || settles {
		return err
	}
	if err := p.tellUntimed(tx, i); err != nil {
		return err
	}
	return tx.PutInsertion(p.a.id, watch.CloseCatchUp(i, j.catchUp, at.UTC(), p.a.skew()))
}

// tellUntimed says how many contact requests of a first poll were taken for old because nothing told their time. It counts
// what is remembered: a catch-up that failed or was killed in between has begun anew.
func (p *poll) tellUntimed(tx *store.Tx, i store.Insertion) error {
	if i.Polled || !i.Baseline {
		return nil
	}
	known, err := tx.ContactRequests(p.a.id, p.reference)
	count := 0
	for _, k := range known {
		if k.CreatedAt.IsZero() && k.Epoch == i.Epoch {
			count++
		}
	}
	if err != nil || count == 0 {
		return err
	}
	return appendEvent(tx, &events.WatchGapDetected{
		Common:    events.Common{AgencyID: p.a.id, ObservedAt: time.Now()},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: p.reference,
		Reason: "time_unknown", Reached: count,
	})
}

// errIdentity ends the judgement of an answer where it has to be decided first what tells contact requests apart.
var errIdentity = errors.New("no identity")

// judgement is what an answer says, in the light of what is remembered.
type judgement struct {
	result
	insertion store.Insertion
	state     store.Agency
	diff      watch.ContactsDiff
	gap       store.Trouble // that has ended, where one has
}

// apply judges an answer by what is remembered and commits what it changes. Where that is nothing, it costs no commit.
// Where identify is wanted, it stops with errIdentity instead of judging without.
func (p *poll) apply(page *listings.ContactRequestsPage, a watch.Answer, identify bool) (result, error) {
	var j judgement
	look := func(tx *store.Tx) (_ bool, err error) {
		j, err = p.judge(tx, page, a, identify)
		return j.changes(), err
	}
	err := p.a.p.store.Change(look, func(tx *store.Tx) error { return p.write(tx, j, page.Received) })
	return j.result, err
}

func (p *poll) judge(tx *store.Tx, page *listings.ContactRequestsPage, a watch.Answer, identify bool) (j judgement, err error) {
	i, state, known, err := p.remembered(tx)
	if err != nil {
		return j, err
	}
	s, err := p.sight(tx, i, state, page.Received)
	if err != nil {
		return j, err
	}
	if identify && len(a.Requests) > 0 && (!p.learned(state) || watch.Unfit(state.IDField, a.Identities, known) != "") {
		return j, errIdentity
	}
	d := watch.DiffContactRequests(s, known, a)
	r := result{catchUp: p.catchUp.Clone(), rules: watch.RulesOf(state, d), since: d.Since, waits: watch.Waits(d.Events, s)}
	r.verdict = r.catchUp.Judge(p.circumstances(i, known, a, s.Skew), a, d)
	gap, told := p.a.windows.gap(p.reference)
	r.recovered = told && r.verdict != watch.Open && r.catchUp.Whole
	return judgement{r, i, state, d, gap}, nil
}

// changes says whether there is something to write.
func (j judgement) changes() bool {
	return len(j.diff.Puts) > 0 || watch.MustWrite(j.insertion, j.diff, j.verdict) || j.recovered
}

// learnIdentity decides which member tells contact requests apart, by reading one answer twice. A member that turns out to
// be none is dropped, and said, and another one learned; so it is, without a word, where other members may be the id now.
func (p *poll) learnIdentity(ctx context.Context, page *listings.ContactRequestsPage, prints *watch.Identities, q watch.Question) error {
	if len(page.ContactRequests) == 0 {
		return nil
	}
	var state store.Agency
	why := ""
	err := p.a.p.store.View(func(tx *store.Tx) (err error) {
		if state, _, err = tx.Agency(p.a.id); err == nil && state.IdentityLearned {
			why, err = p.unfit(tx, state.IDField, prints)
		}
		return err
	})
	if err != nil {
		return err
	}
	if p.learned(state) && why == "" {
		return nil
	}
	again, err := p.ask(ctx, q)
	if err != nil {
		return err
	}
	field := state.IDField
	return p.a.p.store.Update(func(tx *store.Tx) error {
		state, _, err := tx.Agency(p.a.id)
		if err != nil {
			return err
		}
		if state.IDField != field || why == "" && p.learned(state) { // another poll was faster
			field = state.IDField
			if why, err = p.unfit(tx, field, prints); err != nil || why == "" {
				return err
			}
		}
		if why != "" {
			if err := p.dropID(tx, &state, why); err != nil {
				return err
			}
		}
		candidates := slices.DeleteFunc(slices.Clone(p.a.p.o.IDFields), func(f string) bool {
			return slices.ContainsFunc(state.RefusedIDFields, func(r string) bool { return listings.SameName(r, f) })
		})
		state.IdentityLearned, state.IDCandidates = true, slices.Clone(p.a.p.o.IDFields)
		_, state.IDField = listings.LearnID(candidates, p.reference, page.ContactRequests, again.ContactRequests)
		if field != state.IDField && why == "" {
			state.PastIDFields = watch.Past(state.PastIDFields, field)
		}
		return tx.PutAgency(p.a.id, state)
	})
}

// learned says whether the id was decided among the members that may be it now.
func (p *poll) learned(state store.Agency) bool {
	return state.IdentityLearned && slices.Equal(state.IDCandidates, p.a.p.o.IDFields)
}

// dropID refuses the member that was taken for the id.
func (p *poll) dropID(tx *store.Tx, state *store.Agency, why string) error {
	field := state.IDField
	state.RefusedIDFields = append(state.RefusedIDFields, field)
	state.PastIDFields = slices.DeleteFunc(state.PastIDFields, func(f string) bool { return f == field })
	p.a.p.log.Warn("a member was no id of contact requests and is not used as one any more", "agency", p.a.id, "member", field, "why", why)
	return appendEvent(tx, &events.WatchSchemaDrifted{
		Common:    events.Common{AgencyID: p.a.id, ObservedAt: time.Now()},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: p.reference,
		Expected: "/" + field + " different for every contact request", Found: "/" + field + " " + why,
	})
}

// unfit says why a member that was taken for the id is none, by what the store remembers.
func (p *poll) unfit(tx *store.Tx, field string, prints *watch.Identities) (why string, err error) {
	known, err := tx.ContactRequests(p.a.id, p.reference)
	return watch.Unfit(field, prints, known), err
}

// putDrift remembers a drift, and says it if it was never told, in the transaction of the records that showed it.
func putDrift(tx *store.Tx, agencyID string, operation listings.Operation, d watch.Drift, at time.Time) error {
	if d.Remains == nil {
		return nil
	}
	state, _, err := tx.Agency(agencyID)
	if err != nil {
		return err
	}
	o := state.Operation(string(operation))
	o.Drifts = d.Remains
	state.SetOperation(string(operation), o)
	if err := tx.PutAgency(agencyID, state); err != nil || len(d.Told) == 0 {
		return err
	}
	expected, found := watch.DescribeForms(d.Told)
	return appendEvent(tx, &events.WatchSchemaDrifted{
		Common: events.Common{AgencyID: agencyID, ObservedAt: at}, Operation: string(operation), Expected: expected, Found: found,
	})
}

// tellFields remembers a drift of fields and says it, in the transaction of the contact requests that showed it.
func (p *poll) tellFields(tx *store.Tx, state *store.Agency, d watch.ContactsDiff, at time.Time) error {
	if d.Fields == state.FieldsVersion {
		return nil
	}
	state.FieldsVersion = d.Fields
	if err := tx.PutAgency(p.a.id, *state); err != nil {
		return err
	}
	if err := putDrift(tx, p.a.id, listings.OperationContactRequests, d.Drift, at); err != nil {
		return err
	}
	var err error
	*state, _, err = tx.Agency(p.a.id)
	return err
}

// look is what the process remembers of the polls of one insertion; a restart forgets it at no harm. There is one for every
// insertion: what most have no need of stands elsewhere.
type look struct {
	body, records listings.Sum // of the last answer that was committed with its window closed
	rules         string       // under which it was
	at            time.Time
	wide          int64 // when the widest window is due, in nanoseconds since 1970; 0: not known yet
	total         int32 // as last told, -1 unknown
	first         int32 // how many to ask for at first, where a smaller window tells nothing; 0: as few as usual
	hidden        int32 // how many of those remembered it did not show, -1 unknown
	whole         bool  // that answer showed all there is

	slow       *slow   // nil: no larger number has failed
	growth     *growth // nil: the total never grew by more than was found
	validators asked
	untold     map[string]time.Time // what the schedule does not know yet; see arrived
	retry      *patience            // nil: it has not failed; made under agency.mu
	refusal    *refusal             // nil: there is none that waits for what the next complete walk says
}

// refusal is a 403 at one insertion.
type refusal struct {
	answer *listings.StatusError
	at     time.Time
}

// growth is what was learned of a total that grew by more than was found.
type growth struct {
	explained int       // the largest total for which the widest window was read
	vain      int       // how often a total was the reason and nothing was found
	patient   time.Time // until when a total is no reason
}

// look returns the memory of an insertion's polls, making it.
func (a *agency) look(reference string) *look {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.looks[reference]
	if l == nil {
		l = &look{total: -1, hidden: -1}
		a.looks[reference] = l
	}
	return l
}

// retry returns the back-off of an insertion that has failed, making it. Most never do, and there are many.
func (a *agency) retry(reference string) *patience {
	l := a.look(reference)
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.retry == nil {
		l.retry = newPatience(a.p.o.PollInterval, a.p.o.RetryMax)
	}
	return l.retry
}

// retries returns the back-off of an insertion; nil if it has not failed.
func (a *agency) retries(reference string) *patience {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.looks[reference]; l != nil {
		return l.retry
	}
	return nil
}

// arrived keeps the creation times, by id, of the contact requests that a catch-up has shown and that were not known before
// it began. What a poll that failed half-way has shown is told to the schedule by the next one.
func (l *look) arrived(since map[string]time.Time) {
	if len(since) == 0 {
		return
	}
	if l.untold == nil {
		l.untold = map[string]time.Time{}
	}
	maps.Copy(l.untold, since)
}

// tellable takes out what arrived, in our clock and oldest first: zero where the time is not known, and never later than
// the answer that showed it.
func (l *look) tellable(skew time.Duration, received time.Time) []time.Time {
	if len(l.untold) == 0 {
		return nil
	}
	created := make([]time.Time, 0, len(l.untold))
	for _, t := range l.untold {
		if !t.IsZero() {
			t = t.Add(-skew)
		}
		if t.After(received) {
			t = received
		}
		created = append(created, t)
	}
	l.untold = nil
	slices.SortFunc(created, time.Time.Compare)
	return created
}

// validators let a question be asked as "only if something has changed". They belong to the answer whose hash is
// remembered, and are never trusted for longer than verifyEvery.
type validators struct {
	size           int // how many were asked for
	etag, modified string
	until          time.Time // the next question is unconditional from then on
	denied         int       // answers since that nothing has changed
}

// asked is what an insertion was answered last that a question can be tied to; nil where there is nothing.
type asked struct{ *validators }

// current are the validators; zero where there are none.
func (a asked) current() validators {
	if a.validators == nil {
		return validators{}
	}
	return *a.validators
}

// deny counts an answer that nothing has changed.
func (a asked) deny() {
	if a.validators != nil {
		a.denied++
	}
}

// verifyEvery is how often, at least, an insertion is asked without a condition.
const verifyEvery = time.Hour

// confirm takes over the validators of an answer that is remembered.
func (a *asked) confirm(e listings.Envelope) {
	v := validators{size: e.Size, etag: e.ETag, modified: e.LastModified, until: e.Received.Add(verifyEvery - rand.N(verifyEvery/6))}
	if *a = (asked{}); v.known() {
		a.validators = &v
	}
}

func (v validators) expect() listings.Expect {
	return listings.Expect{ETag: v.etag, LastModified: v.modified}
}

func (v validators) known() bool { return v.etag != "" || v.modified != "" }

// expect is what the next question may be left unanswered for, and the answer that need not be decoded; nothing where all
// of it is wanted in any case.
func (p *poll) expect(size int) listings.Expect {
	now, v := time.Now(), p.look.validators.current()
	if p.look.body == (listings.Sum{}) || p.wideDue(now) || p.look.rules != p.a.windows.currentRules() {
		return listings.Expect{}
	}
	e := listings.Expect{Known: func(h listings.Sum) bool { return h == p.look.body || h == p.look.records }}
	if v.size == size && !p.a.windows.lies() && now.Before(v.until) {
		e.ETag, e.LastModified = v.etag, v.modified
	}
	return e
}

// doubt looks at an answer that is not the remembered one: where the API had said, or still says, that nothing has
// changed, it is not asked that way again as long as the process lives. What it returns asks, if need be, once the answer
// is committed.
func (p *poll) doubt(page *listings.ContactRequestsPage) func(context.Context) error {
	v := p.look.validators.current()
	if !v.known() || v.size != page.Size || p.a.windows.lies() || page.Body == p.look.body {
		return func(context.Context) error { return nil }
	}
	if page.ETag == v.etag && page.LastModified == v.modified {
		p.distrust()
	}
	return func(ctx context.Context) error {
		if v.denied == 0 || p.a.windows.lies() {
			return nil
		}
		q := watch.NewestFirst(page.Size)
		q.Expect = v.expect()
		again, err := p.ask(ctx, q)
		if err == nil && again.NotModified {
			p.distrust()
		}
		return err
	}
}

func (p *poll) distrust() {
	p.a.windows.lied()
	p.a.p.log.Warn("the API says that contact requests have not changed where they have; it is not asked that way any more", "agency", p.a.id)
}
