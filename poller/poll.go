package poller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// pollScheduled polls an insertion that is due, and puts it back into the schedule. An error is
// fatal, or that of ctx.
func (a *agency) pollScheduled(ctx context.Context, reference string) error {
	sent := time.Now()
	p := &poll{a: a, reference: reference, state: a.pollState(reference), fresh: map[string]time.Time{}}
	failed := p.run(ctx)
	c := watch.Classify(failed)
	switch {
	case c == watch.ClassCanceled, c == watch.ClassFatal && ctx.Err() != nil:
		return ctx.Err()
	case c == watch.ClassFatal:
		return failed
	}
	if err := p.noteOutcome(c, failed); err != nil {
		return err
	}
	until, err := a.polled(reference, c, failed, sent, time.Now())
	if c == watch.ClassNone {
		p.state.counted = true
		a.p.schedule.Polled(a.id, reference, p.received, p.arrived())
	} else {
		a.p.schedule.Put(a.id, reference, until)
	}
	// a walk ended its polls meanwhile, so its alarms end too
	if !a.p.schedule.Has(a.id, reference) {
		a.forget(reference)
		err = errors.Join(err, a.endForgotten())
	}
	return err
}

// noteOutcome records the outcome of a poll in the health of the operation.
func (p *poll) noteOutcome(c watch.Class, err error) error {
	switch {
	case c != watch.ClassNone:
		return p.a.noteFailure(listings.OperationContactRequests, p.reference, c, err)
	case p.none:
		return p.a.noteNone(p.reference, p.closed == watch.ClosedSilent, p.list)
	}
	return p.a.noteRequests(p.reference)
}

// polled handles the outcome of a poll, and returns until when the insertion waits.
func (a *agency) polled(reference string, c watch.Class, err error, sent, now time.Time) (time.Time, error) {
	due := now.Add(jitter(a.p.o.PollInterval))
	switch c {
	case watch.ClassNone:
		if a.retries(reference).succeeded(now) {
			a.p.log.Info("polls of an insertion work again", "agency", a.id, "reference", reference)
		}
		if a.asking.succeeded(sent) {
			a.note(nil)
			a.pause()
		}
		return due, a.clear(now,
			watch.AlarmOf(watch.Unreadable, listings.OperationContactRequests, reference))
	case watch.ClassRefused:
		return due, a.refusedContacts(reference)
	case watch.ClassHalted:
		a.pause() // its turn came before the halt, or another request is testing the halt
		return a.haltedUntil(reference, due), nil
	case watch.ClassWaiting:
		early, _ := errors.AsType[*watch.WaitError](err)
		return early.Until, nil
	case watch.ClassDown, watch.ClassBusy:
		return due, nil // everything waits; this says nothing about the insertion
	}
	return a.setAside(reference, c, err, sent, now)
}

// setAside makes an insertion wait after a useless response. A failure of the service also counts
// for the operation: while that backs off, only one insertion at a time is polled. An oddity of one
// insertion says nothing about the others.
func (a *agency) setAside(reference string, c watch.Class, err error,
	sent, now time.Time,
) (time.Time, error) {
	if a.note(err) {
		a.p.log.Warn("a poll failed", "agency", a.id, "class", string(c), "err", err)
	}
	if b := a.asking.state(); c == watch.ClassTransient && (b.Failures == 0 || b.Last != reference) {
		a.asking.failed(reference, sent, now)
		a.pause()
	}
	due := a.retry(reference).failed(reference, now, now)
	if a.isHalted(listings.OperationContactRequests, reference) { // this request tested the halt
		_, err := a.changeAccess(func(x watch.Access) watch.Effects { return x.Retried(reference, now) })
		return a.haltedUntil(reference, due), err
	}
	return due, a.raiseUnreadable(reference, now)
}

