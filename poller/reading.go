package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

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
