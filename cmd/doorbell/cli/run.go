package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/receivers"
)

// RunCmd is `doorbell run`.
type RunCmd struct {
	Moved bool `help:"For one start: DOORBELL_BASE_URL is the new address of the API that the store remembers."`
}

func (RunCmd) Help() string {
	return "Needs DOORBELL_BASE_URL, and agencies with keys.\n\nExample:\n  export DOORBELL_BASE_URL=https://api.example.com\n" +
		"  export DOORBELL_API_KEYS_FILE=/etc/doorbell/api_keys\n  doorbell run"
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
	if c.Base.Standby != "" {
		return runStandby(ctx, c, o, keys)
	}
	return runDaemon(ctx, c, o)
}

// runDaemon opens the receivers and a daemon, and runs it until ctx ends.
func runDaemon(ctx context.Context, c *config.Config, o daemon.Options) error {
	set, err := receivers.Open(c, release)
	if err != nil {
		return err
	}
	return runDelivering(ctx, c, o, set)
}

// runDelivering is runDaemon with receivers that are open.
func runDelivering(ctx context.Context, c *config.Config, o daemon.Options, set *receivers.Set) error {
	log := o.Log
	var err error
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
	log.Info("watching", "agencies", len(o.Poller.Agencies)-n, "api", string(c.Poll.BaseURL), "data", c.Base.DataDir)
	return d.Run(ctx)
}

// DaemonOptions says in the daemon's words what is configured.
func DaemonOptions(c *config.Config, log *slog.Logger) daemon.Options {
	b := c.Base
	o := daemon.Options{
		DataDir: b.DataDir, Version: release, Log: log, Poller: options.Poller(c, release), NATS: options.NATS(c.NATS), NATSListen: b.NATSListen,
		Instance: b.Instance, SubjectPrefix: b.SubjectPrefix, Stream: b.Stream(), ManageStream: b.StreamManage == "auto", Retention: b.Retention,
		StoreMax: int64(b.StoreMax), StreamMax: int64(b.StreamMax),
		Zone: c.Poll.Timezone.Location, HTTPToken: b.HTTPToken.Reveal(), FeedToken: b.FeedToken.Reveal(), ShowPeople: b.ShowPeople, PingURL: b.PingURL.Reveal(),
	}
	if b.HasHTTP() {
		o.HTTPListen = b.HTTPListen
	}
	return o
}
