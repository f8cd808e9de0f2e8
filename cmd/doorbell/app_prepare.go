package main

import (
	"context"
	"time"
)

const (
	// prepareLimit is how long the start waits for the stream, which may hold what a restored or a new store does not.
	prepareLimit = 10 * time.Second
	// connectLimit is how long it waits for a NATS that does not answer.
	connectLimit = 3 * time.Second
)

// compare lets the event log take over what only the stream holds, before the poller begins its watch: so sequences continue,
// and a watch whose store was lost goes on where the stream heard of it last. Polling never waits for long: what is not done
// by then is done beside it, and is no error.
func (a *app) compare(ctx context.Context) error {
	began := time.Now()
	if err := a.prepare(ctx); err != nil && ctx.Err() == nil {
		a.o.Log.Warn("polling begins before the stream was compared with the event log; that follows when NATS is there",
			"waited", time.Since(began).Round(time.Millisecond).String(), "err", err)
	}
	return nil
}

func (a *app) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	impatient := time.AfterFunc(connectLimit, func() {
		if !a.conn.IsConnected() {
			cancel()
		}
	})
	defer impatient.Stop()
	ids := make([]string, len(a.o.Poller.Agencies))
	for i, k := range a.o.Poller.Agencies {
		ids[i] = k.ID
	}
	return a.relay.Prepare(ctx, ids)
}
