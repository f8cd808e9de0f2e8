package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/store"
)

// AccountLimit bounds all streams of the embedded server together. The stream has its own bound,
// DOORBELL_STREAM_MAX; this one only must not be in its way when that is changed.
const AccountLimit = 1 << 40

// TryNATS says whether the address of an embedded server can be taken, and gives it back.
func TryNATS(address string) error {
	if address == "off" {
		return nil
	}
	return listenError(address, natsd.TryListen(address))
}

// listenError says what to do about an address that cannot be listened on; it is nil for any other
// error.
func listenError(address string, err error) error {
	switch {
	case errors.Is(err, natsd.ErrPortInUse):
		return exit.Config(fmt.Errorf("DOORBELL_NATS_LISTEN: %s is %w", address, errInUse),
			"set DOORBELL_NATS_LISTEN to a free address, or to off; if a NATS server is already running there, set NATS_URL to its address")
	case errors.Is(err, natsd.ErrAddress), errors.Is(err, natsd.ErrNeedsCredentials):
		return exit.Config(fmt.Errorf("DOORBELL_NATS_LISTEN: %w", err),
			"use 127.0.0.1:4222, or set NATS_USER and NATS_PASSWORD, or NATS_TOKEN")
	}
	return nil
}

// startServer starts the embedded server, unless an external one is configured.
func (a *Daemon) startServer(ctx context.Context) error {
	o := a.o
	if o.NATS.URL != "" {
		o.Log.Info("external NATS", "url", natsd.Redact(o.NATS.URL), "why", "a NATS URL is set")
		return nil
	}
	s, err := natsd.Start(ctx, natsd.Options{
		StoreDir: o.path(StreamFolder), Listen: o.NATSListen, MaxStore: AccountLimit,
		Protected: []string{events.StreamSubjects(o.SubjectPrefix), o.SubjectPrefix + ".heartbeat.>"},
		Stream:    o.Stream(),
		GuestUser: o.NATS.User, GuestPassword: o.NATS.Password, GuestToken: o.NATS.Token,
		Logger: o.Log.With("part", "nats-server"), CheckEvery: o.CheckEvery,
	})
	if refused := listenError(o.NATSListen, err); refused != nil {
		return refused
	}
	if err != nil {
		return exit.IO(fmt.Errorf("embedded NATS: %w", err),
			"check "+o.path(StreamFolder)+" and the free space on its disk")
	}
	a.server = s
	o.Log.Info("embedded NATS", "url", s.ClientURL(), "why", "no NATS URL is set")
	return nil
}

// openRelay makes the relay and its connection, which need not be established yet.
func (a *Daemon) openRelay(context.Context) (err error) {
	if a.conn, err = a.dial(); err != nil {
		return exit.Config(fmt.Errorf("NATS: %w", err),
			"check NATS_URL, NATS_CREDS, NATS_NKEY, NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CA, NATS_CERT and NATS_KEY")
	}
	o := a.o
	a.relay, err = relay.New(relay.Options{
		Log: a.store, Conn: a.conn, Prefix: o.SubjectPrefix, Stream: o.Stream(),
		MaxAge: o.Retention, MaxBytes: int64(o.StreamMax), Manage: o.ManagesStream(),
		Embedded: a.server != nil, StoreID: a.store.ID(), Logger: o.Log.With("part", "relay"),
		Restart: a.server.Restart, Redacted: a.redacted, SetBack: a.setBack,
		Pending: a.pendingErasures,
	})
	if err != nil {
		return exit.Config(err, "check DOORBELL_SUBJECT_PREFIX")
	}
	return nil
}

// redacted erases in the store whom the stream names as redacted, and the store has not erased: it
// was lost or set back.
func (a *Daemon) redacted(agency string, list []events.Event) error {
	requests := make([]store.Request, len(list))
	for n, e := range list {
		requests[n] = store.RequestOf(e)
	}
	if erased, err := a.store.HasErased(agency, requests); erased || err != nil {
		return err
	}
	return a.store.EraseSilently(agency, requests)
}

// setBack notes that the store was set back: the stream may hold contact requests of the agency
// that it does not know.
func (a *Daemon) setBack(agency string) error {
	return a.store.Update(func(tx *store.Tx) error {
		state, known := tx.Agency(agency)
		if !known || state.SetBack {
			return store.ErrUnchanged
		}
		state.SetBack = true
		return tx.PutAgency(agency, state)
	})
}

// dial makes a connection.
func (a *Daemon) dial() (stream.Conn, error) {
	if a.server != nil {
		conn, err := a.server.Connect("relay")
		return stream.Conn{Conn: conn}, err
	}
	return Connect(a.o.NATS, a.o.Log.With("part", "nats"))
}

// Connect is natsd.Connect with where JetStream is.
func Connect(d natsd.Dial, log *slog.Logger) (stream.Conn, error) {
	conn, err := natsd.Connect(d, log)
	return stream.Conn{Conn: conn, Domain: d.Domain, APIPrefix: d.APIPrefix}, err
}

// HangUp closes a connection. What it does not close in time ends with the process: a write to a
// server that does not read holds it up.
func HangUp(conn interface{ Close() }) {
	closed := make(chan struct{})
	go func() {
		conn.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
	}
}
