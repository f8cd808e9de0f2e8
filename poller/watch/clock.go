package watch

import (
	"time"

	"doorbell/poller/listings"
)

const (
	// agreeing is how many answers in a row must show the same time before the API's clock is believed.
	agreeing = 3
	// farBehind and farAhead bound what is believed of the API's clock. A clock ahead makes contact requests count as old,
	// so less of it is believed.
	FarBehind = -LateArrivals
	FarAhead  = time.Hour
)

// Clock learns how far the API's clock is from ours. A Date header shows it to the second, and one answer may come from a
// cache or from a machine with a wrong clock. Until several in a row agree, only what makes contact requests count as
// live is believed.
type Clock struct {
	Known       bool
	Skew        time.Duration // the API's clock minus ours
	least, most time.Duration // what the last agreeing answers leave open
	agreed      int
}

// Observe takes the Date of an answer, and says whether the clock is known by now and was not before.
func (c *Clock) Observe(e listings.Envelope) bool {
	if c.Known || e.Date.IsZero() {
		return false
	}
	least, most := e.Date.Sub(e.Received), e.Date.Add(time.Second).Sub(e.Sent)
	if c.agreed == 0 || least > c.most || most < c.least {
		c.least, c.most, c.agreed = least, most, 0
	}
	c.least, c.most = max(c.least, least), min(c.most, most)
	c.agreed++
	if c.agreed >= agreeing {
		c.Known, c.Skew = true, bounded(c.least, c.most, FarAhead)
		return true
	}
	c.Skew = min(c.Skew, bounded(least, most, 0))
	return false
}

// bounded is the difference to believe of what is left open: none if that is possible, else the least of it.
func bounded(least, most, ahead time.Duration) time.Duration {
	if least <= 0 && most >= 0 {
		return 0
	}
	return min(max(least, FarBehind), ahead)
}
