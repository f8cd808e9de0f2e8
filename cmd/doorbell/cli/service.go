package cli

import (
	"context"
	"errors"
	"fmt"
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

// eventLog asks for the event log and the store: the daemon of the data directory or, where none
// runs, this process, which has then opened the store.
type eventLog struct {
	*ops.Client
	alone bool // no daemon is running, and none can start before the command ends
}

func (p *program) openLog(ctx context.Context, c *config.Config) (*eventLog, error) {
	client := options.Client(c.Base)
	if _, err := client.Status(ctx); !errors.Is(err, ops.ErrNoAnswer) {
		return &eventLog{client, false}, err
	}
	kept, err := readStopped(c.Base)
	if err != nil {
		return nil, err
	}
	p.opened = append(p.opened, func() { kept.Close() })
	log := ops.Log{Store: kept}
	verbs := ops.Verbs{Events: log.Events, CountEvents: log.CountEvents, Backup: kept.Backup}
	return &eventLog{ops.Local(verbs), true}, nil
}

// erased reports whether a person was erased from an event since it was read, which may be long ago
// where a receiver was away. An event that the log no longer has counts as erased too.
func (l *eventLog) erased(ctx context.Context, e events.Event) (bool, error) {
	if !e.HoldsPerson() {
		return false, nil
	}
	for _, err := range l.Events(ctx,
		ops.EventQuery{
			AgencyID: e.AgencyID, FromSequence: e.Sequence, ToSequence: e.Sequence,
			Unerased: true,
		}) {
		return false, err
	}
	return true, nil
}

// heldData asks for a person's data: the daemon, or this process over the opened store.
type heldData struct {
	*ops.Client
	alone bool // no daemon is running
}

// forget erases a person. The first signal does not interrupt an erasure of this process: it would
// end while the store is written, and could not say what is left. A daemon finishes its own later.
func (h *heldData) forget(ctx context.Context, q ops.ForgetRequest) (people.Receipt, error) {
	if h.alone {
		ctx = context.WithoutCancel(ctx)
	}
	return ops.Forget.Ask(ctx, h.Client, q)
}

func (p *program) openPeople(ctx context.Context, c *config.Config) (*heldData, error) {
	b, client := c.Base, options.Client(c.Base)
	if _, err := client.Status(ctx); !errors.Is(err, ops.ErrNoAnswer) {
		return &heldData{client, false}, err
	}
	kept, err := openStopped(b)
	if err != nil {
		return nil, err
	}
	places := &people.Places{
		Store: kept, Prefix: b.SubjectPrefix, Stream: b.Stream(), Embedded: c.NATS.URL == "",
		Dir: b.DataDir, Version: release,
	}
	p.opened = append(p.opened, func() { places.Store.Close() })
	if places.Conn, err = p.openNATS(ctx, c); err != nil {
		return nil, err
	}
	return &heldData{ops.Local(ops.Verbs{
		Find: places.Search, Export: places.Export,
		Forget: func(ctx context.Context, q ops.ForgetRequest) (people.Receipt, error) {
			return forgetStopped(ctx, places, q)
		},
	}), true}, nil
}

// forgetStopped erases without a daemon, first what a daemon or a command before had begun, and
// opens the store again, which compacts it, so that nothing is left in its free pages.
func forgetStopped(ctx context.Context, p *people.Places, q ops.ForgetRequest) (r people.Receipt, err error) {
	if owner, other := exit.Owner(p.Dir); other {
		return r, exit.Failed(
			fmt.Errorf("%s is owned by user %s, who could not open the files created here", p.Dir,
				owner), "run it as that user, or while the daemon runs")
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
	// a problem is in the receipt, unless it is the store's
	err = errors.Join(err, p.Finish(ctx, &r))
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
func (p *program) openNATS(ctx context.Context, c *config.Config) (conn stream.Conn, err error) {
	if c.NATS.URL != "" {
		return p.connectTo(ctx, options.NATS(c.NATS))
	}
	folder := filepath.Join(c.Base.DataDir, daemon.StreamFolder)
	server, err := natsd.Start(ctx, natsd.Options{
		StoreDir: folder, Listen: "off", MaxStore: daemon.AccountLimit, Logger: discardLog(),
	})
	if err == nil {
		p.opened = append(p.opened, server.Shutdown)
		conn.Conn, err = server.Connect("command")
	}
	if err != nil {
		return conn, exit.IO(fmt.Errorf("embedded NATS: %w", err), "check "+folder)
	}
	p.opened = append(p.opened, conn.Close)
	return conn, nil
}

// openStopped opens the store of a daemon that does not run. It never makes a new one.
func openStopped(b config.Base) (*store.Store, error) {
	if _, err := os.Stat(filepath.Join(b.DataDir, daemon.StoreFile)); errors.Is(err,
		fs.ErrNotExist) {
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
		return exit.Failed(fmt.Errorf("no daemon answers, and there is no store in %s", dir),
			"set DOORBELL_DATA_DIR to the data directory of the daemon")
	case errors.As(err, new(*store.LockedError)):
		return exit.Held(err)
	}
	return exit.Store(err, dir)
}

// connectStream connects to the NATS that holds the stream.
func (p *program) connectStream(ctx context.Context, c *config.Config) (nc stream.Conn, err error) {
	dial, err := streamServer(ctx, c)
	if err != nil {
		return nc, err
	}
	return p.connectTo(ctx, dial)
}

// connectTo connects to a server, which has to respond.
func (p *program) connectTo(ctx context.Context, dial natsd.Dial) (stream.Conn, error) {
	nc, err := daemon.Connect(dial, discardLog())
	if err != nil {
		return nc, exit.Config(err, "check the NATS_* settings")
	}
	p.opened = append(p.opened, nc.Close)
	if !options.Connected(ctx, nc.Conn) {
		return nc, exit.Failed(stream.Explain(nc, stream.ErrNotConnected),
			"start doorbell run, or check NATS_URL and the other NATS_* settings")
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
		return dial, exit.Failed(
			errors.New("the embedded NATS server has no port (DOORBELL_NATS_LISTEN is off)"),
			"give it one, or set NATS_URL")
	}
	dial.URL = "nats://" + c.Base.NATSListen
	if s, err := options.Client(c.Base).Status(ctx); err == nil && s.NATS.URL != "" {
		dial.URL = s.NATS.URL
	}
	return dial, nil
}