// poll is one reading of the contact requests of one insertion.
type poll struct {
	a         *agency
	reference string
	state     *pollState
	window    *watch.Window
	closed    watch.Closed
	fresh     map[string]time.Time // creation times that the schedule does not know yet, by id
	received  time.Time            // when the first response came
	none      bool                 // the first response had no contact requests
	list      bool                 // the first response had a list
	notFound  bool                 // the last response said that there is no such insertion
	// contradicted means that a response showed nothing after one that showed some.
	contradicted bool
	repeated     bool           // an earlier poll of the insertion has come to an end
	place        listings.Place // where the records of the last response were looked for
}

// otherOrders are the sort orders to try while a window stays open.
var otherOrders = [][2]string{{"createdAt", "asc"}, {"score", "desc"}, {"score", "asc"}}

// run sends requests until the window is closed or given up, and commits each response before the
// next request.
func (p *poll) run(ctx context.Context) error {
	page, q, err := p.askNewest(ctx, watch.FirstSize)
	if err != nil {
		return err
	}
	p.received, p.none, p.list = page.Received, countOf(page) == 0, page.Found
	if page.Settled {
		p.none, p.list = p.state.settled.none, p.state.settled.list
	}
	if gone, err := p.doubt(); gone || err != nil {
		return err
	}
	if page.Settled {
		p.state.at = p.received
		return nil
	}
	p.window = watch.NewWindow()
	if err := p.judge(page, q); err != nil {
		return err
	}
	if p.closed != watch.ClosedSilent {
		p.state.at = p.received
	}
	if p.closed == watch.Open && p.a.sizes(watch.WidestSize)[0] > q.NumberOfItemsPerPage {
		if page, q, err = p.askNewest(ctx, watch.WidestSize); err != nil {
			return err
		}
		if err := p.judge(page, q); err != nil {
			return err
		}
	}
	for _, order := range otherOrders {
		if p.closed != watch.Open {
			break
		}
		q := watch.Ask(order[0], order[1], q.NumberOfItemsPerPage)
		page, err := p.ask(ctx, q)
		if watch.RefusedSize(err) {
			continue // this service refuses the sort order
		}
		if err != nil {
			return err
		}
		if err := p.judge(page, q); err != nil {
			return err
		}
	}
	if p.closed == watch.Open && p.contradicted && p.repeated && p.state.unproved < maxUnproved {
		p.state.unproved++
		return nil // the window stays open
	}
	p.state.unproved = 0
	if p.closed == watch.Open {
		return p.giveUp()
	}
	return nil
}

// maxUnproved is how many catch-ups in a row may end without a verdict because the service answered
// some of their requests with nothing: it probably fails, and a gap would be a false alarm.
const maxUnproved = 3

func response(page *listings.ContactRequestsPage, q watch.Question) watch.Response {
	return watch.Response{
		Question: q, Requests: page.ContactRequests, Total: page.Total,
		Unreadable: page.Unreadable, List: page.Found,
	}
}

func countOf(page *listings.ContactRequestsPage) int {
	return len(page.ContactRequests) + page.Unreadable
}

// askNewest requests the newest contact requests. If the page size is refused it tries the next
// smaller one, and last no size at all. If polls keep failing, the size may be the cause: each poll
// then begins with a smaller one.
func (p *poll) askNewest(ctx context.Context,
	size int,
) (page *listings.ContactRequestsPage, q watch.Question, err error) {
	sizes := p.a.sizes(size)
	if tries := p.a.retries(p.reference).state().Failures - slowLimit; tries >= 0 {
		sizes = sizes[(tries+1)%len(sizes):]
	}
	for n, size := range sizes {
		q = watch.Ask("createdAt", "desc", size)
		if page, err = p.ask(ctx, q); watch.RefusedSize(err) {
			continue
		}
		if err == nil && n > 0 {
			p.a.sizeRefused(size)
		}
		break
	}
	return page, q, err
}

// slowLimit is how often an insertion must have failed before a poll begins with a smaller size.
const slowLimit = 3

