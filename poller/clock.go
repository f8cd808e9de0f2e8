package poller

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// learnClock hears an answer, and remembers what it taught.
func (a *agency) learnClock(e listings.Envelope) error {
	a.mu.Lock()
	learned := a.clock.Hear(e)
	skew := a.clock.Skew
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
	return a.clock.Skew
}
