package poller

import (
	"context"
	"errors"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// halt stops asking for a scope, and says so: halt and event are one transaction. The flag is set first: no request is
// started after the refusal was read, even if the commit takes long.
func (a *agency) halt(scope events.Scope, reference string, cause error) error {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	status, err := a.refusal(cause)
	if status == nil {
		return err
	}
	return a.enterHalt(scope, reference, status, a.ring())
}

// enterHalt is halt, and remembers the keys, in the same transaction. Where others of the key are still asked, the event waits for
// what one of them is answered, see tellHalt. The caller holds deciding.
func (a *agency) enterHalt(scope events.Scope, reference string, status *listings.StatusError, keys watch.Keys) error {
	now := time.Now().UTC()
	a.mu.Lock()
	h := store.Halt{
		Scope: scope, Reference: reference, Operation: string(status.Operation), Status: status.Status, Since: now, Tried: now,
		Key: status.Request.Key, Body: string(status.Body), Asked: a.refusedQuestion.UTC(),
	}
	a.mu.Unlock()
	others, settled := a.explain(&h, keys)
	var event *events.AccessHalted
	if settled {
		h.Asked = time.Time{}
		event = a.haltEvent(h, keys, others)
	}
	a.mu.Lock()
	_, already := a.halts[haltScope{scope, reference}]
	a.halts[haltScope{scope, reference}] = h
	a.keys = keys
	a.mu.Unlock()
	if already {
		return nil
	}
	if scope != events.ScopeInsertion {
		a.admit("")
		a.pause()
	}
	owed := owedHalt{h, event, keys}
	err := a.writeHalt(owed)
	if errors.Is(err, store.ErrNoSpace) {
		a.owed = append(a.owed, owed) // it is in force all the same
	}
	return err
}

// explain writes into a halt why it probably came, by what others of the key were answered since its question; nothing is asked.
func (a *agency) explain(h *store.Halt, keys watch.Keys) (others events.AgenciesOfKey, settled bool) {
	others, since := a.p.othersOfKey(a, h.Key, h.Asked)
	h.ProbableReason, settled = watch.Reason(h.Scope, events.Evidence{Body: h.Body, OtherAgenciesOfKey: others}, since)
	h.Advice = watch.Advice(h.ProbableReason, a.id, h.Reference)
	if h.Scope != events.ScopeInsertion && len(keys.Known.Refused) > 1 {
		h.Advice = "Both keys were refused, this one last. " + h.Advice
	}
	return others, settled
}

func (a *agency) haltEvent(h store.Halt, keys watch.Keys, others events.AgenciesOfKey) *events.AccessHalted {
	a.mu.Lock()
	defer a.mu.Unlock()
	return watch.HaltEvent(a.id, h, keys.Slot(h.Key), others, a.lastGood)
}

// evidenceWithin is how long the event of a halt waits for what others of its key are answered.
const evidenceWithin = 30 * time.Second

// tellHalt tells of a halt whose event waits for its reason: as soon as that is settled, or nothing was heard in time. The halt
// itself stands in the store before.
func (a *agency) tellHalt(ctx context.Context) error {
	for {
		wait, err := a.tellHaltAt(time.Now())
		if err != nil {
			wait, err = a.afterCommitError(err)
		}
		if err != nil || wait <= 0 {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-a.evidence:
		case <-ctx.Done():
		}
		if t.Stop(); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// tellHaltAt says how long to wait where the reason is not settled; zero: nothing waits to be told.
func (a *agency) tellHaltAt(now time.Time) (wait time.Duration, err error) {
	a.deciding.Lock()
	defer a.deciding.Unlock()
	a.mu.Lock()
	h := a.halts[haltScope{scope: events.ScopeAgency}]
	a.mu.Unlock()
	if h.Asked.IsZero() {
		return 0, nil
	}
	if err := a.pay(); err != nil {
		return 0, err
	}
	keys := a.ring()
	others, settled := a.explain(&h, keys)
	if wait = h.Since.Add(evidenceWithin).Sub(now); !settled && wait > 0 {
		return wait, nil
	}
	h.Asked = time.Time{}
	if err := a.writeHalt(owedHalt{h, a.haltEvent(h, keys, others), keys}); err != nil {
		return 0, err
	}
	a.mu.Lock()
	a.halts[haltScope{scope: events.ScopeAgency}] = h
	a.mu.Unlock()
	return 0, nil
}

// othersOfKey counts the other agencies of a key by what is already known; nothing is asked. One works if a question was answered
// well that is younger than asked; since counts those whose list was refused so.
func (p *Poller) othersOfKey(a *agency, key string, asked time.Time) (n events.AgenciesOfKey, since int) {
	for _, other := range p.watched() {
		if other == a {
			continue
		}
		other.mu.Lock()
		keys, good, goodAt, refusedAt := other.keys, other.goodKey, other.goodQuestion, other.refusedQuestion
		_, halted := other.halts[haltScope{scope: events.ScopeAgency}]
		other.mu.Unlock()
		if key != keys.Known.Current && key != keys.Known.Next {
			continue
		}
		// A key that contact requests were refused to still opens the list, if it is shown there.
		listed := !halted && keys.Shown(listings.OperationInsertions).Fingerprint() == key
		switch {
		case keys.WasRefused(key) && !listed:
			n.Refused++
			if !refusedAt.Before(asked) {
				since++
			}
		case good == key && !goodAt.Before(asked):
			n.Working++
		default:
			n.Unknown++
		}
	}
	return n, since
}

// answered notes what an agency was answered to a question, and lets those know whose halts wait for it.
func (p *Poller) answered(a *agency, key string, good bool, op listings.Operation, sent, now time.Time) {
	a.mu.Lock()
	switch {
	case good:
		a.lastGood, a.goodKey, a.goodQuestion = now.UTC(), key, sent
	case op == listings.OperationInsertions:
		a.refusedQuestion = sent
	}
	a.mu.Unlock()
	for _, other := range p.watched() {
		select {
		case other.evidence <- struct{}{}:
		default:
		}
	}
}
