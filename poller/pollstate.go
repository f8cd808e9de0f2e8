package poller

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// pollState is what the process remembers of the polls of one insertion; a restart forgets it at no
// harm.
type pollState struct {
	at      time.Time // of the last good response
	refused bool      // it was answered 404 or 410 last
	proved  int       // how many were all there is when that was last seen from both ends; 0: it was not
	counted bool      // the schedule knows what was known before
	retry   *backoff  // nil: it has not failed; made under agency.mu
	settled settled
}

// settled is a response that changed nothing, and changes nothing when it comes again: to read it, and what is
// remembered, would be without result.
type settled struct {
	body, content listings.Sum // as it came, and as it was read; zero: of none
	version       uint64       // of what is remembered of the insertion
	totals        bool         // counts were believed
	none, list    bool         // it showed no contact requests; it held a list
}

// isSettled reports whether the response that is remembered would change nothing now, either: nothing has
// changed to which [watch.Judge] listens.
func (p *poll) isSettled(now time.Time) bool {
	s := p.state.settled
	return s.content != listings.Sum{} &&
		s.version == p.a.p.store.Version(p.a.id, p.reference) && s.totals == p.a.shownSoFar().totals &&
		!watch.Unsettled(p.a.published().state) && !now.Round(0).Before(p.state.at.Round(0))
}

// saysTheSame reports whether a response says what the last one said that is settled.
func (p *poll) saysTheSame(page *listings.ContactRequestsPage, q watch.Question) bool {
	s := p.state.settled
	return s.body == page.Sum && s.body != listings.Sum{} || s.content == response(page, q).Sum(p.a.p.rules)
}

// pollState returns the memory of an insertion's polls, making it.
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

// retry returns the back-off of an insertion that has failed, making it. Most never do, and there
// are many.
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
	longest int       // the most contact requests at once
	newest  time.Time // the newest creation time of a window in order
	totals  bool      // a total has counted more than stood beside it
	size    int       // the largest number that is not refused; 0: only none at all
	until   time.Time // when a larger one is asked for again; zero: none was refused
}

// learnShown notes what a response shows, and what it counts.
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

// sizeAgain is how often a size that was refused is asked for again.
const sizeAgain = 24 * time.Hour

// sizes are the numbers of contact requests to ask for, one after the other where they are refused;
// 0 leaves it to the API.
func (a *agency) sizes(largest int, now time.Time) (list []int) {
	s := a.shownSoFar()
	for _, size := range []int{watch.WidestSize, 500, 200, watch.FirstSize, 50, 20, 0} {
		if size <= largest && (size <= s.size || !now.Before(s.until)) {
			list = append(list, size)
		}
	}
	return list
}

// sizeRefused learns that every number above one that was answered is refused.
func (a *agency) sizeRefused(answered int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.windows.size, a.windows.until = answered, now.Add(sizeAgain)
}
