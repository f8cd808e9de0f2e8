package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/people"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/stream"
	"doorbell/store"
)

// opened is where a command does its work: the daemon of the data directory or, where none runs,
// this process over the store that it has opened. Both have the same verbs.
type opened struct {
	ops.Verbs
	alone bool // no daemon runs
	close func()
}

// open opens the event log and the store to read. Without a daemon no process can write to the
// store until it is closed.
func open(ctx context.Context, b config.Base) (*opened, error) {
	if o, err := ofDaemon(ctx, b); !errors.Is(err, ops.ErrNoAnswer) {
		return o, err
	}
	kept, err := readStopped(b)
	if err != nil {
		return nil, err
	}
	log := ops.Log{Store: kept}
	return &opened{
		Verbs: ops.Verbs{Events: log.Events, CountEvents: log.CountEvents, Backup: kept.Backup},
		alone: true, close: func() { kept.Close() },
	}, nil
}

// ofDaemon has the verbs of the daemon. The error is ops.ErrNoAnswer if none runs.
func ofDaemon(ctx context.Context, b config.Base) (*opened, error) {
	client := options.Client(b)
	_, err := client.Status(ctx)
	return &opened{Verbs: ops.Verbs{
		Events: client.Events, CountEvents: asked(client, ops.CountEvents),
		Find: asked(client, ops.Find), Export: asked(client, ops.Export), Forget: asked(client, ops.Forget),
		Backup: func(w io.Writer, sized func(int64)) error {
			return client.Backup(ctx, w, func(bytes int64) error {
				sized(bytes)
				return nil
			})
		},
	}, close: func() {}}, err
}

func asked[Q, A any](client *ops.Client, v ops.Verb[Q, A]) func(context.Context, Q) (A, error) {
	return func(ctx context.Context, q Q) (A, error) { return v.Ask(ctx, client, q) }
}

// erased reports whether a person was erased from an event since it was read, which may be long ago
// where a receiver was away. An event that the log no longer has counts as erased too.
func (o *opened) erased(ctx context.Context, e events.Event) (bool, error) {
	if !e.HoldsPerson() {
		return false, nil
	}
	for _, err := range o.Events(ctx, ops.EventQuery{AgencyID: e.AgencyID, FromSequence: e.Sequence, ToSequence: e.Sequence, Unerased: true}) {
		return false, err
	}
	return true, nil
}

// openPeople opens what finds, exports and erases a person, which needs NATS beside the store.
func openPeople(ctx context.Context, c *config.Config) (*opened, error) {
	b := c.Base
	if o, err := ofDaemon(ctx, b); !errors.Is(err, ops.ErrNoAnswer) {
		return o, err
	}
	kept, err := openStopped(b)
	if err != nil {
		return nil, err
	}
	conn, hangUp, err := openNATS(ctx, c)
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	p := &people.Places{
		Store: kept, Conn: conn, Prefix: b.SubjectPrefix, Stream: b.Stream(), Embedded: c.NATS.URL == "", Dir: b.DataDir, Version: release,
	}
	return &opened{
		Verbs: ops.Verbs{Find: p.Search, Export: p.Export, Forget: func(ctx context.Context, q ops.ForgetRequest) (people.Receipt, error) {
			return forgetStopped(ctx, p, q)
		}},
		alone: true,
		close: func() {
			hangUp()
			p.Store.Close()
		},
	}, nil
}

// forgetStopped erases without a daemon, first what a daemon or a command before had begun, and
// opens the store again, which compacts it, so that nothing is left in its free pages.
func forgetStopped(ctx context.Context, p *people.Places, q ops.ForgetRequest) (r people.Receipt, err error) {
	if owner, other := exit.Owner(p.Dir); other {
		return r, exit.Failed(fmt.Errorf("%s is owned by user %s, who could not open what is made here", p.Dir, owner), "run it as that user, or beside the daemon")
	}
	if err := p.MayErase(ctx); err != nil {
		return r, err
	}
	_, err = p.EraseAgain()
	if err == nil {
		_, err = p.FinishAll(ctx)
	}
	if err != nil {
		return r, err
	}
	if r, err = p.Begin(q.Wanted, q.Requests); r.ID == "" {
		return r, err
	}
	err = errors.Join(err, p.Finish(ctx, &r)) // a problem is in the receipt, unless it is the store's
	if errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrDamaged) {
		return r, err
	}
	if err := p.Store.Close(); err != nil {
		return r, exit.Store(err, p.Dir)
	}
	kept, err := store.Open(store.Options{Dir: p.Dir})
	if err != nil {
		return r, exit.Store(err, p.Dir)
	}
	p.Store = kept
	if _, err := p.EraseAgain(); err != nil { // notes the compaction
		return r, err
	}
	return people.ReadReceipt(p.Path(r))
}

