package poller

import (
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

// health is how well one operation of an agency goes: what was good last, what went wrong, and which alarms are on.
// The alarms stand in the store; this is their copy.
type health struct {
	watch.Liveness
	store.Operation                  // the copy of what is remembered of it, alarms and dialect among it
	sizeTried       time.Time        // last time that the configured page size was asked for
	lastWalk        listings.Verdict // of this process
	pathAnnounced   time.Time        // last time another path was told
}

// silenceEvery is how often that is checked.
const silenceEvery = time.Minute

var operations = []listings.Operation{listings.OperationInsertions, listings.OperationContactRequests}

// monitorSilence raises an alarm where an operation has no successful response for too long, until ctx is done.
func (p *Poller) monitorSilence(ctx context.Context) error {
	for looked := time.Now(); ; looked = time.Now() {
		p.heartbeats.staleness.beat()
		if err := sleep(ctx, silenceEvery); err != nil {
			return err
		}
		away := wasAway(looked, time.Now())
		for _, a := range p.watched() {
			if away {
				a.excuse(listings.OperationInsertions, time.Now(), always)
				a.excuse(listings.OperationContactRequests, time.Now(), always)
			}
			judge := func(context.Context) error {
				return errors.Join(a.checkSilence(listings.OperationInsertions, time.Now()),
					a.checkSilence(listings.OperationContactRequests, time.Now()), a.checkLateness(time.Now()))
			}
			if err := a.while(ctx, judge, func() {}); err != nil && !errors.Is(err, store.ErrNoSpace) {
				return err
			}
		}
		p.checkCap()
	}
}

// succeededBefore takes the last good answer that the process before remembered for one. The store is told of it by walks only,
// and those may be rarer than a silence that is an alarm.
func (a *agency) succeededBefore(at time.Time) {
	if h := a.health[listings.OperationContactRequests]; at.After(h.Good) {
		h.Good = at
	}
}

// wasAway says whether nobody looked for long, by the clock of the wall: the machine slept, or the clock has jumped. Then
// everything seems old, and it was not the API's silence.
func wasAway(looked, now time.Time) bool { return now.Round(0).Sub(looked.Round(0)) > 3*silenceEvery }

// restoreHealth sets the alarms as the store remembers them.
func (a *agency) restoreHealth(state store.Agency) {
	for _, op := range operations {
		o := state.Operation(string(op))
		h := a.health[op]
		h.Operation = o
		if h.Good = o.LastGood; h.Good.IsZero() {
			h.Good = state.WatchStart
		}
		if h.Good.IsZero() {
			h.Good = a.began // of one that is new
		}
		if inGap(h) {
			h.Calm = a.began
		}
		h.Behind = op == listings.OperationContactRequests && !h.StaleSince.IsZero() // until somebody has looked
	}
	a.lastAnswer = state.Operation(string(listings.OperationContactRequests)).LastGood
}

// noteGood puts the last successes into what is written anyway: that of a restart is as old as the last write.
func (a *agency) noteGood(state *store.Agency) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, op := range operations {
		o := state.Operation(string(op))
		if good := a.health[op].Good.UTC().Round(0); good.After(o.LastGood) && good.After(state.WatchStart) {
			o.LastGood = good
			state.SetOperation(string(op), o)
		}
	}
}

// checkSilence raises the alarm of one operation where it is due.
func (a *agency) checkSilence(op listings.Operation, now time.Time) error {
	if a.isHalted(listings.Request{Operation: op, AgencyID: a.id}) {
		a.excuse(op, now, always)
		return nil
	}
	if op == listings.OperationContactRequests && !a.asksInsertions() {
		a.excuse(op, now, always)
		return a.endAlarms(op, true, true, now) // nobody is left who could end them
	}
	a.mu.Lock()
	h := a.health[op]
	good, errs := h.Good, watch.LastErrors(h.Errors...)
	due := h.StaleSince.IsZero() && h.Silent(a.began, a.staleAfter(op), now)
	a.mu.Unlock()
	if !due {
		return nil
	}
	err := a.raiseStale(op, now, errs)
	if err == nil { // else it is told at the next look
		a.p.log.Error("no successful response for long", "agency", a.id, "operation", string(op), "since", good)
	}
	return err
}

