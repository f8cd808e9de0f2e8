package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/ops/page"
	"doorbell/cmd/doorbell/standby"
	"doorbell/events/stream"
)

// Wait is what a doorbell does while another one of its pair works: it serves health, page and
// status, which name the holder of the lease, and the feed, which needs no store. It refuses
// everything else. It returns nil when ctx ends, and has given back socket and address then.
func Wait(ctx context.Context, o Options, conn stream.Conn, pair string,
	working func() standby.Holder,
) error {
	w := &waiting{Daemon: &Daemon{o: o, started: time.Now(), conn: conn}, pair: pair, working: working}
	for _, open := range []func(context.Context) error{w.checkDirectory, w.openSocket, w.openHTTP} {
		if err := open(ctx); err != nil {
			w.release()
			return err
		}
	}
	defer w.release()
	w.notify("READY=1")
	var parts errgroup.Group
	parts.Go(func() error { return ops.ServeSocket(ctx, w.socket, w.verbs()) })
	parts.Go(func() error {
		o.Notify.run(ctx, func() { w.notify("WATCHDOG=1") })
		return nil
	})
	if w.web != nil {
		parts.Go(func() error { return w.answerHTTP(ctx, page.Options{Status: w.status}, w.health, w.verbs()) })
	}
	return parts.Wait()
}

// waiting is a Daemon of which only socket, HTTP and NATS are open. The connection is not its own.
type waiting struct {
	*Daemon
	pair    string
	working func() standby.Holder
}

// checkDirectory refuses a data directory that another doorbell uses, whose socket this one would
// take away.
func (w *waiting) checkDirectory(ctx context.Context) error {
	if err := os.MkdirAll(w.o.DataDir, 0o700); err != nil {
		return exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "")
	}
	if _, err := ops.NewClient(w.o.path(SocketFile)).Status(ctx); !errors.Is(err, ops.ErrNoAnswer) {
		return exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: another doorbell uses %s", w.o.DataDir),
			"give each doorbell of a pair a data directory of its own")
	}
	return nil
}

func (w *waiting) status() (ops.Status, error) {
	h := w.working()
	s := ops.Status{
		Version: w.o.Version, Instance: w.o.Instance, Started: w.started.UTC(),
		DataDir: w.o.DataDir, Page: w.httpURL(),
		Standby: &ops.StandbyStatus{Pair: w.pair, Holder: h.Name, Since: h.Since},
		NATS:    ops.NATSStatus{URL: w.natsURL(), Stream: w.o.Stream()},
	}
	s.Watch.At = time.Now().UTC()
	return s, nil
}

func (w *waiting) verbs() ops.Verbs {
	return ops.Verbs{Status: w.status, Refuse: func() error {
		if h := w.working(); h.Name != "" {
			return fmt.Errorf("%w: the active doorbell of %s is %s; run the command there",
				ops.ErrWaiting, w.pair, h.Name)
		}
		return fmt.Errorf("%w, and it is not known yet which doorbell of %s is active",
			ops.ErrWaiting, w.pair)
	}}
}

// health is good: a process that waits does all that it has to do.
func (w *waiting) health() ops.Health {
	text := "waiting for " + cmp.Or(w.working().Name, "another doorbell") + " to stop"
	return ops.NewHealth(ops.Check{Name: "standby", OK: true, Live: true, Text: text})
}
