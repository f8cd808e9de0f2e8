package poller

import (
	"context"
	"errors"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// spaceEvery is how often it is tried whether a full disk has space again.
const spaceEvery = 5 * time.Second

// owedHalt is a halt that is in force and could not be written: nothing is asked for its scope, though the disk is full.
type owedHalt struct {
	halt  store.Halt
	event *events.AccessHalted // nil: it waits for its reason
	keys  watch.Keys
}

// waitForSpace asks nothing while nothing could be remembered. A walk waits here; a poll goes back into the schedule.
func (a *agency) waitForSpace(ctx context.Context, r listings.Request) error {
	for a.p.full.Load() {
		if r.Operation != listings.OperationInsertions {
			return &watch.WaitError{Until: time.Now().Add(spaceEvery)}
		}
		if err := sleep(ctx, spaceEvery); err != nil {
			return err
		}
		if err := a.mayAsk(r); err != nil {
			return err
		}
	}
	return nil
}

// outOfSpace stops the asking. What was to be written may be larger than what is tried, so each time is longer.
func (p *Poller) outOfSpace(err error) {
	if p.full.Swap(true) {
		return
	}
	now := time.Now()
	p.space.failed("", now, now)
	select {
	case p.filled <- struct{}{}:
	default:
	}
	if !p.waiting.Swap(true) {
		p.log.Error("polling waits for space", "err", err)
	}
}

// watchSpace writes what is owed as soon as there is space again, and lets the asking go on, until ctx is done. It says so only
// when the space has lasted as long as the waiting, or RetryMax: a little of it comes and goes.
func (p *Poller) watchSpace(ctx context.Context) error {
	var since time.Time // when there was space again
	lasts := time.NewTimer(0)
	defer lasts.Stop()
	for {
		select {
		case <-p.filled:
		case <-lasts.C:
			if !p.full.Load() && p.waiting.Swap(false) {
				p.log.Info("there is space again: polling goes on")
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		began := time.Now()
		if began.Sub(since) > p.o.RetryMax {
			p.space.succeeded(time.Now())
		}
		if err := p.untilWritten(ctx); err != nil {
			return err
		}
		since = time.Now()
		p.full.Store(false)
		lasts.Reset(min(since.Sub(began), p.o.RetryMax))
		p.pauseAll()
	}
}

// untilWritten tries to write until it works.
func (p *Poller) untilWritten(ctx context.Context) error {
	_, _, until := p.space.state()
	if err := sleep(ctx, time.Until(until)); err != nil {
		return err
	}
	for {
		if err := p.tryToWrite(); !errors.Is(err, store.ErrNoSpace) {
			return err
		}
		if err := sleep(ctx, spaceEvery); err != nil {
			return err
		}
	}
}

// tryToWrite writes what is owed, and something of every agency in any case.
func (p *Poller) tryToWrite() error {
	for _, a := range p.watched() {
		a.deciding.Lock()
		err := a.pay()
		a.deciding.Unlock()
		if err != nil {
			return err
		}
	}
	return p.store.Update(func(tx *store.Tx) error {
		for _, a := range p.watched() {
			state, known, err := tx.Agency(a.id)
			if err == nil && known {
				err = tx.PutAgency(a.id, state)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// pay writes the halts that are owed. The caller holds deciding.
func (a *agency) pay() error {
	for len(a.owed) > 0 {
		o := a.owed[0]
		if err := a.writeHalt(o); err != nil {
			return err
		}
		a.owed = a.owed[1:]
	}
	return nil
}

// writeHalt makes a halt, its event and what is known of the keys one transaction.
func (a *agency) writeHalt(o owedHalt) error {
	err := a.p.store.Update(func(tx *store.Tx) error {
		if err := tx.PutHalt(a.id, o.halt); err != nil {
			return err
		}
		if err := putKeys(tx, a.id, o.keys.Stored()); err != nil || o.event == nil {
			return err
		}
		return appendEvent(tx, o.event)
	})
	if err == nil && o.event != nil {
		a.p.log.Error("access halted", "agency", a.id, "scope", string(o.halt.Scope), "since", o.halt.Since, "status", o.halt.Status,
			"reason", o.halt.ProbableReason, "advice", o.halt.Advice)
	}
	return err
}
