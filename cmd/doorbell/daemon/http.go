package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/feed"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/ops/metrics"
	"doorbell/cmd/doorbell/ops/page"
	"doorbell/events/stream"
)

// Verbs are what can be asked of this daemon, at the socket and over HTTP.
func (a *Daemon) Verbs() ops.Verbs {
	log, people := ops.Log{Store: a.store}, a.places()
	return ops.Verbs{
		Status: a.status, Resume: a.resume, Approve: a.approve, Poll: a.pollNow,
		Backup: a.store.Backup, Events: log.Events, CountEvents: log.CountEvents, Replay: a.replay,
		DropLetter: a.dropLetter, Find: people.Search, Export: people.Export, Forget: a.forget,
		Report: a.report,
	}
}

// openSocket takes the socket. It is served by run.
func (a *Daemon) openSocket(context.Context) (err error) {
	if a.socket = a.o.Socket; a.socket != nil {
		return nil
	}
	a.socket, err = ops.Listen(a.o.path(SocketFile))
	return err
}

// serveSocket answers the commands on this machine.
func (a *Daemon) serveSocket(ctx context.Context) error {
	return ops.ServeSocket(ctx, a.socket, a.Verbs())
}

// openHTTP takes the address. It is served by run.
func (a *Daemon) openHTTP(context.Context) error {
	if !a.o.HasHTTP() {
		return nil
	}
	l, err := listenHTTP(a.o.HTTPListen)
	if err != nil {
		return err
	}
	a.web = l
	a.o.Log.Info("status page", "url", a.httpURL())
	return nil
}

// TryHTTP reports whether an address can be taken, and gives it back.
func TryHTTP(address string) error {
	l, err := listenHTTP(address)
	if err != nil {
		return err
	}
	return l.Close()
}

func listenHTTP(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, exit.Config(fmt.Errorf("DOORBELL_HTTP_LISTEN: %s is %w", address, errInUse),
			"set DOORBELL_HTTP_LISTEN to a free address, like 127.0.0.1:0 for any, "+
				"or to off to run without status page, health and metrics")
	}
	if err != nil {
		return nil, exit.Config(fmt.Errorf("DOORBELL_HTTP_LISTEN: %s: %w", address, err),
			"use 127.0.0.1:3667, or another address of this machine")
	}
	return l, nil
}

// httpURL is the address of the page on this machine; empty without HTTP.
func (a *Daemon) httpURL() string {
	if a.web == nil {
		return ""
	}
	at := a.web.Addr().String()
	if host, port, err := net.SplitHostPort(at); err == nil && net.ParseIP(host).IsUnspecified() {
		at = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + at + "/"
}

// serveHTTP answers at DOORBELL_HTTP_LISTEN.
func (a *Daemon) serveHTTP(ctx context.Context) error {
	return a.answerHTTP(ctx, page.Options{
		Status: a.status, Store: a.store, ShowPeople: a.o.ShowPeople, AgencyName: a.o.AgencyName,
	}, a.Health, a.Verbs())
}

// answerHTTP is serveHTTP also of a doorbell that waits for its turn.
func (a *Daemon) answerHTTP(ctx context.Context, shown page.Options, health func() ops.Health,
	verbs ops.Verbs,
) error {
	return ops.ServeHTTP(ctx, a.web, ops.HTTPOptions{
		Page:    page.Handler(shown),
		Feed:    feed.Handler(feed.Options{Client: a.events, Prefix: a.o.SubjectPrefix}),
		Metrics: metrics.Handler(ops.Shared(shown.Status)), Schemas: ops.Schemas(), Health: health,
		Verbs: verbs, Token: a.o.HTTPToken.Reveal(), FeedToken: a.o.FeedToken.Reveal(),
		Log: a.o.Log.With("part", "http"),
	})
}

// events is a client of the stream of events, over the connection as it is now.
func (a *Daemon) events() stream.Client {
	return stream.Client{Conn: a.conn, Stream: a.o.Stream(), Wait: 5 * time.Second}
}

// tryAddresses keeps a start that cannot listen from making a data directory. Where there is a
// store, the lock on it comes first: a doorbell that holds it has the addresses, too.
func (a *Daemon) tryAddresses(context.Context) error {
	if err := ops.CheckPath(a.o.path(SocketFile)); err != nil && a.o.Socket == nil {
		return exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "")
	}
	if _, err := os.Stat(a.o.path(StoreFile)); err == nil {
		return nil
	}
	if a.o.NATS.URL == "" {
		if err := TryNATS(a.o.NATSListen); err != nil {
			return err
		}
	}
	if !a.o.HasHTTP() {
		return nil
	}
	return TryHTTP(a.o.HTTPListen)
}

var errInUse = errors.New("in use by another program")
