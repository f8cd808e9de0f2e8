package daemon

import (
	"cmp"
	"context"
	"fmt"

	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/people"
	"doorbell/events/relay"
	"doorbell/events/stream"
)

// places are where people's data is.
func (a *Daemon) places() *people.Places {
	return &people.Places{
		Store: a.store, Conn: a.conn, Prefix: a.o.SubjectPrefix, Stream: a.o.Stream(),
		Embedded: a.server != nil, Dir: a.o.DataDir, Version: a.o.Version,
	}
}

// eraseAgain takes people out of the log who were erased before, if the store is older than that.
// Nothing has read the log by then. What cannot be read or written is no reason not to start.
func (a *Daemon) eraseAgain() error {
	restored, err := a.places().EraseAgain()
	if failure := a.store.Failure(); failure != nil {
		return failure
	}
	if err != nil {
		a.o.Log.Error("data of erased people may be back: a receipt cannot be read or written",
			"err", err.Error(), "advice", "repair it, and start again")
	}
	if restored > 0 {
		a.o.Log.Warn("the store held data of erased people: it is erased again, as the receipts "+
			"in the data directory say", "count", restored)
	}
	a.erasing.Store(true)
	return nil
}

// pendingErasures is what the relay has to do before it publishes: to finish the erasures whose
// receipts say that they are not. It is nil if there is nothing.
func (a *Daemon) pendingErasures() func(ctx context.Context, progress func()) error {
	if !a.erasing.Load() {
		return nil
	}
	return func(ctx context.Context, progress func()) error {
		a.erasing.Store(false) // a receipt that is written from here on sets it again
		p := a.places()
		p.Progress = progress
		finished, err := p.FinishAll(ctx)
		for _, r := range finished {
			a.o.Log.Info("erasure finished", "receipt", r.ID)
		}
		if failure := a.store.Failure(); failure != nil {
			return fmt.Errorf("%w: %w", relay.ErrLog, failure)
		}
		if err != nil {
			a.erasing.Store(true)
			a.o.Log.Warn("an erasure is not finished; it is tried again, and nothing is published until it is", "err", err.Error())
			return fmt.Errorf("an erasure is not finished: %w", err)
		}
		return nil
	}
}

// forget erases contact requests of a person. Once begun it continues, even if the caller goes
// away.
func (a *Daemon) forget(ctx context.Context, q ops.ForgetRequest) (r people.Receipt, err error) {
	p := a.places()
	if err := cmp.Or(q.Check(), p.MayErase(ctx)); err != nil {
		return r, err
	}
	ctx = context.WithoutCancel(ctx)
	r, err = p.Begin(q.Wanted, q.Requests)
	if r.ID == "" {
		return r, err
	}
	a.o.Log.Info("erasure started", "receipt", r.ID, "count", len(r.Requests))
	a.erasing.Store(true)
	var why error
	if a.store.Failure() == nil {
		why = stream.Explain(a.conn, a.relay.Prepare(ctx))
	}
	if failure := a.store.Failure(); failure != nil { // which ends the process
		return r, failure
	}
	if r, err = people.ReadReceipt(p.Path(r)); err == nil && r.Finished.IsZero() && why != nil {
		r.Problem = why.Error()
	}
	return r, err
}
