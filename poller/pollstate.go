package poller

import (
	"maps"
	"slices"
	"time"

	"doorbell/poller/watch"
)

// pollState is what the process remembers of the polls of one insertion.
type pollState struct {
	watch.Polls
	unreported map[string]time.Time // what the schedule does not know yet; see arrived
	retry      *backoff             // nil: it has not failed; made under agency.mu
}

// pollState returns the memory of an insertion's polls, making it.
func (a *agency) pollState(reference string) *pollState {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.pollStates[reference]
	if l == nil {
		l = &pollState{Polls: watch.NewPolls()}
		a.pollStates[reference] = l
	}
	return l
}

// retry returns the back-off of an insertion that has failed, making it. Most never do, and there are many.
func (a *agency) retry(reference string) *backoff {
	l := a.pollState(reference)
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.retry == nil {
		l.retry = newBackoff(a.p.o.PollInterval, a.p.o.RetryMax)
	}
	return l.retry
}

// retries returns the back-off of an insertion; nil if it has not failed.
func (a *agency) retries(reference string) *backoff {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.pollStates[reference]; l != nil {
		return l.retry
	}
	return nil
}

// arrived keeps the creation times, by id, of the contact requests that a catch-up has shown and that were not known before
// it began. What a poll that failed half-way has shown reaches the schedule with the next one.
func (l *pollState) arrived(since map[string]time.Time) {
	if len(since) == 0 {
		return
	}
	if l.unreported == nil {
		l.unreported = map[string]time.Time{}
	}
	maps.Copy(l.unreported, since)
}

// takeArrived takes out what arrived, in our clock and oldest first: zero where the time is not known, and never later than
// the answer that showed it.
func (l *pollState) takeArrived(skew time.Duration, received time.Time) []time.Time {
	if len(l.unreported) == 0 {
		return nil
	}
	created := make([]time.Time, 0, len(l.unreported))
	for _, t := range l.unreported {
		if !t.IsZero() {
			t = t.Add(-skew)
		}
		if t.After(received) {
			t = received
		}
		created = append(created, t)
	}
	l.unreported = nil
	slices.SortFunc(created, time.Time.Compare)
	return created
}
