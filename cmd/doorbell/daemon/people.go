package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/people"
	"doorbell/events/relay"
)

// erasing are the erasures of people's data that are not finished. The log is erased already; the
// relay does the rest before it publishes the next event, and tries again until it succeeds.
type erasing struct {
	mu   sync.Mutex
	left []people.Receipt
}

// places are where people's data is.
func (a *Daemon) places() *people.Places {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &people.Places{
		Store: a.store, Conn: a.conn, Prefix: a.o.SubjectPrefix, Stream: a.o.Stream, Embedded: a.server != nil, Dir: a.o.DataDir, Version: a.o.Version,
	}
}

// eraseAgain takes people out of the log who were erased before, if the store is older than that,
// and remembers what is not finished. Nothing has read the log by then. What cannot be read or
// written is no reason not to start.
func (a *Daemon) eraseAgain(context.Context) error {
	p := people.Places{Store: a.store, Dir: a.o.DataDir}
	left, restored, err := p.Overdue()
	if failure := a.store.Failure(); failure != nil {
		return failure
	}
	if err != nil {
		a.o.Log.Error("people who had been erased may be there again: a receipt cannot be read or written", "err", err.Error(), "advice", "mend it, and start again")
	}
	if restored > 0 {
		a.o.Log.Warn("the store held people who had been erased: they are erased again, as the receipts in the data directory say", "count", restored)
	}
	a.erasing.left = left
	return nil
}

// pendingErasures is what the relay has to do before it publishes; nil if there is nothing.
func (a *Daemon) pendingErasures() func(ctx context.Context, progress func()) error {
	if _, found := a.nextErasure(); !found {
		return nil
	}
	return func(ctx context.Context, progress func()) error {
		p := a.places()
		p.Progress = progress
		for {
			r, found := a.nextErasure()
			if !found {
				return nil
			}
			err := p.Finish(ctx, &r)
			a.noteErasure(r, err == nil)
			switch failure := a.store.Failure(); {
			case failure != nil:
				return fmt.Errorf("%w: %w", relay.ErrLog, failure)
			case err != nil:
				a.o.Log.Warn("an erasure is not finished; it is tried again, and nothing is published before", "receipt", r.ID, "err", err.Error())
				return fmt.Errorf("an erasure is not finished: %w", err)
			}
			a.o.Log.Info("an erasure is finished", "receipt", r.ID)
		}
	}
}

// nextErasure returns the first one that is not finished.
func (a *Daemon) nextErasure() (r people.Receipt, found bool) {
	a.erasing.mu.Lock()
	defer a.erasing.mu.Unlock()
	if len(a.erasing.left) == 0 {
		return r, false
	}
	return a.erasing.left[0], true
}

// noteErasure remembers what an attempt at the first one has done.
func (a *Daemon) noteErasure(r people.Receipt, finished bool) {
	a.erasing.mu.Lock()
	defer a.erasing.mu.Unlock()
	if a.erasing.left[0] = r; finished {
		a.erasing.left = a.erasing.left[1:]
	}
}

// find returns what this store and the streams hold of a person.
func (a *Daemon) find(ctx context.Context, w people.Wanted) (people.Found, error) {
	return a.places().Search(ctx, w)
}

func (a *Daemon) export(ctx context.Context, w people.Wanted) ([]people.Exported, error) {
	return a.places().Export(ctx, w)
}

// forget erases what is held of a person. Once begun it continues, even if the caller goes away.
func (a *Daemon) forget(ctx context.Context, q ops.ForgetRequest) (r people.Receipt, err error) {
	p := a.places()
	if err := p.MayErase(ctx); err != nil {
		return r, err
	}
	if err := q.Check(); err != nil {
		return r, err
	}
	found := people.Found{Requests: q.Requests, Events: q.Events}
	if len(q.Requests) == 0 {
		if found, err = a.find(ctx, q.Wanted); err != nil {
			return r, err
		}
	}
	if len(found.Requests) == 0 {
		return r, people.ErrNothing
	}
	ctx = context.WithoutCancel(ctx)
	r, err = p.Begin(ctx, q.Wanted, found, a.sentBy())
	if r.ID == "" {
		return r, err
	}
	a.o.Log.Info("an erasure begins", "receipt", r.ID, "count", len(r.Requests))
	a.erasing.mu.Lock()
	a.erasing.left = append(a.erasing.left, r)
	a.erasing.mu.Unlock()
	if failure := a.store.Failure(); failure != nil { // which ends the process
		return r, failure
	}
	err = a.explained(a.currentRelay().Prepare(ctx))
	if failure := a.store.Failure(); failure != nil {
		return r, failure
	}
	why := err
	if r, err = people.ReadReceipt(p.Path(r)); err == nil && r.Finished.IsZero() && why != nil {
		r.Problem = why.Error()
	}
	return r, err
}

// sentBy names the forwarders by which events went to where nothing can be erased.
func (a *Daemon) sentBy() (list []string) {
	a.forwarding.mu.Lock()
	defer a.forwarding.mu.Unlock()
	for _, r := range a.forwarding.routes {
		if one := "what forwarder " + r.Forwarder + " has sent"; !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
