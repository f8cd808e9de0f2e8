package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/cmd/doorbell/standby"
	"doorbell/poller"
)

// RunCmd is `doorbell run`.
type RunCmd struct {
	Moved bool `help:"For one start only: DOORBELL_BASE_URL is the new address of the API that the store remembers."`
}

func (flags *RunCmd) Run(ctx context.Context, p *program) error {
	c, err := config.Read(p.environ, config.GroupPoll, config.GroupForward)
	if err != nil {
		return err
	}
	log := p.logger(c.Base)
	defer flushLog(log)
	for _, w := range c.Warnings {
		log.Warn(w)
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	o := DaemonOptions(c, log)
	o.AgencyName = c.Forward.AgencyNames.Revealed
	o.Moved = flags.Moved
	keys := newKeyReader(p.environ, c, hup, log)
	o.Notify, o.Keys = daemon.NewNotifier(lookup(p.environ)), keys.run
	set, err := receivers.Open(c, release)
	if err != nil {
		return err
	}
	if c.Base.Standby != "" {
		return runStandby(ctx, c, o, keys, set)
	}
	return runDaemon(ctx, c, o, set)
}

// runStandby waits until this one of a pair of doorbells may work, and runs a daemon in each of its
// turns.
func runStandby(ctx context.Context, c *config.Config, o daemon.Options, keys *keyReader,
	set *receivers.Set,
) error {
	b, log := c.Base, o.Log
	conn, err := daemon.Connect(options.NATS(c.NATS), log.With("part", "standby"))
	if err != nil {
		return exit.Config(fmt.Errorf("NATS: %w", err), "check the NATS_* settings")
	}
	defer daemon.HangUp(conn)
	host, _ := os.Hostname()
	return standby.Run(ctx, standby.Options{
		Conn: conn, Stream: b.Stream(), Keep: b.Retention, Name: b.Standby, Dir: b.DataDir, Log: log,
		Holder: standby.Holder{Name: cmp.Or(host, "another machine"), ID: rand.Text()},
		Work: func(ctx context.Context, t *standby.Turn) error {
			o := o
			o.Turn, o.Poller.Agencies = t, keys.begin() // they may have changed since the last turn
			if err := set.Reread(); err != nil {
				log.Error("the changed table of routes is refused; the previous one stays in force",
					"err", err)
			}
			return runDaemon(ctx, c, o, set)
		},
		Wait: func(ctx context.Context, working func() standby.Holder) error {
			return daemon.Wait(ctx, o, conn, b.Standby, working)
		},
	})
}

// runDaemon runs a daemon with these receivers until ctx ends.
func runDaemon(ctx context.Context, c *config.Config, o daemon.Options, set *receivers.Set) (err error) {
	log := o.Log
	if !set.IsEmpty() {
		o.Receivers, o.ForwarderNames = set, receivers.Kinds
	}
	if o.ReportTo, err = receivers.Reports(c); err != nil {
		return err
	}
	d, err := daemon.New(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // it was stopped while it started
	}
	if err != nil {
		return err
	}
	defer d.Close()
	n := d.Waiting()
	if n > 0 {
		log = log.With("waiting", n)
	}
	log.Info("watching", "agencies", len(o.Poller.Agencies)-n, "api", c.Poll.BaseURL,
		"data", c.Base.DataDir)
	return d.Run(ctx)
}

// DaemonOptions says in the daemon's words what is configured.
func DaemonOptions(c *config.Config, log *slog.Logger) daemon.Options {
	return daemon.Options{
		Base: c.Base, Version: release, Log: log, Poller: options.Poller(c, release),
		NATS: options.NATS(c.NATS), Zone: c.Poll.Zone(),
	}
}

// keyReader passes agencies and keys to the poller when a file has changed, and on SIGHUP. If the
// configuration is wrong, as while a file is being replaced, it logs that, and keeps the one
// before.
type keyReader struct {
	environ []string
	hup     <-chan os.Signal
	log     *slog.Logger

	acted keyReading // the last one that went to the poller, or to the log
	used  []poller.AgencyKeys
}

// keyReading is what the configuration said once.
type keyReading struct {
	agencies []poller.AgencyKeys
	problem  string // why it cannot be used
}

func newKeyReader(environ []string, c *config.Config, hup <-chan os.Signal, log *slog.Logger) *keyReader {
	used := options.Poller(c, release).Agencies
	return &keyReader{environ: environ, hup: hup, log: log, acted: keyReading{agencies: used}, used: used}
}

func (r *keyReader) read() keyReading {
	c, err := config.Read(r.environ, config.GroupPoll)
	if err != nil {
		return keyReading{problem: err.Error()}
	}
	return keyReading{agencies: options.Poller(c, release).Agencies}
}

// begin returns what a daemon starts with that takes its turn long after the configuration was
// read. run continues from there.
func (r *keyReader) begin() []poller.AgencyKeys {
	_ = r.act(r.read(), func([]poller.AgencyKeys) error { return nil })
	return r.used
}

// run reads until ctx ends. Only set can fail.
func (r *keyReader) run(ctx context.Context, set func([]poller.AgencyKeys) error) error {
	return config.Watch(ctx, r.hup, r.acted, r.read,
		func(now keyReading) error { return r.act(now, set) })
}

// act uses a reading if it can be used, and changes what is used.
func (r *keyReader) act(now keyReading, set func([]poller.AgencyKeys) error) error {
	r.acted = now
	switch {
	case now.problem != "":
		r.log.Error("the changed configuration is refused; agencies and keys stay as they were",
			"err", now.problem)
		return nil
	case slices.Equal(now.agencies, r.used):
		return nil
	}
	if err := set(now.agencies); err != nil {
		return err
	}
	r.used = now.agencies
	r.log.Info("agencies and keys were reloaded", "agencies", len(r.used))
	return nil
}
