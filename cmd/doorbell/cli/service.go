package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/people"
	"doorbell/events/natsd"
	"doorbell/events/stream"
	"doorbell/store"
)

// service does what needs both the store and NATS: the daemon, or this process where none runs.
type service struct {
	find   func(context.Context, people.Wanted) (people.Found, error)
	export func(context.Context, people.Wanted) ([]people.Exported, error)
	forget func(context.Context, people.Wanted, people.Found) (people.Receipt, error)
	close  func()
}

func openService(ctx context.Context, c *config.Config) (*service, error) {
	client, b := options.Client(c.Base), c.Base
	if _, err := client.Status(ctx); !errors.Is(err, ops.ErrNoAnswer) {
		return serviceOf(client), err
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
	return &service{
		find: p.Search, export: p.Export,
		forget: func(ctx context.Context, w people.Wanted, f people.Found) (people.Receipt, error) {
			r, err := forgetStopped(ctx, p, w, f)
			if err != nil {
				return r, err
			}
			return compacted(p, r)
		},
		close: func() {
			hangUp()
			p.Store.Close()
		},
	}, nil
}

// compacted opens the store again, which compacts it, so that nothing is left in its free pages.
func compacted(p *people.Places, r people.Receipt) (people.Receipt, error) {
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

// serviceOf is that of the daemon.
func serviceOf(client *ops.Client) *service {
	return &service{
		find: func(ctx context.Context, w people.Wanted) (people.Found, error) { return ops.Find.Ask(ctx, client, w) },
		export: func(ctx context.Context, w people.Wanted) ([]people.Exported, error) {
			return ops.Export.Ask(ctx, client, w)
		},
		forget: func(ctx context.Context, w people.Wanted, f people.Found) (people.Receipt, error) {
			return ops.Forget.Ask(ctx, client, ops.ForgetRequest{Wanted: w, Requests: f.Requests})
		},
		close: func() {},
	}
}

// openNATS reaches, for a command whose daemon does not run, the external NATS, or starts the
// embedded one without a port. The store's lock, which the caller holds, protects its folder.
func openNATS(ctx context.Context, c *config.Config) (conn stream.Conn, hangUp func(), err error) {
	dial, stop := func() (stream.Conn, error) { return daemon.Connect(options.NATS(c.NATS), discardLog()) }, func() {}
	if c.NATS.URL == "" {
		folder := filepath.Join(c.Base.DataDir, daemon.StreamFolder)
		server, err := natsd.Start(ctx, natsd.Options{
			StoreDir: folder, Listen: "off", MaxStore: daemon.AccountLimit, Logger: discardLog(),
		})
		if err != nil {
			return conn, nil, exit.IO(fmt.Errorf("embedded NATS: %w", err), "look at "+folder)
		}
		dial, stop = func() (stream.Conn, error) {
			own, err := server.Connect("command")
			return stream.Conn{Conn: own}, err
		}, server.Shutdown
	}
	if conn, err = dial(); err != nil {
		stop()
		return conn, nil, exit.Config(err, "check the NATS_* settings")
	}
	hangUp = func() {
		conn.Close()
		stop()
	}
	if !options.Connected(ctx, conn.Conn) {
		err := exit.Failed(stream.Explain(conn, stream.ErrNotConnected), "see `doorbell check` about NATS")
		hangUp()
		return conn, nil, err
	}
	return conn, hangUp, nil
}
