package cli

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/options"
	"doorbell/poller"
)

// readKeysEvery is how often the configuration is read again. What two readings in a row say alike
// counts: half a file names fewer agencies than the whole.
const readKeysEvery = 10 * time.Second

// keyReader passes agencies and keys to the poller when a file has changed, and on SIGHUP. If the
// configuration is wrong, as while a file is being replaced, it logs that, and keeps the one before.
type keyReader struct {
	environ []string
	hup     <-chan os.Signal
	log     *slog.Logger
	loud    *slog.Logger // for what a person has just done

	seen   keyReading // the last one
	acted  keyReading // the last one that went to the poller, or to the log
	used   []poller.AgencyKeys
	warned []string
}

// keyReading is what the configuration said once.
type keyReading struct {
	agencies []poller.AgencyKeys
	problem  string // why it cannot be used
}

func (r keyReading) equal(other keyReading) bool {
	return r.problem == other.problem && slices.Equal(r.agencies, other.agencies)
}

func newKeyReader(environ []string, c *config.Config, hup <-chan os.Signal, log *slog.Logger) *keyReader {
	now := keyReading{agencies: options.Poller(c, release).Agencies}
	return &keyReader{environ: environ, hup: hup, log: log, loud: loud(log), seen: now, acted: now, used: now.agencies, warned: c.Warnings}
}

// begin returns what a daemon starts with that takes its turn long after the configuration was
// read: what stands there now, or what was last used if that cannot be read. run goes on from
// there.
func (r *keyReader) begin() []poller.AgencyKeys {
	c, err := config.Read(r.environ, config.GroupPoll)
	if err != nil {
		r.loud.Error("the changed configuration is refused; agencies and keys stay as they were", "err", err)
		return r.used
	}
	r.used = options.Poller(c, release).Agencies
	r.seen = keyReading{agencies: r.used}
	r.acted = r.seen
	return r.used
}

// run reads until ctx ends. Only set can fail.
func (r *keyReader) run(ctx context.Context, set func([]poller.AgencyKeys) error) error {
	tick := time.NewTicker(readKeysEvery)
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return nil
		case <-r.hup:
			asked = true
		case <-tick.C:
		}
		c, err := config.Read(r.environ, config.GroupPoll)
		now := keyReading{}
		if err != nil {
			now.problem = err.Error()
		} else {
			now.agencies = options.Poller(c, release).Agencies
		}
		settled := now.equal(r.seen)
		r.seen = now
		if !asked && (!settled || now.equal(r.acted)) {
			continue
		}
		r.acted = now
		if err != nil {
			r.loud.Error("the changed configuration is refused; agencies and keys stay as they were", "err", err)
			continue
		}
		for _, w := range c.Warnings {
			if !slices.Contains(r.warned, w) {
				r.loud.Warn(w)
			}
		}
		r.warned = c.Warnings
		if err := r.use(now.agencies, set); err != nil {
			return err
		}
	}
}

func (r *keyReader) use(list []poller.AgencyKeys, set func([]poller.AgencyKeys) error) error {
	if slices.Equal(list, r.used) {
		return nil
	}
	if err := set(list); err != nil {
		return err
	}
	r.used = list
	r.loud.Info("agencies and keys were reloaded", "agencies", len(list))
	return nil
}
