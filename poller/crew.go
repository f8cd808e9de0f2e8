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
// that suddenly hangs is not given more and more to do before the first answers tell that it is slow.
type crew struct {
	mu       sync.Mutex
	underWay int
	next     map[pollName]struct{} // polls that have their turn and have sent nothing yet
	heard    bool                  // an answer, or a failure
	mean     float64               // seconds that answers take, smoothed
	jitter   float64               // how far from that they are, smoothed
	moved    chan struct{}         // there may be room for another one
}

type pollName struct{ agency, reference string }

const (
	leastCrew  = 2
	mostCrew   = 64
	firstGuess = 2.0 // seconds that an answer is taken to take before there was one
)

func newCrew() *crew { return &crew{next: map[pollName]struct{}{}, moved: make(chan struct{}, 1)} }

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
	return len(c.next) == 0 && c.underWay < c.limit(perSecond)
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
	c.next[n] = struct{}{}
}

// sent says that a poll has been let go, or that it is over.
func (c *crew) sent(n pollName) {
	c.mu.Lock()
	delete(c.next, n)
	c.mu.Unlock()
	c.poke()
}

func (c *crew) end(n pollName) {
	c.mu.Lock()
	c.underWay--
	c.mu.Unlock()
	c.sent(n)
}

// took learns from how long an answer took, as the retransmission timer of TCP does.
func (c *crew) took(d time.Duration) {
	c.mu.Lock()
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