func (a *agency) raiseStale(op listings.Operation, now time.Time, errs []events.StaleError) error {
	return a.updateOperation(op, func(o *store.Operation) []events.Payload {
		return watch.Raise(o, watch.Stale, now, &events.WatchStale{
			Common:    events.Common{AgencyID: a.id, ObservedAt: now, ObservedAfter: o.LastGood},
			Operation: string(op), LastSuccessAt: o.LastGood, Errors: errs,
		})
	})
}

// staleAfter is how long an operation may be without a successful response. The caller holds a.mu.
func (a *agency) staleAfter(op listings.Operation) time.Duration {
	interval := a.p.o.PollInterval
	if op == listings.OperationInsertions {
		interval = max(a.p.o.WalkInterval, a.lastWalk.Took) // a walk over many takes its time
	}
	return watch.StaleAfter(interval)
}

// asksInsertions says whether there are insertions whose contact requests are asked for.
func (a *agency) asksInsertions() bool {
	return a.p.scheduler.count(a.id) > a.access().HaltedInsertions(func(string) bool { return true })
}

// excuse notes that silence up to now means nothing, if the health is so.
func (a *agency) excuse(op listings.Operation, now time.Time, so func(*health) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.health[op]; so(h) {
		h.Calm = now
	}
}

func always(*health) bool { return true }

// unbroken is the health of an operation of which nothing has failed since it was good: a walk may just take long.
func unbroken(h *health) bool { return len(h.Errors) == 0 }

// inGap is that of one of which it was said that walks are not complete; there is a list all the same.
func inGap(h *health) bool { return !h.GapSince.IsZero() }

// updateOperation changes what is remembered of an operation, with the events that say so.
func (a *agency) updateOperation(op listings.Operation, change func(*store.Operation) []events.Payload) error {
	return a.commitState(func(state *store.Agency) []events.Payload {
		o := state.Operation(string(op))
		list := change(&o)
		state.SetOperation(string(op), o)
		return list
	})
}

// noteSuccess notes a success, and ends the alarms that it ends: a complete walk; a good answer of contact requests, unless many
// others still wait for one, and as far as a drift at one insertion is concerned only its own.
func (a *agency) noteSuccess(op listings.Operation, reference string, at time.Time) error {
	a.mu.Lock()
	h := a.health[op]
	h.Good, h.Errors = at, nil
	other, stale, drift := h.DriftReference, !h.Behind, !h.DriftSince.IsZero()
	a.mu.Unlock()
	return a.endAlarms(op, stale, drift && (other == reference || !a.stillFails(other)), at)
}

// endAlarms ends the alarms of an operation that are on, as far as they have ended.
func (a *agency) endAlarms(op listings.Operation, stale, drift bool, at time.Time) error {
	a.mu.Lock()
	h := a.health[op]
	stale, drift = stale && !h.StaleSince.IsZero(), drift && !h.DriftSince.IsZero()
	a.mu.Unlock()
	if !stale && !drift {
		return nil
	}
	return a.updateOperation(op, func(o *store.Operation) (list []events.Payload) {
		if stale {
			list = watch.Clear(o, watch.Stale, a.id, string(op), at)
		}
		if drift {
			list = append(list, watch.Clear(o, watch.Drifted, a.id, string(op), at)...)
		}
		return list
	})
}

// stillFails says whether an insertion is still asked, in vain.
func (a *agency) stillFails(reference string) bool {
	return a.retries(reference).state().Failures > 0
}

