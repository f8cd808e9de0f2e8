package poller

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

const (
	// agreeing is how many answers in a row must tell the same time before the API's clock is believed.
	agreeing = 3
	// farBehind and farAhead bound what is believed of the API's clock. A clock ahead makes contact requests count as old,
	// so less of it is believed.
	farBehind = -lateArrivals
	farAhead  = time.Hour
)

// clock learns how far the API's clock is from ours. A Date header tells it to the second, and one answer may come from a
// cache or from a machine with a wrong clock. Until several in a row agree, only what makes contact requests count as
// news is believed.
type clock struct {
	known       bool
	skew        time.Duration // the API's clock minus ours
	least, most time.Duration // what the last agreeing answers leave open
	agreed      int
}

// hear takes the Date of an answer, and says whether the clock is known by now and was not before.
func (c *clock) hear(e listings.Envelope) bool {
	if c.known || e.Date.IsZero() {
		return false
	}
	least, most := e.Date.Sub(e.Received), e.Date.Add(time.Second).Sub(e.Sent)
	if c.agreed == 0 || least > c.most || most < c.least {
		c.least, c.most, c.agreed = least, most, 0
	}
	c.least, c.most = max(c.least, least), min(c.most, most)
	c.agreed++
	if c.agreed >= agreeing {
		c.known, c.skew = true, bounded(c.least, c.most, farAhead)
		return true
	}
	c.skew = min(c.skew, bounded(least, most, 0))
	return false
}

// bounded is the difference to believe of what is left open: none if that is possible, else the least of it.
func bounded(least, most, ahead time.Duration) time.Duration {
	if least <= 0 && most >= 0 {
		return 0
	}
	return min(max(least, farBehind), ahead)
}

// learnClock hears an answer, and remembers what it taught.
func (a *agency) learnClock(e listings.Envelope) error {
	a.mu.Lock()
	learned := a.clock.hear(e)
	skew := a.clock.skew
	a.mu.Unlock()
	if !learned {
		return nil
	}
	return a.p.store.Update(func(tx *store.Tx) error {
		state, _, err := tx.Agency(a.id)
		if err != nil {
			return err
		}
		state.ClockSkew, state.SkewKnown = skew, true
		return tx.PutAgency(a.id, state)
	})
}

func (a *agency) skew() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.clock.skew
}
