package poller

import (
	"context"
	"time"

	"doorbell/poller/listings"
)

// A walk begins when its interval is over, or at once where the list is in doubt. The schedule may wish for pages more often,
// because records betray contact requests or much appears. Its wishes let a walk go on before the polls that wait, or begin
// one, but they give way to everything that makes a walk wait.

func (p *Poller) wish(agencyID string) {
	if a := p.agency(agencyID); a != nil {
		a.wish()
	}
}

// wish lets the next page of the agency's list be asked before any poll, now if a walk is under way, else as soon as one
// may begin. Where walks wait after a failure, for a key or for the base URL, or the agency is halted, nothing happens.
func (a *agency) wish() {
	if a.walksWait() {
		return
	}
	a.p.turns.favor(a.id)
	a.mu.Lock()
	underWay := a.underWay
	a.mu.Unlock()
	if underWay {
		return
	}
	select {
	case a.wishes <- struct{}{}:
	default:
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

// wished is when a walk that is wished for may begin. No record is read again sooner than an insertion is polled again.
func (a *agency) wished() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.walkBegan.Add(min(a.p.o.PollInterval, a.p.o.WalkInterval))
}

// walkBegins notes the begin of a walk; what was wished for is on its way. The returned function notes its end.
func (a *agency) walkBegins(at time.Time) (ends func()) {
	select {
	case <-a.wishes:
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

// untilNextWalk waits, until somebody wants a walk now, or the schedule wishes for one and it may begin.
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
		case <-a.wishes:
			if at := a.wished(); at.Before(due) && !a.walksWait() {
				due = at
				t.Reset(time.Until(at))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
