package poller

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// pollState is what this process remembers of the polls of one insertion. A restart may forget it.
type pollState struct {
	at      time.Time // of the last good response
	refused bool      // the last response was 404 or 410
	// how many contact requests there were when a poll last saw them all; 0: none did
	proved   int
	unproved int      // catch-ups in a row that a contradiction left open
	counted  bool     // the schedule knows the contact requests that were known before
	retry    *backoff // nil: it has not failed; made under agency.mu
	settled  settled
}

// settled is a response that changed nothing and would change nothing again, so that reading it
// again is wasted work.
type settled struct {
	body       listings.Sum // zero: no response
	version    uint64       // of the insertion in the store
	totals     bool         // shown.totals at that time
	none, list bool         // it had no contact requests; it had a list
}

// isSettled reports whether a response with a sum is the remembered one and would change nothing
// now either, because nothing has changed that [watch.Judge] depends on.
func (p *poll) isSettled(sum listings.Sum) bool {
	s := p.state.settled
	return s.body == sum && sum != listings.Sum{} &&
		s.version == p.a.p.store.Version(p.a.id, p.reference) &&
		s.totals == p.a.shownSoFar().totals &&
		!watch.Unsettled(p.a.published().state) && !time.Now().Round(0).Before(p.state.at.Round(0))
}

// pollState returns the state of an insertion's polls, creating it if there is none.
func (a *agency) pollState(reference string) *pollState {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.pollStates[reference]
	if l == nil {
		l = &pollState{}
		a.pollStates[reference] = l
	}
	return l
}

// retry returns the back-off of an insertion that has failed. It is created at the first failure,
// because there are many insertions and most never fail.
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

// shown is what the responses of contact requests of an agency have shown of the service, as far as
// this process knows.
type shown struct {
	longest int  // the maximum number of contact requests in one response
	totals  bool // a total was once larger than the number of contact requests beside it
	size    int  // the largest page size that is not refused; 0: every explicit size is

	newest time.Time // the newest creation time of a window in order
}

// learnShown records what a response shows, and its total.
func (a *agency) learnShown(count, total int, newest time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.windows
	s.longest, s.totals = max(s.longest, count), s.totals || total > count && count > 0
	if newest.After(s.newest) {
		s.newest = newest
	}
}

func (a *agency) shownSoFar() shown {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.windows
}

// sizes returns the page sizes to try, each after the one before was refused; 0 leaves the size to
// the API.
func (a *agency) sizes(largest int) (list []int) {
	largest = min(largest, a.shownSoFar().size)
	for _, size := range []int{watch.WidestSize, 500, 200, watch.FirstSize, 50, 20, 0} {
		if size <= largest {
			list = append(list, size)
		}
	}
	return list
}

// sizeRefused records that every size above an accepted one is refused.
func (a *agency) sizeRefused(accepted int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.windows.size = accepted
}
