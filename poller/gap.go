package poller

import (
	"errors"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// end ends a catch-up that no answer closed by itself. Where it is given up, an event says so.
func (p *poll) end(v watch.Verdict) error {
	var gap *store.Trouble
	err := p.a.p.store.Update(func(tx *store.Tx) error {
		gap = nil
		i, state, known, err := p.remembered(tx)
		if err != nil {
			return err
		}
		if v == watch.ClosedGivenUp {
			if gap, err = p.tellGap(tx, i, known); err != nil {
				return err
			}
		}
		if p.a.windows.note(&state) {
			if err := tx.PutAgency(p.a.id, state); err != nil {
				return err
			}
		}
		next := watch.CloseCatchUp(i, p.catchUp, time.Now().UTC(), p.a.skew())
		return errors.Join(p.tellUntimed(tx, i), tx.NotePoll(p.a.id, p.reference, next.LastPoll), tx.PutInsertion(p.a.id, next))
	})
	if err != nil {
		return err
	}
	p.verdict = v
	if gap != nil {
		p.a.toldGap(p.reference, gap)
		p.a.p.log.Warn("not all contact requests of an insertion can be seen", "agency", p.a.id, "reached", len(p.catchUp.Shown))
	}
	return nil
}

// toldGap keeps up with what was told of an insertion that is not seen whole, or that it is now.
func (a *agency) toldGap(reference string, t *store.Trouble) {
	a.windows.told(reference, t)
	a.mu.Lock()
	defer a.mu.Unlock()
	n := troubleName{gapScope, reference}
	if t == nil {
		delete(a.saved, n)
		return
	}
	a.saved[n] = *t
}

// tellGap says that contact requests may be unseen. Where the answers are in no order, nobody could ever tell a new gap
// from the one before: it is said once, and again only where a total tells of more.
func (p *poll) tellGap(tx *store.Tx, i store.Insertion, known []store.ContactRequest) (*store.Trouble, error) {
	now := time.Now().UTC()
	missing := 0
	if p.a.windows.believable() {
		missing = max(0, p.catchUp.Total-len(known))
	}
	before, told := p.a.windows.gap(p.reference)
	if told && !p.catchUp.Newest.Ordered && missing <= before.Failures {
		return nil, nil
	}
	gap := &events.WatchGapDetected{
		Common:    events.Common{AgencyID: p.a.id, ObservedAt: now},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: p.reference,
		Reason: "window_full", Reached: p.reached(i, known),
	}
	gap.From, gap.To = p.between(i, known)
	if p.catchUp.Total >= 0 {
		gap.Total = &p.catchUp.Total
	}
	t := store.Trouble{Scope: gapScope, Name: p.reference, Failures: missing, Since: now, Told: true}
	return &t, errors.Join(appendEvent(tx, gap), tx.PutTrouble(p.a.id, t))
}

// reached counts the contact requests that answers of this catch-up showed, also those before a restart.
func (p *poll) reached(i store.Insertion, known []store.ContactRequest) int {
	n := len(p.catchUp.Shown)
	for _, k := range known {
		if k.Epoch == i.Epoch && !p.catchUp.Shown[k.ID] {
			n++
		}
	}
	return n
}

// between is the span of time in which unseen ones may lie: above the newest that was known before or that the other end
// showed, and below what the last answer reached. Without an order it is the time since the last good look.
func (p *poll) between(i store.Insertion, known []store.ContactRequest) (from, to time.Time) {
	from, to = i.Start.Add(p.a.skew()), p.catchUp.Newest.Oldest
	if !p.catchUp.Newest.Ordered || to.IsZero() {
		if i.Polled {
			from = i.LastPoll
		}
		return from, time.Now()
	}
	later := func(t time.Time) {
		if t.After(from) && !t.After(to) {
			from = t
		}
	}
	for _, k := range known {
		if k.Epoch < i.Epoch {
			later(k.CreatedAt)
		}
	}
	later(p.catchUp.UpTo)
	return from, to
}

// tellRecovered says that an insertion of which a gap was told is seen whole.
func (p *poll) tellRecovered(tx *store.Tx, gap store.Trouble, at time.Time) error {
	return errors.Join(tx.DeleteTrouble(p.a.id, gap), appendEvent(tx, &events.WatchRecovered{
		Common: events.Common{AgencyID: p.a.id, ObservedAt: at.UTC()}, Ends: "gap_detected", Since: gap.Since,
	}))
}
