package poller

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// checkEvery is how often the staleness monitor checks.
const checkEvery = time.Minute

// monitorStaleness raises an alarm where an operation has no successful response for too long,
// until ctx is done.
func (p *Poller) monitorStaleness(ctx context.Context) error {
	for {
		p.heartbeats.staleness.beat()
		if err := sleep(ctx, checkEvery); err != nil {
			return err
		}
		for _, a := range p.agencies {
			for _, op := range operations {
				if err := a.checkStale(op, time.Now()); err != nil {
					return err
				}
			}
		}
		p.checkCap()
	}
}

// restoreHealth continues from the last successes that the store remembers.
func (a *agency) restoreHealth() {
	s := a.published()
	for _, op := range operations {
		good := s.state.Operation(string(op)).LastGood
		if good.IsZero() {
			good = cmp.Or(s.state.WatchStart, time.Now())
		}
		a.health[op].Succeed(good)
	}
	a.changeAllowed(func(x watch.Access) watch.Access {
		x.LastAnswer = s.state.Operation(string(listings.OperationContactRequests)).LastGood
		return x
	})
}

// raise turns an alarm on and commits the event that says so, unless it is on.
func (a *agency) raise(alarm store.Alarm, event events.Payload) error {
	if _, on := a.published().alarms[alarm.AlarmID]; on {
		return nil
	}
	return a.commitState(func(_ *store.Agency, e *watch.Effects) { e.Raise(a.published().alarms, alarm, event) })
}

// clear turns off those of some alarms that are on, and commits that.
func (a *agency) clear(at time.Time, list ...store.AlarmID) error {
	on := false
	for _, id := range list {
		_, is := a.published().alarms[id]
		on = on || is
	}
	if !on {
		return nil
	}
	return a.commitState(func(_ *store.Agency, e *watch.Effects) {
		for _, id := range list {
			e.Clear(a.published().alarms, id, a.id, at)
		}
	})
}

// checkStale raises the alarm that an operation is stale, which its next success clears. Where
// nothing is asked there is none.
func (a *agency) checkStale(op listings.Operation, now time.Time) error {
	stale := watch.AlarmOf(watch.Stale, op, "")
	if a.p.store.Full() || a.isHalted(op, "") {
		a.excuse(op, now)
		return nil
	}
	if op == listings.OperationContactRequests && !a.asksInsertions() {
		a.excuse(op, now)
		// no response is left that could
		return a.clear(now, stale, watch.AlarmOf(watch.Drifted, op, ""))
	}
	a.mu.Lock()
	h := a.health[op]
	interval := a.p.o.PollInterval
	if op == listings.OperationInsertions {
		interval = a.p.o.WalkInterval
	}
	failing, errs, good := h.Failing(interval, now), h.Errors,
		h.LastGood(a.published().state.WatchStart)
	a.mu.Unlock()
	if !failing {
		return nil
	}
	return a.raise(store.Alarm{AlarmID: stale, Since: now}, &events.WatchStale{
		Common:    events.Common{AgencyID: a.id, ObservedAt: now, ObservedAfter: good},
		Operation: string(op), LastSuccessAt: good, Errors: errs,
	})
}

// asksInsertions says whether there are insertions whose contact requests are asked for.
func (a *agency) asksInsertions() bool {
	halted := slices.DeleteFunc(a.access().List(), func(h store.Halt) bool { return h.Scope != events.ScopeInsertion })
	return a.p.schedule.Len(a.id) > len(halted)
}

// excuse notes that the failures of an operation so far mean nothing.
func (a *agency) excuse(op listings.Operation, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health[op].Excuse(now)
}

// noteSuccess notes a success, and clears the alarms that it ends: a complete walk; a good response
// of contact requests, as far as a drift at one insertion is concerned only its own.
func (a *agency) noteSuccess(op listings.Operation, reference string, at time.Time) error {
	a.mu.Lock()
	a.health[op].Succeed(at)
	a.mu.Unlock()
	over := []store.AlarmID{watch.AlarmOf(watch.Stale, op, "")}
	drifted := watch.AlarmOf(watch.Drifted, op, "")
	if other := a.published().alarms[drifted].Example; other == reference ||
		a.retries(other).state().Failures == 0 {
		over = append(over, drifted)
	}
	return a.clear(at, over...)
}

// silence is how long all responses of contact requests of an agency have said that there are none.
type silence struct {
	since time.Time // the first of them; zero: the last one showed some
	known bool      // also where some are known
	bare  bool      // also without so much as an empty list
}

// silentFor is how long "none" is believed everywhere.
const silentFor = time.Hour

var errOnlyNone = errors.New(
	"for an hour all responses have shown no contact requests, even where some are known")

// noteNone notes a response that there are no contact requests. It is a success, unless all of an
// hour are so: where some are known the operation fails then, because its endpoint may have moved;
// else an event says once that none was ever seen.
func (a *agency) noteNone(reference string, known, list bool) error {
	now, op := time.Now(), listings.OperationContactRequests
	a.mu.Lock()
	s := &a.silence
	if s.since.IsZero() {
		s.since = now
	}
	s.known, s.bare = s.known || known, s.bare || !list
	is := *s
	a.mu.Unlock()
	long := now.Sub(is.since) >= silentFor
	if long && is.known {
		return a.noteFailure(op, reference, watch.ClassAside, errOnlyNone)
	}
	if long && is.bare {
		alarm := store.Alarm{AlarmID: watch.AlarmOf(watch.OnlyNone, op, ""), Since: is.since}
		err := a.raise(alarm, &events.WatchGapDetected{
			Common: events.Common{AgencyID: a.id, ObservedAt: now}, Operation: string(op),
			Reason: watch.OnlyNone, From: is.since, To: now,
		})
		if err != nil {
			return err
		}
	}
	return a.noteSuccess(op, reference, now)
}

