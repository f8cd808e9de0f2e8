package poller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	fields    int // drifts of fields when the first answer was committed
}

func (p *poll) run(ctx context.Context) error {
	first, err := p.askFirst(ctx)
	if err != nil || p.unchanged(first) {
		return err
	}
	p.look.hash, p.fields = [32]byte{}, -1
	if err := p.catchUpFrom(ctx, first); err != nil {
		return err
	}
	p.remember(first)
	return nil
}

// askFirst asks for the newest few; for as many as the API likes, if it refuses to be told how many.
func (p *poll) askFirst(ctx context.Context) (*listings.ContactRequestsPage, error) {
	page, err := p.ask(ctx, newestFirst(windowSizes[0]))
	if refusedSize(err) {
		return p.ask(ctx, newestFirst(0))
	}
	return page, err
}

// catchUpFrom commits the first answer and asks on until the window is closed or given up.
func (p *poll) catchUpFrom(ctx context.Context, page *listings.ContactRequestsPage) error {
	most := -1
	for n := 0; ; n++ {
		if err := p.answer(ctx, page, newestFirst(page.Size)); err != nil {
			return err
		}
		if p.verdict != open {
			return p.widen(ctx, page)
		}
		if page.Size == 0 || n+1 == len(windowSizes) || len(page.ContactRequests) <= most {
			return p.fromOtherSides(ctx, page.Size)
		}
		most = len(page.ContactRequests)
		next, err := p.ask(ctx, newestFirst(windowSizes[n+1]))
		if refusedSize(err) {
			return p.fromOtherSides(ctx, page.Size)
		}
		if err != nil {
			return err
		}
		page = next
	}
}

// unchanged says whether nothing has happened since this very answer was committed.
func (p *poll) unchanged(page *listings.ContactRequestsPage) bool {
	if page.Hash != p.look.hash || p.look.fields != p.a.fieldDrifts() || !p.look.whole && time.Since(p.look.lastWide) >= widestEvery {
		return false
	}
	p.look.at = page.Received
	return true
}

