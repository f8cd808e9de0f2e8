package poller

import (
	"context"
	"errors"
	"net/http"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// admission is the gate of a client of the API: it decides before every request, and notes how that ended.
type admission struct{ p *Poller }

// Wait lets a request go when its turn has come: nothing is sent to halted scopes, nor while a key or the base URL backs
// off; the dispatcher decides last. A walk, which has a goroutine of
// its own, waits where it has to; a poll goes back into the schedule.
func (g admission) Wait(ctx context.Context, r listings.Request) error {
	for {
		err := g.p.dispatcher.wait(ctx, r, func(now time.Time) error { return g.p.admit(r, now) })
		var early *unready
		if !errors.As(err, &early) {
			return err
		}
		if r.Operation != listings.OperationInsertions {
			return &watch.WaitError{Until: early.until}
		}
		if err := sleep(ctx, min(time.Until(early.until), noticeWithin)); err != nil {
			return err
		}
	}
}

// noticeWithin is how soon a walk that waits notices a halt or another key.
const noticeWithin = 5 * time.Second

// unready says that a key or the base URL is to be waited for.
type unready struct{ until time.Time }

func (*unready) Error() string { return "it is too early to ask" }

// admit decides whether a request is sent now. After a failure of its key or the base URL it is the one that may try.
func (p *Poller) admit(r listings.Request, now time.Time) error {
	if _, err := p.byID[r.AgencyID].access().Allow(r, now); err != nil {
		return err
	}
	key := p.keyBackoff(r.Key)
	if wait := max(key.state().Wait(now), p.base.state().Wait(now)); wait > 0 {
		return &unready{now.Add(wait)}
	}
	if err := p.mayAsk(r); err != nil { // a try of a halt is spent on what is sent
		return err
	}
	key.try(now)
	p.base.try(now)
	return nil
}

// mayAsk says whether a request may be made at all: its scope is not halted.
func (p *Poller) mayAsk(r listings.Request) error {
	return p.byID[r.AgencyID].changeAllowed(func(x watch.Access) (watch.Access, error) { return x.Allow(r, time.Now()) })
}

// Done notes the end of every request that was admitted: the back-off of its key and the base URL follows it.
func (g admission) Done(r listings.Request, o listings.Outcome) {
	g.p.count(r.Operation, o)
	g.p.done(r, o)
}

// count counts a request that has ended.
func (p *Poller) count(op listings.Operation, o listings.Outcome) {
	p.metrics.Requests.WithLabelValues(string(op), outcome(o)).Inc()
	p.metrics.Durations.WithLabelValues(string(op)).Observe(o.Duration.Seconds())
}

func (p *Poller) done(r listings.Request, o listings.Outcome) {
	key := p.keyBackoff(r.Key)
	now := time.Now()
	sent := now.Add(-o.Duration)
	class := watch.Classify(o.Err)
	if o.Status != 0 {
		p.budget.answered(class == watch.ClassBusy)
	}
	if a := p.byID[r.AgencyID]; class == watch.ClassNone || class == watch.ClassRefused {
		var refused *listings.StatusError // of a good answer nil
		errors.As(o.Err, &refused)
		_ = a.changeAllowed(func(x watch.Access) (watch.Access, error) { return x.Observed(r, refused, sent, now), nil })
	}
	changed := false
	switch class {
	case watch.ClassNone, watch.ClassRefused, watch.ClassAside, watch.ClassDrift:
		changed = p.answers(sent)
		if key.succeeded(sent) {
			p.log.Info("the API serves the key again", "key", r.Key)
			changed = true
		}
	case watch.ClassBusy:
		p.answers(sent)
		p.budget.slow(sent, now)
		p.throttle(key, r, sent, now, watch.RetryAfter(o.Err))
		changed = true
	case watch.ClassDown:
		p.baseDown(sent, now, o.Err)
		key.dismissed(sent)
		changed = true
	default:
		var status *listings.StatusError
		if class == watch.ClassTransient && errors.As(o.Err, &status) {
			changed = p.answers(sent) // an error status is an answer
			if status.Status == http.StatusServiceUnavailable {
				p.budget.slow(sent, now) // it may be too much for it, though it does not say so
			}
		}
		key.dismissed(sent)
		p.base.dismissed(sent)
	}
	if changed {
		p.pauseAll()
	}
}

func (p *Poller) baseDown(sent, now time.Time, err error) {
	before := p.base.state().Failures
	p.base.failed(p.o.API.BaseURL, sent, now)
	if first := !p.down.Swap(true); first || before == 0 { // also where the process before has found it down
		p.log.Warn("the API does not answer; is the base URL right, and the network?", "err", err)
	}
}

// answers notes that the base URL answers, and says whether that ended a back-off.
func (p *Poller) answers(sent time.Time) bool {
	ended := p.base.succeeded(sent)
	if ended {
		p.log.Info("the API answers again")
	}
	return ended
}

// throttle lets a key back off because the API asked for it, and logs when that begins.
func (p *Poller) throttle(key *backoff, r listings.Request, sent, now time.Time, wait time.Duration) {
	before := key.state().Failures
	after := key.change(func(b watch.Backoff) watch.Backoff { return b.Throttled(sent, now, wait) })
	if before == 0 {
		p.log.Warn("the API throttles a key: its requests wait", "key", r.Key, "wait", after.Until.Sub(now).Round(time.Second))
	}
}

// pauseAll looks anew at what keeps the polls of each agency.
func (p *Poller) pauseAll() {
	for _, a := range p.agencies {
		a.pause()
	}
}
