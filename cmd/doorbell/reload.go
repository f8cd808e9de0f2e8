package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"doorbell/poller"
)

// lookForKeysEvery is how often the files that values came from are looked at. Kubernetes swaps links, so it is the
// modification time that counts, not an event of the file system.
const lookForKeysEvery = 30 * time.Second

// keyReader gives the poller the keys again when a file has changed and on SIGHUP.
type keyReader struct {
	environ []string
	files   map[string]time.Time
	hup     <-chan os.Signal
	log     *slog.Logger
}

func newKeyReader(environ []string, c *Config, hup <-chan os.Signal, log *slog.Logger) *keyReader {
	r := &keyReader{environ: environ, hup: hup, log: log}
	r.remember(c)
	return r
}

// run reads until ctx ends. Only set can fail: what is wrong with a file is said, and the old keys stay.
func (r *keyReader) run(ctx context.Context, set func([]poller.AgencyKeys) error) error {
	tick := time.NewTicker(lookForKeysEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hup:
		case <-tick.C:
			if !r.changed() {
				continue
			}
		}
		if err := r.read(set); err != nil {
			return err
		}
	}
}

func (r *keyReader) read(set func([]poller.AgencyKeys) error) error {
	c, err := readConfig(r.environ, groupPoll)
	r.remember(c)
	if err != nil {
		r.log.Error("the changed configuration is refused; the old keys stay", "err", err)
		return nil
	}
	r.log.Info("keys are read again", "agencies", len(c.Agencies))
	return set(c.pollerOptions().Agencies)
}

func (r *keyReader) remember(c *Config) {
	r.files = make(map[string]time.Time, len(c.Files))
	for _, f := range c.Files {
		r.files[f] = modified(f)
	}
}

func (r *keyReader) changed() bool {
	for f, at := range r.files {
		if !modified(f).Equal(at) {
			return true
		}
	}
	return false
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
