package poller

import (
	"context"
	"time"

	"doorbell/poller/listings"
)

// A walk begins when its interval is over, or at once where the list is in doubt. The schedule may give pages priority, because
// records betray contact requests or much appears: a walk goes on before the polls that wait, or begins sooner. That gives way
// to everything that makes a walk wait.

func (p *Poller) prioritizeWalk(agencyID string) {
	if a := p.agency(agencyID); a != nil {
		a.prioritizeWalk()
	}
}

// prioritizeWalk lets the next page of the agency's list be asked before any poll, now if a walk is under way, else as soon as
// one may begin. Where walks wait after a failure, for a key or for the base URL, or the agency is halted, nothing happens.
func (a *agency) prioritizeWalk() {
	if a.walksWait() {
		return
	}
	a.p.scheduler.prioritize(a.id)
	a.mu.Lock()
	underWay := a.underWay
	a.mu.Unlock()
	if !underWay {
		wake(a.walkSoon)
	}
}

func (a *agency) walksWait() bool {
	if a.isHalted(listings.Request{Operation: listings.OperationInsertions, AgencyID: a.id}) {
		return true
	}
	key := a.keyFor(listings.OperationInsertions).Fingerprint()
	for _, reason := range []*backoff{a.walking, a.p.base, a.p.keyBackoff(key)} {
		if reason.state().Failures > 0 {
			return true
		}
	}
	return false
}

// soonest is when a walk that has priority may begin. No record is read again sooner than an insertion is polled again.
func (a *agency) soonest() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.walkBegan.Add(min(a.p.o.PollInterval, a.p.o.WalkInterval))
}

// walkBegins notes the begin of a walk; what had priority is on its way. The returned function notes its end.
func (a *agency) walkBegins(at time.Time) (ends func()) {
	select {
	case <-a.walkSoon:
	default:
	}
	set := func(underWay bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.walkBegan, a.underWay = at, underWay
	}
	set(true)
	return func() { set(false) }
}

// untilNextWalk waits, until somebody wants a walk now, or the schedule gives one priority and it may begin.
func (a *agency) untilNextWalk(ctx context.Context, wait time.Duration) error {
	due := time.Now().Add(wait)
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return nil
		case <-a.walkNow:
			return nil
		case <-a.walkSoon:
			if at := a.soonest(); at.Before(due) && !a.walksWait() {
				due = at
				t.Reset(time.Until(at))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
