package poller

import (
	"math"
	"slices"
	"sync"
	"time"

	"doorbell/poller/schedule"
)

// crew is who polls. An insertion is taken from the schedule only when no other poll waits to be sent, because a turn that
// is taken early is a decision that is made early. So there are as many polls under way as the budget sends while one is
// answered, and one that is next; a slow API has many, a fast one two.
//
// Little's law bounds them: what the budget sends in the time that answers take, as observed, with room for jitter. An API
// that suddenly hangs is not given more and more to do before the first answers tell that it is slow. One that answers
// what was asked later hangs only where it was asked before: such polls take nobody's place.
type crew struct {
	perSecond func(time.Time) float64 // what the budget sends
	most      int                     // polls under way, whatever the budget sends

	mu      sync.Mutex
	hands   map[pollName]*hand // polls under way
	waiting []*hand            // of those that wait for an answer, in the order in which they asked
	stuck   int                // of those that wait for one, where a later request was answered well
	next    *hand              // has its turn and has sent nothing yet; nil: nobody
	heard   bool               // an answer, or a failure
	mean    float64            // seconds that answers take, smoothed
	jitter  float64            // how far from that they are, smoothed
	moved   chan struct{}      // there may be room for another one
}

type pollName struct{ agency, reference string }

// hand is a poll under way.
type hand struct{ stuck bool }

const (
	leastCrew  = 2
	mostCrew   = 64
	firstGuess = 2.0 // seconds that an answer is taken to take before there was one
)

func newCrew(perSecond func(time.Time) float64) *crew {
	return &crew{perSecond: perSecond, most: mostCrew, hands: map[pollName]*hand{}, moved: make(chan struct{}, 1)}
}

// begin takes the next turn if it is worth taking. room says whether it was; without a turn there is none to take, for so
// long, zero if nobody knows.
func (c *crew) begin(now time.Time, next func(time.Time) (turn, time.Duration)) (t turn, wait time.Duration, room bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasRoom(now) {
		return t, 0, false
	}
	if t, wait = next(now); t.why != schedule.None {
		c.drop(t.name()) // out of the schedule and in again, while it is polled
		c.next = &hand{}
		c.hands[t.name()] = c.next
	}
	return t, wait, true
}

// hasRoom says whether another turn is worth taking. The caller holds c.mu.
func (c *crew) hasRoom(now time.Time) bool {
	return c.next == nil && len(c.hands) < c.most && len(c.hands)-c.stuck < c.limit(c.perSecond(now))
}

// limit is how many may be under way. The caller holds c.mu.
func (c *crew) limit(perSecond float64) int {
	takes := firstGuess
	if c.heard {
		takes = c.mean + 4*c.jitter
	}
	return int(math.Ceil(min(max(perSecond*takes+leastCrew, leastCrew), mostCrew)))
}

// sent says that a request of a poll has been let go.
func (c *crew) sent(n pollName, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hands[n]
	if h == nil {
		return // others than polls of the schedule ask too
	}
	c.waiting = append(c.waiting, h)
	if c.next == h {
		c.next = nil
	}
	c.tell(now)
}

// takes is how long answers take; zero before there was one.
func (c *crew) takes() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.heard {
		return 0
	}
	return time.Duration(c.mean * float64(time.Second))
}

// end says that a poll is over. Who ends it looks for another one.
func (c *crew) end(n pollName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(n)
}

// drop forgets a poll. The caller holds c.mu.
func (c *crew) drop(n pollName) {
	h := c.hands[n]
	delete(c.hands, n)
	c.hear(h, false)
	if c.next == h {
		c.next = nil
	}
}

// took learns from how long an answer took, as the retransmission timer of TCP does, and from a good one who is stuck.
func (c *crew) took(n pollName, d time.Duration, good bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear(c.hands[n], good)
	s := d.Seconds()
	if !c.heard {
		c.heard, c.mean, c.jitter = true, s, s/2
	}
	c.jitter += (math.Abs(s-c.mean) - c.jitter) / 4
	c.mean += (s - c.mean) / 8
	c.tell(now)
}

// hear notes that a poll waits for no answer any more. Where it was a good one, all that have asked before are stuck. The
// caller holds c.mu.
func (c *crew) hear(h *hand, good bool) {
	if h != nil && h.stuck {
		h.stuck = false
		c.stuck--
	}
	n := slices.Index(c.waiting, h)
	if n < 0 {
		return
	}
	if !good {
		c.waiting = slices.Delete(c.waiting, n, n+1)
		return
	}
	for _, earlier := range c.waiting[:n] {
		earlier.stuck = true
	}
	c.stuck += n
	c.waiting = slices.Delete(c.waiting, 0, n+1)
}

// tell wakes who waits for room if there is some. The caller holds c.mu.
func (c *crew) tell(now time.Time) {
	if c.hasRoom(now) {
		c.poke()
	}
}

func (c *crew) poke() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}
