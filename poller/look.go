package poller

import (
	"time"

	"doorbell/poller/listings"
)

// look is what the process remembers of the polls of one insertion; a restart forgets it at no harm. There is one for every
// insertion: what most have no need of stands elsewhere.
type look struct {
	body, records listings.Sum // of the last answer that was committed with its window closed
	rules         string       // under which it was
	at            time.Time
	wide          int64 // when the widest window is due, in nanoseconds since 1970; 0: not known yet
	total         int32 // as last told, -1 unknown
	first         int32 // how many to ask for at first, where a smaller window tells nothing; 0: as few as usual
	hidden        int32 // how many of those remembered it did not show, -1 unknown
	whole         bool  // that answer showed all there is

	slow       *slow   // nil: no larger number has failed
	growth     *growth // nil: the total never grew by more than was found
	validators asked
	untold     map[string]time.Time // what the schedule does not know yet; see arrived
	retry      *patience            // nil: it has not failed; made under agency.mu
	refusal    *refusal             // nil: there is none that waits for what the next complete walk says
}

// refusal is a 403 at one insertion.
type refusal struct {
	answer *listings.StatusError
	at     time.Time
}

// growth is what was learned of a total that grew by more than was found.
type growth struct {
	explained int       // the largest total for which the widest window was read
	vain      int       // how often a total was the reason and nothing was found
	patient   time.Time // until when a total is no reason
}

// look returns the memory of an insertion's polls, making it.
func (a *agency) look(reference string) *look {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.looks[reference]
	if l == nil {
		l = &look{total: -1, hidden: -1}
		a.looks[reference] = l
	}
	return l
}

// retry returns the back-off of an insertion that has failed, making it. Most never do, and there are many.
func (a *agency) retry(reference string) *patience {
	l := a.look(reference)
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.retry == nil {
		l.retry = newPatience(a.p.o.PollInterval, a.p.o.RetryMax)
	}
	return l.retry
}

// retries returns the back-off of an insertion; nil if it has not failed.
func (a *agency) retries(reference string) *patience {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.looks[reference]; l != nil {
		return l.retry
	}
	return nil
}