// openNATS reaches, for a command whose daemon does not run, the external NATS, or starts the
// embedded one without a port. The store's lock, which the caller holds, protects its folder.
func openNATS(ctx context.Context, c *config.Config) (conn stream.Conn, hangUp func(), err error) {
	if c.NATS.URL != "" {
		conn, err = connectTo(ctx, options.NATS(c.NATS))
		return conn, conn.Close, err
	}
	folder := filepath.Join(c.Base.DataDir, daemon.StreamFolder)
	server, err := natsd.Start(ctx, natsd.Options{
		StoreDir: folder, Listen: "off", MaxStore: daemon.AccountLimit, Logger: discardLog(),
	})
	if err == nil {
		if conn.Conn, err = server.Connect("command"); err != nil {
			server.Shutdown()
		}
	}
	if err != nil {
		return conn, nil, exit.IO(fmt.Errorf("embedded NATS: %w", err), "look at "+folder)
	}
	return conn, func() {
		conn.Close()
		server.Shutdown()
	}, nil
}

// openStopped opens the store of a daemon that does not run. It never makes a new one.
func openStopped(b config.Base) (*store.Store, error) {
	if _, err := os.Stat(filepath.Join(b.DataDir, daemon.StoreFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, stoppedError(err, b.DataDir)
	}
	s, err := store.Open(store.Options{Dir: b.DataDir})
	return s, stoppedError(err, b.DataDir)
}

// readStopped opens it without touching it.
func readStopped(b config.Base) (*store.Store, error) {
	s, err := store.OpenReadOnly(store.Options{Dir: b.DataDir})
	return s, stoppedError(err, b.DataDir)
}

// stoppedError is exit.Store of a command that has found no daemon: one that holds the store hangs.
func stoppedError(err error, dir string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Failed(fmt.Errorf("no daemon answers, and there is no store in %s", dir), "set DOORBELL_DATA_DIR to the data directory of the daemon")
	case errors.As(err, new(*store.LockedError)):
		return exit.Unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), exit.AdviceOnHolder)
	}
	return exit.Store(err, dir)
}

// connectStream connects to the NATS that holds the stream.
func connectStream(ctx context.Context, c *config.Config) (nc stream.Conn, err error) {
	dial, err := streamServer(ctx, c)
	if err != nil {
		return nc, err
	}
	return connectTo(ctx, dial)
}

// connectTo connects to a server, which has to respond.
func connectTo(ctx context.Context, dial natsd.Dial) (stream.Conn, error) {
	nc, err := daemon.Connect(dial, discardLog())
	if err != nil {
		return nc, exit.Config(err, "check the NATS_* settings")
	}
	if !options.Connected(ctx, nc.Conn) {
		defer nc.Close()
		return nc, exit.Failed(stream.Explain(nc, stream.ErrNotConnected), "start doorbell run, or check NATS_URL and the other NATS_* settings")
	}
	return nc, nil
}

// streamServer is the configured server, or that of the daemon in the data directory.
func streamServer(ctx context.Context, c *config.Config) (natsd.Dial, error) {
	dial := options.NATS(c.NATS)
	if dial.URL != "" {
		return dial, nil
	}
	if c.Base.NATSListen == "off" {
		return dial, exit.Failed(errors.New("the embedded NATS server has no port (DOORBELL_NATS_LISTEN is off)"), "give it one, or set NATS_URL")
	}
	dial.URL = "nats://" + c.Base.NATSListen
	if s, err := options.Client(c.Base).Status(ctx); err == nil && s.NATS.URL != "" {
		dial.URL = s.NATS.URL
	}
	return dial, nil
}
