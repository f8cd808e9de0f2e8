package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/cmd/doorbell/standby"
)

// runStandby waits until this one of a pair of doorbells may work, and runs a daemon in each of its
// turns.
func runStandby(ctx context.Context, c *config.Config, o daemon.Options, keys *keyReader) error {
	b, log := c.Base, o.Log
	conn, err := daemon.Connect(options.NATS(c.NATS), log.With("part", "standby"))
	if err != nil {
		return exit.Config(fmt.Errorf("NATS: %w", err), "check the NATS_* settings")
	}
	defer daemon.HangUp(conn)
	set, err := receivers.Open(c, release)
	if err != nil {
		return err
	}
	defer set.Close()
	host, _ := os.Hostname()
	return standby.Run(ctx, standby.Options{
		Conn: conn, Stream: b.Stream(), Keep: b.Retention, Name: b.Standby, Dir: b.DataDir, Log: log,
		Holder: standby.Holder{Name: cmp.Or(host, "another machine"), ID: rand.Text()},
		Work: func(ctx context.Context, t *standby.Turn) error {
			o := o
			o.Turn, o.Poller.Agencies = t, keys.begin() // they may have changed since the last turn
			if err := set.Reread(); err != nil {
				log.Error("the changed table of routes is refused; the one before stays in force", "err", err)
			}
			return runDelivering(ctx, c, o, set)
		},
		Wait: func(ctx context.Context, working func() standby.Holder) error {
			return daemon.Wait(ctx, o, conn, b.Standby, working)
		},
	})
}