// noteFailure notes a failure, and says it where an answer was not what it should be.
func (a *agency) noteFailure(op listings.Operation, reference string, c watch.Class, err error, at time.Time) error {
	a.mu.Lock()
	h := a.health[op]
	h.Fail(op, c, err, at)
	raised := !h.DriftSince.IsZero()
	a.mu.Unlock()
	var drift *listings.DriftError
	if raised || !errors.As(err, &drift) {
		return nil
	}
	return a.updateOperation(op, func(o *store.Operation) []events.Payload {
		list := watch.Raise(o, watch.Drifted, at, &events.WatchSchemaDrifted{
			Common: events.Common{AgencyID: a.id, ObservedAt: at}, Operation: string(op), PropertyReferenceID: reference,
			Expected: drift.Expected, Found: drift.Found,
		})
		if len(list) > 0 {
			o.DriftFound, o.DriftReference = drift.Found, reference
		}
		return list
	})
}

// stale says whether an alarm is on that an operation is stale.
func (a *agency) stale() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.health {
		if !h.StaleSince.IsZero() {
			return true
		}
	}
	return false
}

// checkLateness raises the alarm of contact requests where at least a tenth of an agency's insertions is late, at every look
// for as long as silence would have to last. There are good answers, but not enough of them: the API is slow, or lets us
// ask too little. That it answers 429 is no excuse, as it is none for silence: we do not see.
//
// Insertions that fail by themselves are not counted, each of them becomes a gap that is told.
//
// An alarm that is on, whatever for, ends when less than a tenth is late and an answer was good since.
func (a *agency) checkLateness(now time.Time) error {
	op := listings.OperationContactRequests
	if a.isHalted(listings.Request{Operation: op, AgencyID: a.id}) || !a.asksInsertions() {
		return nil // checkSilence notes the calm
	}
	s := a.standing(now)
	a.mu.Lock()
	h := a.health[op]
	due := h.Late(s.behind(), a.began, s.cap, a.staleAfter(op), now) && h.StaleSince.IsZero()
	over := !h.StaleSince.IsZero() && !h.Behind && h.Good.After(h.StaleSince)
	errs := watch.LastErrors(h.Errors...)
	a.mu.Unlock()
	switch {
	case over:
		return a.endAlarms(op, true, false, now)
	case due:
		err := a.raiseStale(op, now, s.complain(errs, now))
		if err == nil {
			a.p.log.Error("too many insertions are past the cap", "agency", a.id, "late", s.late, "of", s.answerable, "cap", s.cap)
		}
		return err
	}
	return nil
}

// complain adds what is wrong to the last errors.
func (s standing) complain(errs []events.StaleError, now time.Time) []events.StaleError {
	return watch.LastErrors(append(errs, events.StaleError{
		At: now, Operation: string(listings.OperationContactRequests), Class: "late",
		Text: fmt.Sprintf("%d of %d insertions wait for longer than %s", s.late, s.answerable, s.cap.Round(time.Second)),
	})...)
}

// checkCap says in the log when the cap cannot be held for the insertions that are there, and again when it can.
// The schedule then does what is possible: all take turns.
func (p *Poller) checkCap() {
	if p.o.MaxStaleness == 0 {
		return
	}
	insertions := 0
	for _, a := range p.watched() {
		insertions += p.scheduler.count(a.id)
	}
	needed := float64(insertions) / p.o.MaxStaleness.Seconds()
	over := needed > p.o.RequestsPerSecond
	if p.overdue.Swap(over) == over {
		return
	}
	if !over {
		p.log.Info("the staleness that is allowed can be held again", "insertions", insertions, "allowed", p.o.MaxStaleness)
		return
	}
	p.log.Warn("more insertions than can be polled within the staleness that is allowed", "insertions", insertions,
		"allowed", p.o.MaxStaleness, "reached", seconds(float64(insertions)/p.o.RequestsPerSecond),
		"requests_per_second", p.o.RequestsPerSecond, "needed", math.Ceil(needed*100)/100)
}

func seconds(s float64) time.Duration { return time.Duration(s) * time.Second }