// ask sends one request. A status that means that there are no contact requests counts as an empty
// response.
func (p *poll) ask(ctx context.Context, q watch.Question) (*listings.ContactRequestsPage, error) {
	p.place = p.a.place(listings.OperationContactRequests)
	q.Place = p.place
	q.Settled = p.isSettled
	page, err := p.a.p.client.ContactRequests(ctx, p.a.key(), p.a.id, p.reference, q)
	status := NoneStatus(err)
	if err != nil && status == 0 {
		return nil, err
	}
	if err := p.a.answered(listings.OperationContactRequests, p.reference); err != nil {
		return nil, err
	}
	if p.notFound = status == http.StatusNotFound || status == http.StatusGone; status != 0 {
		return &listings.ContactRequestsPage{Envelope: listings.Envelope{
			Total:    -1,
			Received: time.Now(),
		}}, nil
	}
	records := len(page.ContactRequests)
	return page, p.a.locate(listings.OperationContactRequests, p.reference, page.Place(), records,
		page.Received)
}

// NoneStatus returns the status of a response if it means that there are no contact requests;
// otherwise 0.
func NoneStatus(err error) (code int) {
	if status, is := errors.AsType[*listings.StatusError](err); is {
		code = status.Status
	} else if drift, is := errors.AsType[*listings.DriftError](err); is {
		code = drift.Status
	}
	if code == http.StatusNotFound || code == http.StatusGone || code == http.StatusNoContent {
		return code
	}
	return 0
}

// doubt handles a response that says that the insertion does not exist. If the insertion has
// disappeared from the list, that is true and its polls end. Otherwise it asks for a walk, once.
func (p *poll) doubt() (gone bool, err error) {
	if !p.notFound {
		p.state.refused = p.state.refused && p.none
		return false, nil
	}
	i, err := p.a.insertion(p.reference)
	switch {
	case err != nil:
		return false, err
	case !i.GoneSince.IsZero():
		p.a.forget(p.reference)
		return true, nil
	case i.Missing == 0 && !p.state.at.IsZero() && !p.state.refused:
		p.a.doubtList()
	}
	p.state.refused = true
	return false, nil
}

// judge commits what a response shows in one transaction: new and changed contact requests with
// their events, and whether the window is closed. It commits nothing if nothing changed.
func (p *poll) judge(page *listings.ContactRequestsPage, q watch.Question) error {
	if countOf(page) == 0 && p.window.Shown() > 0 {
		p.contradicted = true // it says nothing about what earlier responses have shown
		return nil
	}
	r := response(page, q)
	var j watch.Judged
	version, watched := p.a.p.store.Version(p.a.id, p.reference), p.watched()
	err := p.commit(func(prior watch.Prior) (watch.Effects, error) {
		if !p.state.counted {
			for _, k := range prior.Known {
				p.fresh[k.ID] = k.CreatedAt
			}
		}
		p.repeated = prior.Insertion.Polled
		j = watch.Judge(watched, p.window, prior, r, page.Received)
		return j.Effects, nil
	})
	if err != nil {
		return err
	}
	p.window, p.closed = j.Window, j.Closed
	p.state.settled = settled{}
	// otherwise the next one is looked for elsewhere
	if j.Settled && (page.Place() == p.place || p.none) {
		p.state.settled = settled{
			body: page.Sum, version: version, totals: watched.Totals, none: p.none, list: p.list,
		}
	}
	if p.closed == watch.ClosedReversed || p.closed == watch.ClosedTotal {
		p.state.proved = p.window.Shown()
	}
	p.a.learnShown(countOf(page), page.Total, j.Newest)
	maps.Copy(p.fresh, j.Fresh)
	p.a.announced(j.Waits, page.Received)
	return p.a.observe(p.reference, j.Readings, page.Received)
}