// noteRequests notes a response that shows contact requests.
func (a *agency) noteRequests(reference string) error {
	op := listings.OperationContactRequests
	a.mu.Lock()
	a.silence = silence{}
	a.mu.Unlock()
	if err := a.clear(time.Now(), watch.AlarmOf(watch.OnlyNone, op, "")); err != nil {
		return err
	}
	return a.noteSuccess(op, reference, time.Now())
}

// noteFailure notes a failure, and says it where a response was not what it should be. What was not
// asked has not failed.
func (a *agency) noteFailure(op listings.Operation, reference string, c watch.Class, err error) error {
	if c == watch.ClassHalted || c == watch.ClassWaiting {
		return nil
	}
	at := time.Now()
	a.mu.Lock()
	a.health[op].Fail(op, c, err, at)
	a.mu.Unlock()
	if c == watch.ClassBusy { // the wait of the key survives a restart
		return a.commitState(func(*store.Agency, *watch.Effects) {})
	}
	var drift *listings.DriftError
	if !errors.As(err, &drift) {
		return nil
	}
	alarm := store.Alarm{AlarmID: watch.AlarmOf(watch.Drifted, op, ""), Since: at, Example: reference}
	return a.raise(alarm, &events.WatchSchemaDrifted{
		Common: events.Common{AgencyID: a.id, ObservedAt: at}, Operation: string(op),
		PropertyReferenceID: reference, Change: "place", Expected: drift.Expected,
		Found: drift.Found,
	})
}

// raiseUnreadable says that the contact requests of an insertion cannot be read while those of
// others can.
func (a *agency) raiseUnreadable(reference string, now time.Time) error {
	failing, op := a.retries(reference).state(), listings.OperationContactRequests
	a.mu.Lock()
	others := a.health[op].Good.After(failing.Since)
	a.mu.Unlock()
	if !others || !failing.CannotRead(a.p.o.PollInterval, now) {
		return nil // where none can be read, that is another alarm
	}
	return a.raise(store.Alarm{
		AlarmID: watch.AlarmOf(watch.Unreadable, op, reference),
		Since:   failing.Since,
	}, &events.WatchGapDetected{
		Common: events.Common{AgencyID: a.id, ObservedAt: now}, Operation: string(op),
		PropertyReferenceID: reference, Reason: watch.Unreadable, From: failing.Since, To: now,
	})
}

// checkCap says in the log when the cap cannot be held for the insertions that are there. The
// schedule then does what is possible: all take turns.
func (p *Poller) checkCap() {
	if p.o.MaxStaleness == 0 {
		return
	}
	insertions := 0
	for _, a := range p.agencies {
		insertions += p.schedule.Len(a.id)
	}
	reached := time.Duration(float64(insertions) / p.o.RequestsPerSecond * float64(time.Second))
	over := reached > p.o.MaxStaleness
	if !p.overdue.Swap(over) && over {
		p.log.Warn("more insertions than can be polled within the allowed staleness",
			"insertions", insertions, "allowed", p.o.MaxStaleness, "reached",
			reached.Truncate(time.Second), "requests_per_second", p.o.RequestsPerSecond)
	}
}

// backoff is a watch.Backoff that all share whom it makes wait. A nil one has not failed.
type backoff struct {
	mu sync.Mutex
	is watch.Backoff
}

func newBackoff(first, longest time.Duration) *backoff {
	return &backoff{is: watch.NewBackoff(first, longest)}
}

func (b *backoff) state() watch.Backoff {
	return b.change(func(b watch.Backoff) watch.Backoff { return b })
}

func (b *backoff) change(to func(watch.Backoff) watch.Backoff) watch.Backoff {
	if b == nil {
		return watch.Backoff{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.is = to(b.is)
	return b.is
}

// failed counts a failure, and returns when to try again.
func (b *backoff) failed(what string, sent, now time.Time) time.Time {
	return b.change(func(b watch.Backoff) watch.Backoff { return b.Failed(what, sent, now) }).Until
}

// succeeded says whether a success has ended the back-off.
func (b *backoff) succeeded(sent time.Time) (ended bool) {
	b.change(func(b watch.Backoff) watch.Backoff {
		after := b.Succeeded(sent)
		ended = after.Failures < b.Failures
		return after
	})
	return ended
}

// jitter spreads an interval by a tenth, so that agencies do not march in step.
func jitter(d time.Duration) time.Duration {
	return d - d/20 + rand.N(d/10+1)
}

// operationLimit is how many different insertions must fail in a row before the whole operation
// backs off.
const operationLimit = 3

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error { return await(ctx, nil, d) }

// await waits for d, for a signal, or until ctx is done.
func await(ctx context.Context, signal <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-signal:
	case <-ctx.Done():
	}
	return ctx.Err()
}
