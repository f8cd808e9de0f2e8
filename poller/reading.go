package poller

import (
	"context"
	"errors"
	"net/http"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// poll is one reading of the contact requests of one insertion.
type poll struct {
	a         *agency
	reference string
	look      *look
	catchUp   *catchUp
	verdict   verdict
	from      time.Time // creation of the newest that was known before
	untimed   int
}

func (p *poll) run(ctx context.Context) error {
	first, most, largest := true, -1, windowSizes[0]
	for _, size := range windowSizes {
		page, err := p.ask(ctx, newestFirst(size))
		if !first && refusedSize(err) {
			break
		}
		if err != nil {
			return err
		}
		largest = size
		if first && p.unchanged(page) {
			return nil
		}
		if err := p.answer(ctx, page, newestFirst(size)); err != nil {
			return err
		}
		if first {
			p.look.hash = [32]byte{}
			defer p.remember(page)
		}
		if p.verdict != open {
			return p.widen(ctx, page, size)
		}
		if first = false; len(page.ContactRequests) <= most {
			break
		}
		most = len(page.ContactRequests)
	}
	return p.fromOtherSides(ctx, largest)
}

// unchanged says whether nothing has happened since this very answer was committed.
func (p *poll) unchanged(page *listings.ContactRequestsPage) bool {
	if page.Hash != p.look.hash || !p.look.whole && time.Since(p.look.lastWide) >= widestEvery {
		return false
	}
	p.look.at = page.Received
	return true
}

// remember keeps what lets the next poll tell at once that nothing has changed.
func (p *poll) remember(page *listings.ContactRequestsPage) {
	if p.verdict != open {
		p.look.hash, p.look.whole = page.Hash, p.verdict.whole()
		p.look.at, p.look.total = page.Received, p.catchUp.total
	}
}

// refusedSize says whether the API refused the number of contact requests that was asked for.
func refusedSize(err error) bool {
	var status *listings.StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// fromOtherSides asks in the other documented orders when the newest ones do not reach back far enough.
func (p *poll) fromOtherSides(ctx context.Context, size int) error {
	for _, q := range otherOrders(size) {
		page, err := p.ask(ctx, q)
		if err != nil {
			return err
		}
		if err := p.answer(ctx, page, q); err != nil {
			return err
		}
		if p.verdict != open {
			return nil
		}
	}
	return p.giveUp()
}

// widest is asked once a day, and whenever a total grew by more than was found: late arrivals sort lower.
const widestEvery = 24 * time.Hour

func (p *poll) widen(ctx context.Context, page *listings.ContactRequestsPage, size int) error {
	widest := windowSizes[len(windowSizes)-1]
	if p.verdict.whole() || size == widest {
		return nil
	}
	i, err := p.a.insertion(p.reference)
	if err != nil {
		return err
	}
	p.look.lastWide = i.LastWide
	grew := p.look.total >= 0 && page.Total-p.look.total > p.catchUp.news
	if !grew && time.Since(i.LastWide) < widestEvery {
		return nil
	}
	wide, err := p.ask(ctx, newestFirst(widest))
	if err != nil {
		return err
	}
	p.look.lastWide = wide.Received
	return p.wide(wide)
}

// ask puts one question to the API.
func (p *poll) ask(ctx context.Context, q question) (*listings.ContactRequestsPage, error) {
	page, err := p.a.p.client.ContactRequests(ctx, p.a.currentKey(), p.a.id, p.reference, q)
	p.a.p.outcome(p.a, err)
	if err != nil {
		return nil, err
	}
	if err := p.a.wellAsked(p.reference); err != nil {
		return nil, err
	}
	return page, p.a.learnClock(page.Envelope)
}

// answer commits what an answer tells: new and changed contact requests with their events, and whether the window is
// closed, in one transaction; nothing if nothing changed.
func (p *poll) answer(ctx context.Context, page *listings.ContactRequestsPage, q question) error {
	if err := p.learnIdentity(ctx, page, q); err != nil {
		return err
	}
	a := answer{
		requests: page.ContactRequests, asked: q.NumberOfItemsPerPage, sortBy: q.SortBy,
		descending: q.SortOrder == "desc", total: page.Total,
	}
	before := *p.catchUp
	err := p.apply(p.a.p.store.View, page, a, before, false)
	if errors.Is(err, errMustWrite) {
		err = p.apply(p.a.p.store.Update, page, a, before, true)
	}
	return err
}

// errMustWrite ends a View of an answer that changes something.
var errMustWrite = errors.New("must write")

// apply judges an answer inside a transaction. Inside a View it stops with errMustWrite where there is something to
// write, so that a poll without news costs no commit.
func (p *poll) apply(transaction func(func(*store.Tx) error) error, page *listings.ContactRequestsPage, a answer, before catchUp, write bool) error {
	return transaction(func(tx *store.Tx) error {
		c := before.clone()
		i, exists, err := tx.Insertion(p.a.id, p.reference)
		if err != nil || !exists {
			return err
		}
		state, _, err := tx.Agency(p.a.id)
		if err != nil {
			return err
		}
		known, err := tx.ContactRequests(p.a.id, p.reference)
		if err != nil {
			return err
		}
		s := p.sight(tx, i, state, page.Received)
		d := diffContactRequests(s, known, a)
		v := c.judge(i, a, d, max(state.MostReturned, p.a.mostReturned()))
		if len(d.puts) > 0 || mustWrite(i, d, v) {
			if !write {
				return errMustWrite
			}
			if err := p.write(tx, i, state, c, d, v, page.Received); err != nil {
				return err
			}
		}
		p.noteKnown(known, i)
		*p.catchUp, p.verdict = *c, v
		p.untimed += d.untimed
		p.a.returned(len(a.requests))
		return nil
	})
}

func (p *poll) sight(tx *store.Tx, i store.Insertion, state store.Agency, at time.Time) contactsSight {
	after := p.look.at
	if after.IsZero() {
		after = i.LastPoll
	}
	last := listings.Insertion{Reference: p.reference, Record: tx.Record(p.a.id, p.reference)}
	return contactsSight{
		sight:     sight{agencyID: p.a.id, at: at.UTC(), after: after.UTC(), emit: p.a.p.o.Announce},
		insertion: i, summary: summary(last), idField: state.IDField, rules: p.a.p.rules,
	}
}

func (p *poll) write(tx *store.Tx, i store.Insertion, state store.Agency, c *catchUp, d contactsDiff, v verdict, at time.Time) error {
	for _, put := range d.puts {
		if err := tx.PutContactRequest(p.a.id, p.reference, put); err != nil {
			return err
		}
	}
	for _, payload := range d.payloads {
		if err := appendEvent(tx, payload); err != nil {
			return err
		}
	}
	if most := p.a.mostReturned(); most > state.MostReturned {
		state.MostReturned = most
		if err := tx.PutAgency(p.a.id, state); err != nil {
			return err
		}
	}
	if !mustWrite(i, d, v) {
		return nil
	}
	if v == open {
		i.OpenSince = at.UTC()
	} else {
		if err := p.tellUntimed(tx, i, d); err != nil {
			return err
		}
		i = closeCatchUp(i, c, at.UTC())
	}
	return tx.PutInsertion(p.a.id, i)
}

// tellUntimed says how many contact requests of a first poll were taken for old because nothing told their time.
func (p *poll) tellUntimed(tx *store.Tx, i store.Insertion, d contactsDiff) error {
	count := p.untimed + d.untimed
	if i.Polled || count == 0 {
		return nil
	}
	return appendEvent(tx, &events.WatchGapDetected{
		Common:    events.Common{AgencyID: p.a.id, ObservedAt: time.Now()},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: p.reference,
		Reason: "time_unknown", Reached: count,
	})
}

// noteKnown keeps the newest creation time that was known before this catch-up: where a gap would begin.
func (p *poll) noteKnown(known []store.ContactRequest, i store.Insertion) {
	for _, k := range known {
		if k.Epoch < i.Epoch && k.CreatedAt.After(p.from) {
			p.from = k.CreatedAt
		}
	}
}

// wide commits the answer of the widest window, which the regular one made look complete.
func (p *poll) wide(page *listings.ContactRequestsPage) error {
	a := answer{requests: page.ContactRequests, asked: windowSizes[len(windowSizes)-1], sortBy: "createdAt", descending: true, total: page.Total}
	return p.a.p.store.Update(func(tx *store.Tx) error {
		i, exists, err := tx.Insertion(p.a.id, p.reference)
		if err != nil || !exists {
			return err
		}
		state, _, err := tx.Agency(p.a.id)
		if err != nil {
			return err
		}
		known, err := tx.ContactRequests(p.a.id, p.reference)
		if err != nil {
			return err
		}
		d := diffContactRequests(p.sight(tx, i, state, page.Received), known, a)
		i.LastWide = page.Received.UTC()
		if err := tx.PutInsertion(p.a.id, i); err != nil {
			return err
		}
		return p.write(tx, i, state, p.catchUp, d, closedOverlap, page.Received)
	})
}

// giveUp ends a catch-up that no documented question could close, and says so.
func (p *poll) giveUp() error {
	gap := &events.WatchGapDetected{
		Common:    events.Common{AgencyID: p.a.id, ObservedAt: time.Now()},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: p.reference,
		Reason: "window_full", From: p.from, To: p.catchUp.oldestNewestFirst(), Reached: len(p.catchUp.shown),
	}
	if p.catchUp.total >= 0 {
		gap.Total = &p.catchUp.total
	}
	err := p.a.p.store.Update(func(tx *store.Tx) error {
		i, exists, err := tx.Insertion(p.a.id, p.reference)
		if err != nil || !exists {
			return err
		}
		if err := tx.PutInsertion(p.a.id, closeCatchUp(i, p.catchUp, time.Now().UTC())); err != nil {
			return err
		}
		return appendEvent(tx, gap)
	})
	if err == nil {
		p.verdict = closedKnown
		p.a.p.log.Warn("not all contact requests of an insertion can be seen", "agency", p.a.id, "reached", gap.Reached)
	}
	return err
}

// learnIdentity decides once per agency which member tells contact requests apart, by reading one answer twice.
func (p *poll) learnIdentity(ctx context.Context, page *listings.ContactRequestsPage, q question) error {
	var state store.Agency
	err := p.a.p.store.View(func(tx *store.Tx) (err error) {
		state, _, err = tx.Agency(p.a.id)
		return err
	})
	if err != nil || state.IdentityLearned || len(page.ContactRequests) == 0 {
		return err
	}
	again, err := p.ask(ctx, q)
	if err != nil {
		return err
	}
	field := learnID(p.a.p.o.IDFields, p.reference, page.ContactRequests, again.ContactRequests)
	return p.a.p.store.Update(func(tx *store.Tx) error {
		state, _, err := tx.Agency(p.a.id)
		if err != nil || state.IdentityLearned {
			return err
		}
		state.IdentityLearned, state.IDField = true, field
		return tx.PutAgency(p.a.id, state)
	})
}
