package poller

import (
	"context"
	"math"
	"sync"
	"time"
)

// crew is who polls. An insertion is taken from the schedule only when no other poll waits to be sent, because a turn that
// is taken early is a decision that is made early. So there are as many polls under way as the budget sends while one is
// answered, and one that is next; a slow API has many, a fast one two.
//
// Little's law bounds them: what the budget sends in the time that answers take, as observed, with room for jitter. An API
// that suddenly hangs is not given more and more to do before the first answers tell that it is slow. One that answers
// what was asked later hangs only where it was asked before: such polls take nobody's place.
type crew struct {
	mu       sync.Mutex
	underWay int
	asked    map[pollName]time.Time // by poll under way: when its request was sent; zero: it waits for no answer
	stuck    map[pollName]struct{}  // of those, where a later request was answered well
	next     map[pollName]struct{}  // polls that have their turn and have sent nothing yet
	heard    bool                   // an answer, or a failure
	mean     float64                // seconds that answers take, smoothed
	jitter   float64                // how far from that they are, smoothed
	moved    chan struct{}          // there may be room for another one
}

type pollName struct{ agency, reference string }

const (
	leastCrew  = 2
	mostCrew   = 64
	firstGuess = 2.0 // seconds that an answer is taken to take before there was one
)

func newCrew() *crew {
	return &crew{
		asked: map[pollName]time.Time{}, stuck: map[pollName]struct{}{}, next: map[pollName]struct{}{},
		moved: make(chan struct{}, 1),
	}
}

// room waits until another turn is worth taking.
func (c *crew) room(ctx context.Context, perSecond func(time.Time) float64) error {
	for !c.hasRoom(perSecond(time.Now())) {
		select {
		case <-c.moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

func (c *crew) hasRoom(perSecond float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.next) == 0 && c.underWay < mostCrew && c.underWay-len(c.stuck) < c.limit(perSecond)
}

// limit is how many may be under way. The caller holds c.mu.
func (c *crew) limit(perSecond float64) int {
	takes := firstGuess
	if c.heard {
		takes = c.mean + 4*c.jitter
	}
	return int(math.Ceil(min(max(perSecond*takes+leastCrew, leastCrew), mostCrew)))
}

// begin counts a poll that has its turn.
func (c *crew) begin(n pollName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay++
	c.asked[n] = time.Time{}
	c.next[n] = struct{}{}
}

// sent says that a request of a poll has been let go.
func (c *crew) sent(n pollName) {
	c.mu.Lock()
	delete(c.next, n)
	if _, is := c.asked[n]; is { // others than polls of the schedule ask too
		c.asked[n] = time.Now()
	}
	c.mu.Unlock()
	c.poke()
}

func (c *crew) end(n pollName) {
	c.mu.Lock()
	c.underWay--
	delete(c.next, n)
	delete(c.asked, n)
	delete(c.stuck, n)
	c.mu.Unlock()
	c.poke()
}

// took learns from how long an answer took, as the retransmission timer of TCP does, and from a good one who is stuck.
func (c *crew) took(n pollName, d time.Duration, good bool) {
	c.mu.Lock()
	delete(c.stuck, n)
	if _, is := c.asked[n]; is {
		c.asked[n] = time.Time{}
	}
	for other, at := range c.asked {
		if good && !at.IsZero() && at.Before(time.Now().Add(-d)) {
			c.stuck[other] = struct{}{}
		}
	}
	s := d.Seconds()
	if !c.heard {
		c.heard, c.mean, c.jitter = true, s, s/2
	}
	c.jitter += (math.Abs(s-c.mean) - c.jitter) / 4
	c.mean += (s - c.mean) / 8
	c.mu.Unlock()
	c.poke()
}

func (c *crew) poke() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}
