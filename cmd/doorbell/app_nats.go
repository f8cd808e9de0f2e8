package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
	"doorbell/events/relay"
)

func (a *app) openNATS(ctx context.Context) error {
	if a.o.NATS.URL == "" {
		if err := a.startServer(ctx); err != nil {
			return err
		}
	} else {
		a.o.Log.Info("external NATS", "url", natsd.Redact(string(a.o.NATS.URL)), "why", "a NATS URL is set")
	}
	return a.connect()
}

func (a *app) startServer(ctx context.Context) error {
	b, n := a.o.Base, a.o.NATS
	s, err := natsd.Start(ctx, natsd.Options{
		StoreDir: filepath.Join(b.DataDir, streamFolder), Listen: b.NATSListen, MaxStore: accountLimit,
		ProtectedSubjects: streamSubjects(b), OwnSubjects: []string{b.SubjectPrefix + ".heartbeat.>"},
		ServiceSubjects: append(ops.DiscoverySubjects(), ops.AdminSubjects(b.SubjectPrefix)),
		GuestUser:       n.User, GuestPassword: n.Password.Reveal(), GuestToken: n.Token.Reveal(),
		Logger: a.o.Log.With("part", "nats-server"),
	})
	switch {
	case errors.Is(err, natsd.ErrPortInUse):
		return portInUse(b.NATSListen)
	case errors.Is(err, natsd.ErrAddress), errors.Is(err, natsd.ErrNeedsCredentials):
		return configError(fmt.Errorf("DOORBELL_NATS_LISTEN: %w", err), "use 127.0.0.1:4222, or set NATS_USER and NATS_PASSWORD, or NATS_TOKEN")
	case err != nil:
		return ioError(fmt.Errorf("embedded NATS: %w", err), "look at "+filepath.Join(b.DataDir, streamFolder)+" and at the space on its disk")
	}
	a.server = s
	a.onClose(s.Shutdown)
	a.o.Log.Info("embedded NATS", "url", s.ClientURL(), "why", "no NATS URL is set")
	return nil
}

// tend looks after the embedded server.
func (a *app) tend(ctx context.Context) error {
	if a.server == nil {
		<-ctx.Done()
		return nil
	}
	return a.server.Run(ctx)
}

// connect makes the relay's connection and the relay on it.
func (a *app) connect() error {
	conn, err := a.dial()
	if err != nil {
		return configError(fmt.Errorf("NATS: %w", err), "check NATS_URL, NATS_CREDS, NATS_NKEY, NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CA, NATS_CERT and NATS_KEY")
	}
	b := a.o.Base
	r, err := relay.New(relay.Options{
		Log: a.store, Conn: conn, Prefix: b.SubjectPrefix, Stream: b.Stream, MaxAge: b.Retention, MaxBytes: int64(b.StreamMax),
		Manage: b.StreamManage == "auto", Embedded: a.server != nil, StoreID: a.store.ID(), Logger: a.o.Log.With("part", "relay"),
	})
	if err != nil {
		conn.Close()
		return configError(err, "check DOORBELL_SUBJECT_PREFIX and DOORBELL_STREAM")
	}
	a.mu.Lock()
	a.conn, a.relay = conn, r
	a.mu.Unlock()
	return nil
}

// dial makes a connection; the options are for one to a server of ours.
func (a *app) dial(opts ...nats.Option) (*nats.Conn, error) {
	if a.server != nil {
		return a.server.Connect("relay", opts...)
	}
	return natsd.Connect(a.o.NATS.dial(), a.o.Log.With("part", "nats"))
}

// hangUp closes a connection. What it does not close in time ends with the process: a write to a server that does not read
// holds it up.
func hangUp(conn *nats.Conn) {
	closed := make(chan struct{})
	go func() {
		conn.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(letGo):
	}
}
