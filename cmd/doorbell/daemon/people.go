package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/people"
	"doorbell/events"
)

// erasing are the erasures of people's data that are under way.
type erasing struct {
	mu   sync.Mutex       // one at a time
	left []people.Receipt // that could not be finished
}

// places are where people's data stand.
func (a *Daemon) places() *people.Places {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &people.Places{
		Store: a.store, Conn: a.conn, Prefix: a.o.SubjectPrefix, Stream: a.o.Stream, Embedded: a.server != nil, Dir: a.o.DataDir,
		Version: a.o.Version, EraseLive: a.eraseLive,
	}
}

// eraseLive lets the relay do what it publishes.
func (a *Daemon) eraseLive(ctx context.Context, agency string, wanted func(events.Event) bool) (int, error) {
	n, err := a.currentRelay().Erase(ctx, agency, wanted)
	return n, a.explained(err)
}

// eraseAgain takes those out of the log who were erased before, if the store is from before that, and remembers what was not finished.
// Nobody has read the log by then. What it cannot read or write is no reason to watch nobody.
func (a *Daemon) eraseAgain(context.Context) error {
	p := people.Places{Store: a.store, Dir: a.o.DataDir}
	err := p.NoteCompaction()
	left, restored, failed := p.Overdue()
	err = errors.Join(err, failed)
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

// finishErasures tries again what could not be finished, or was cut short by the end of a process.
func (a *Daemon) finishErasures(ctx context.Context) error {
	every(ctx, time.Minute, func() {
		a.erasing.mu.Lock()
		left := a.erasing.left
		a.erasing.left = nil
		a.erasing.mu.Unlock()
		for _, r := range left {
			a.finish(ctx, &r)
		}
	})
	return nil
}

// finish does an erasure, or notes that it is to be tried again.
func (a *Daemon) finish(ctx context.Context, r *people.Receipt) {
	a.erasing.mu.Lock()
	defer a.erasing.mu.Unlock()
	log := a.o.Log.With("receipt", r.ID)
	err := a.places().Finish(ctx, r)
	switch {
	case a.store.Failure() != nil: // which ends the process
	case err != nil:
		a.erasing.left = append(a.erasing.left, *r)
		log.Warn("an erasure is not finished; it is tried again", "err", err.Error())
	default:
		log.Info("an erasure is finished")
	}
}

// find is what this store and the streams hold of a person.
func (a *Daemon) find(ctx context.Context, w people.Wanted) (people.Found, error) {
	return a.places().Search(ctx, w)
}

func (a *Daemon) export(ctx context.Context, w people.Wanted) ([]people.Exported, error) {
	return a.places().Export(ctx, w)
}

// forget erases what is held of a person. Once it has begun it goes on, also when nobody waits for it any more.
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
	if r, err = p.Begin(ctx, q.Wanted, found, a.sentBy()); err != nil {
		return r, err
	}
	a.o.Log.Info("an erasure begins", "receipt", r.ID, "count", len(r.Requests))
	a.finish(context.WithoutCancel(ctx), &r)
	return r, nil
}

// sentBy names the forwarders by which events went to where nothing can be erased.
func (a *Daemon) sentBy() (list []string) {
	for _, f := range a.forwarders {
		list = append(list, "what forwarder "+f.Name+" has sent")
	}
	return list
}