// remember keeps what lets the next poll tell at once that nothing has changed.
func (p *poll) remember(page *listings.ContactRequestsPage) {
	p.look.hash, p.look.whole, p.look.fields = page.Hash, p.verdict.whole(), p.fields
	p.look.at, p.look.total = page.Received, p.catchUp.total
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
		if refusedSize(err) {
			continue // an order that this service does not take
		}
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

// widestEvery is how often the widest window is read where a smaller one looked closed, beside whenever a total grew by
// more than was found: late arrivals sort lower.
const widestEvery = 24 * time.Hour

func (p *poll) widen(ctx context.Context, page *listings.ContactRequestsPage) error {
	widest := windowSizes[len(windowSizes)-1]
	if p.verdict.whole() || page.Size == widest || page.Size == 0 {
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
	wide, err := p.askWidest(ctx, page)
	if err != nil {
		return err
	}
	if err := p.wide(wide); err != nil {
		return err
	}
	p.look.lastWide = wide.Received
	return nil
}

// askWidest asks for as many as this service shows at once: the last answer itself, if it takes no larger number.
func (p *poll) askWidest(ctx context.Context, page *listings.ContactRequestsPage) (*listings.ContactRequestsPage, error) {
	for _, size := range slices.Backward(windowSizes) {
		if size <= page.Size {
			break
		}
		if wide, err := p.ask(ctx, newestFirst(size)); !refusedSize(err) {
			return wide, err
		}
	}
	return page, nil
}

// ask puts one question to the API.
func (p *poll) ask(ctx context.Context, q question) (*listings.ContactRequestsPage, error) {
	key := p.a.keyFor(listings.OperationContactRequests)
	page, err := p.a.p.client.ContactRequests(ctx, key, p.a.id, p.reference, q)
	if err != nil {
		return nil, err
	}
	if err := p.a.wellAsked(p.reference, key); err != nil {
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
	r, err := p.apply(p.a.p.store.View, page, a, false)
	if errors.Is(err, errMustWrite) {
		r, err = p.apply(p.a.p.store.Update, page, a, true)
	}
	if err != nil {
		return err
	}
	if p.fields < 0 {
		p.fields = r.fields
	}
	p.catchUp, p.verdict = r.catchUp, r.verdict
	p.untimed += r.untimed
	if r.from.After(p.from) {
		p.from = r.from
	}
	p.a.returned(len(a.requests))
	p.a.drifted(r.fields)
	return nil
}

// result is what a committed answer adds to the poll.
type result struct {
	catchUp *catchUp
	verdict verdict
	untimed int
	from    time.Time // creation of the newest that was known before this catch-up: where a gap would begin
	fields  int       // drifts of fields, this answer included
}

// errMustWrite ends a View of an answer that changes something.
var errMustWrite = errors.New("must write")

// apply judges an answer inside a transaction. Inside a View it stops with errMustWrite where there is something to
// write, so that a poll without news costs no commit.
func (p *poll) apply(transaction func(func(*store.Tx) error) error, page *listings.ContactRequestsPage, a answer, write bool) (r result, err error) {
	err = transaction(func(tx *store.Tx) error {
		i, state, known, err := p.remembered(tx)
		if err != nil {
			return err
		}
		s, err := p.sight(tx, i, state, page.Received)
		if err != nil {
			return err
		}
		d := diffContactRequests(s, known, a)
		r = result{catchUp: p.catchUp.clone(), untimed: d.untimed, from: newestBefore(known, i), fields: d.fields}
		r.verdict = r.catchUp.judge(i, i.Start.Add(s.skew), a, d, p.a.mostReturned())
		if len(d.puts) == 0 && !mustWrite(i, d, r.verdict) {
			return nil
		}
		if !write {
			return errMustWrite
		}
		return p.write(tx, i, state, r.catchUp, d, r.verdict, page.Received)
	})
	return r, err
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
	known, err = tx.ContactRequests(p.a.id, p.reference)
	return i, state, known, err
}

func newestBefore(known []store.ContactRequest, i store.Insertion) (newest time.Time) {
	for _, k := range known {
		if k.Epoch < i.Epoch && k.CreatedAt.After(newest) {
			newest = k.CreatedAt
		}
	}
	return newest
}

func (p *poll) sight(tx *store.Tx, i store.Insertion, state store.Agency, at time.Time) (contactsSight, error) {
	after := p.look.at
	if after.IsZero() {
		after = i.LastPoll
	}
	names, err := tx.FieldNames(p.a.id)
	last := listings.Insertion{Reference: p.reference, Record: tx.Record(p.a.id, p.reference)}
	return contactsSight{
		sight:     sight{agencyID: p.a.id, at: at.UTC(), after: after.UTC(), emit: p.a.p.o.Announce && !refiltered(state, i)},
		insertion: i, summary: summary(last), rules: p.a.p.rules.after(state.FieldsVersion), skew: p.a.skew(),
		idField: state.IDField, pastIDs: state.PastIDFields, noIDs: state.RefusedIDFields,
		names: names, drifts: state.Operation(string(listings.OperationContactRequests)).Drifts,
	}, err
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
	if err := p.tellFields(tx, &state, d, at); err != nil {
		return err
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
		if err := p.tellUntimed(tx, i, d.untimed); err != nil {
			return err
		}
		i = closeCatchUp(i, c, at.UTC(), p.a.skew())
	}
	return tx.PutInsertion(p.a.id, i)
}

// tellUntimed says how many contact requests of a first poll were taken for old because nothing told their time.
func (p *poll) tellUntimed(tx *store.Tx, i store.Insertion, more int) error {
	count := p.untimed + more
	if i.Polled || count == 0 {
		return nil
	}
	return appendEvent(tx, &events.WatchGapDetected{
		Common:    events.Common{AgencyID: p.a.id, ObservedAt: time.Now()},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: p.reference,
		Reason: "time_unknown", Reached: count,
	})
}

// wide commits the answer of the widest window, which the regular one made look complete.
func (p *poll) wide(page *listings.ContactRequestsPage) error {
	a := answer{requests: page.ContactRequests, asked: page.Size, sortBy: "createdAt", descending: true, total: page.Total}
	drifts := 0
	err := p.a.p.store.Update(func(tx *store.Tx) error {
		i, state, known, err := p.remembered(tx)
		if err != nil {
			return err
		}
		s, err := p.sight(tx, i, state, page.Received)
		if err != nil {
			return err
		}
		d := diffContactRequests(s, known, a)
		drifts = d.fields
		i.LastWide = page.Received.UTC()
		if err := tx.PutInsertion(p.a.id, i); err != nil {
			return err
		}
		return p.write(tx, i, state, p.catchUp, d, closedOverlap, page.Received)
	})
	if err == nil {
		p.a.drifted(drifts)
	}
	return err
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
		if err := tx.PutInsertion(p.a.id, closeCatchUp(i, p.catchUp, time.Now().UTC(), p.a.skew())); err != nil {
			return err
		}
		return errors.Join(p.tellUntimed(tx, i, 0), appendEvent(tx, gap))
	})
	if err == nil {
		p.verdict = closedKnown
		p.a.p.log.Warn("not all contact requests of an insertion can be seen", "agency", p.a.id, "reached", gap.Reached)
	}
	return err
}
