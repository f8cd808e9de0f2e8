package poller

import (
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// pollState is what the process remembers of the polls of one insertion; a restart forgets it at no harm. There is one for every
// insertion: what most have no need of stands elsewhere.
type pollState struct {
	body, records listings.Sum // of the last answer that was committed with its window closed
	rules         string       // under which it was
	at            time.Time
	wide          int64 // when the widest window is due, in nanoseconds since 1970; 0: not known yet
	total         int32 // as last told, -1 unknown
	first         int32 // how many to ask for at first, where a smaller window tells nothing; 0: as few as usual
	hidden        int32 // how many of those remembered it did not show, -1 unknown
	whole         bool  // that answer showed all there is

	slow       *slow                // nil: no larger number has failed
	growth     *growth              // nil: the total never grew by more than was found
	unreported map[string]time.Time // what the schedule does not know yet; see arrived
	retry      *backoff             // nil: it has not failed; made under agency.mu
}

// growth is what was learned of a total that grew by more than was found.
type growth struct {
	explained int       // the largest total for which the widest window was read
	vain      int       // how often a total was the reason and nothing was found
	until     time.Time // until when a total is no reason
}

// pollState returns the memory of an insertion's polls, making it.
func (a *agency) pollState(reference string) *pollState {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.pollStates[reference]
	if l == nil {
		l = &pollState{total: -1, hidden: -1}
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
// it began. What a poll that failed half-way has shown is told to the schedule by the next one.
func (l *pollState) arrived(since map[string]time.Time) {
	if len(since) == 0 {
		return
	}
	if l.unreported == nil {
		l.unreported = map[string]time.Time{}
	}
	maps.Copy(l.unreported, since)
}

// tellable takes out what arrived, in our clock and oldest first: zero where the time is not known, and never later than
// the answer that showed it.
func (l *pollState) tellable(skew time.Duration, received time.Time) []time.Time {
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

// small is a count as it is remembered, once for each insertion.
func small(n int) int32 { return int32(min(n, math.MaxInt32)) }

// slow is a larger number that fails again and again where a smaller one is answered: after some tries it is left alone
// for an hour, because what cannot be seen must be told.
type slow struct {
	size, failures int
	since          time.Time
}

const (
	slowLimit = 3
	slowAgain = time.Hour
)

func (s *slow) given(size int, now time.Time) bool {
	return s != nil && s.failures >= slowLimit && size >= s.size && now.Sub(s.since) < slowAgain
}

// isSlow says whether an error may be that of a number that is too large.
func isSlow(err error) bool {
	switch watch.Classify(err) {
	case watch.ClassTransient, watch.ClassAside, watch.ClassDrift:
		return true
	}
	return false
}

// failed returns what is known after one more failure.
func (s *slow) failed(err error, size int, now time.Time) *slow {
	if !isSlow(err) {
		return s
	}
	if s == nil || s.size != size || now.Sub(s.since) >= slowAgain {
		s = &slow{size: size, since: now}
	}
	s.failures++
	return s
}

// widestEvery is how often the widest window is read where a smaller one looked closed, beside whenever a total grew by
// more than was found: late arrivals sort lower.
const widestEvery = 24 * time.Hour

// wideSlot is when the widest window of an insertion is read next after t: once a day, each insertion at its own time of
// the day, so that they do not come all at once.
func wideSlot(agency, reference string, t time.Time) time.Time {
	h := fnv.New64a()
	h.Write([]byte(agency + "\x00" + reference))
	slot := t.Truncate(widestEvery).Add(time.Duration(h.Sum64() % uint64(widestEvery)))
	if !slot.After(t) {
		slot = slot.Add(widestEvery)
	}
	return slot
}

// learnGrowth keeps a total that counts something else from being a reason at every poll.
func (l *pollState) learnGrowth(total, found int, now time.Time) {
	if l.growth == nil {
		l.growth = new(growth)
	}
	g := l.growth
	g.explained = total
	if found > 0 {
		g.vain = 0
		return
	}
	g.vain++
	g.until = now.Add(min(time.Minute<<min(g.vain, 12), widestEvery))
}