// observe finds volatile members: those of contact requests that change at each reading.
func (a *agency) observe(reference string, readings []watch.Reading, at time.Time) error {
	a.committing.Lock()
	defer a.committing.Unlock()
	return a.leaveOut(listings.OperationContactRequests,
		a.volatility.Observe(reference, readings, at), at)
}

// leaveOut excludes volatile members from comparisons, and includes those again that did not change
// for a day.
func (a *agency) leaveOut(op listings.Operation, volatile []string, at time.Time) error {
	if len(volatile)+len(a.published().state.Volatile) == 0 {
		return nil
	}
	return a.commitLocked(func(tx *store.Tx) (watch.Effects, error) {
		state, _ := tx.Agency(a.id)
		o := watch.Observation{AgencyID: a.id, At: at.UTC()}
		return a.volatility.LeaveOut(state, o, op, volatile), nil
	})
}

// giveUp ends a catch-up that no response has closed.
func (p *poll) giveUp() error {
	err := p.commit(func(prior watch.Prior) (watch.Effects, error) {
		return watch.GiveUp(p.watched(), p.window, prior, time.Now()), nil
	})
	if err == nil {
		p.closed = watch.ClosedGivenUp
	}
	return err
}

// commit decides from what is remembered of the insertion, and commits the effects, in one
// transaction.
func (p *poll) commit(decide func(watch.Prior) (watch.Effects, error)) error {
	return p.a.commit(func(tx *store.Tx) (watch.Effects, error) {
		id := p.a.id
		i, exists := tx.Insertion(id, p.reference)
		if !exists {
			return watch.Effects{},
				fmt.Errorf("agency %s: an insertion is polled that is not remembered", id)
		}
		state, _ := tx.Agency(id) // not the snapshot: the relay notes here that the store was set back
		return decide(watch.Prior{
			State: state, Insertion: i, Known: tx.ContactRequests(id, p.reference),
			Record:    func() []byte { return tx.Record(id, p.reference) },
			Elsewhere: func() []store.ContactRequest { return elsewhere(tx, id, i) },
		})
	})
}

// elsewhere returns the contact requests of insertions that may be this one under another
// reference: if it is new, those that have vanished, and if it has vanished, those that are new.
// Either of the two may show a contact request that neither has shown before.
func elsewhere(tx *store.Tx, agency string, i store.Insertion) (all []store.ContactRequest) {
	vanished := !i.LastSeen.IsZero()
	if !vanished && (i.Listed || i.Baseline) {
		return nil
	}
	for other := range tx.Insertions(agency) {
		mayBe := !other.LastSeen.IsZero() &&
			(other.GoneSince.IsZero() || time.Since(other.GoneSince) <= watch.ComesBackWithin)
		if vanished {
			mayBe = !other.Baseline && other.LastSeen.IsZero() && other.FirstSeen.After(i.LastSeen)
		}
		if mayBe && other.Reference != i.Reference {
			all = append(all, tx.ContactRequests(agency, other.Reference)...)
		}
	}
	return all
}

// watched returns the poll in the form that package watch judges.
func (p *poll) watched() watch.Poll {
	o := p.a.p.o
	s := p.a.shownSoFar()
	return watch.Poll{
		AgencyID: p.a.id, Announce: o.Announce, People: p.a.people, Rules: p.a.p.rules,
		Before: p.state.at, Apart: o.WalkInterval, HoldFor: o.HoldFor, Retention: o.Retention,
		Newest: s.newest, Longest: s.longest, Totals: s.totals, Proved: p.state.proved,
	}
}

// arrived returns the creation times of the contact requests that the poll found, oldest first, for
// the schedule: zero if unknown, and never later than the response.
func (p *poll) arrived() []time.Time {
	created := slices.Collect(maps.Values(p.fresh))
	for n, t := range created {
		if t.After(p.received) {
			created[n] = p.received
		}
	}
	slices.SortFunc(created, time.Time.Compare)
	return created
}
