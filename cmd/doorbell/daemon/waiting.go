package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/feed"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/ops/metrics"
	"doorbell/cmd/doorbell/ops/page"
	"doorbell/cmd/doorbell/standby"
	"doorbell/events/stream"
)

// Wait is what a doorbell does while another one of its pair works: it serves health, page and
// status, which name the holder of the lease, and the feed, which needs no store. It refuses
// everything else. It returns nil when ctx ends, and has given back socket and address then.
func Wait(ctx context.Context, o Options, conn stream.Conn, pair string, working func() standby.Holder) error {
	w := &waiting{o: o, conn: conn, pair: pair, working: working, started: time.Now().UTC()}
	socket, err := w.listen(ctx)
	if err != nil {
		return err
	}
	defer socket.Close()
	a := &Daemon{o: o}
	if err := a.openHTTP(ctx); err != nil {
		return err
	}
	if w.web = a.web; w.web != nil {
		w.page = a.httpURL()
	}
	if err := o.Notify.ready(); err != nil {
		a.notNotified(err)
	}
	var parts errgroup.Group
	parts.Go(func() error { return serve(ctx, socket, ops.Handler(w.verbs())) })
	parts.Go(func() error { return o.Notify.run(ctx, func() bool { return true }, a.notNotified) })
	if w.web != nil {
		parts.Go(func() error { return w.serveHTTP(ctx) })
	}
	return parts.Wait()
}

type waiting struct {
	o       Options
	conn    stream.Conn // is not the daemon's
	pair    string
	working func() standby.Holder
	started time.Time
	web     net.Listener
	page    string // its address
}

// listen opens the socket. It refuses a data directory that another doorbell uses, whose socket it
// would take away.
func (w *waiting) listen(ctx context.Context) (net.Listener, error) {
	path := filepath.Join(w.o.DataDir, SocketFile)
	if err := ops.CheckPath(path); err != nil {
		return nil, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "")
	}
	if err := os.MkdirAll(w.o.DataDir, 0o700); err != nil {
		return nil, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "")
	}
	if _, err := ops.NewClient(path).Status(ctx); !errors.Is(err, ops.ErrNoAnswer) {
		return nil, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: another doorbell uses %s", w.o.DataDir),
			"give each doorbell of a pair a data directory of its own")
	}
	l, err := ops.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("socket of the commands: %w", err)
	}
	return l, nil
}

func (w *waiting) status() (ops.Status, error) {
	h := w.working()
	s := ops.Status{
		Version: w.o.Version, Instance: w.o.Instance, Started: w.started, DataDir: w.o.DataDir, Page: w.page,
		Standby: &ops.StandbyStatus{Pair: w.pair, Holder: h.Name, Since: h.Since},
		NATS:    ops.NATSStatus{URL: (&Daemon{o: w.o}).natsURL(), Stream: w.o.Stream},
	}
	s.Watch.At = time.Now().UTC()
	return s, nil
}

func (w *waiting) verbs() ops.Verbs {
	return ops.Verbs{Status: w.status, Refuse: func() error {
		if h := w.working(); h.Name != "" {
			return fmt.Errorf("%w: %s works for %s; run the command there", ops.ErrWaiting, h.Name, w.pair)
		}
		return fmt.Errorf("%w, and which doorbell of %s works is not known yet", ops.ErrWaiting, w.pair)
	}}
}

// health is good: a process that waits does all that it has to do.
func (w *waiting) health() ops.Health {
	h := w.working()
	return ops.NewHealth(ops.Check{Name: "standby", OK: true, Live: true, Text: "waiting for the turn of " + h.Name + " to end"})
}

func (w *waiting) serveHTTP(ctx context.Context) error {
	events := func() stream.Client { return stream.Client{Conn: w.conn, Stream: w.o.Stream, Wait: 5 * time.Second} }
	return ops.ServeHTTP(ctx, w.web, ops.HTTPOptions{
		Page: page.Handler(page.Options{Status: w.status}), Feed: feed.Handler(feed.Options{Client: events, Prefix: w.o.SubjectPrefix}), Metrics: metrics.Handler(ops.Shared(w.status)), Schemas: ops.Schemas(),
		Health: w.health, Verbs: w.verbs(), Token: w.o.HTTPToken, FeedToken: w.o.FeedToken, Log: w.o.Log.With("part", "http"),
	})
}

// serve answers at the socket until ctx ends.
func serve(ctx context.Context, socket net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { s.Close() })
	defer stopped()
	if err := s.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
