package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/poller"
	"doorbell/store"
)

const (
	// lookForKeysEvery is how often the files that values came from are looked at.
	lookForKeysEvery = 25 * time.Second
	// settled is how long a text must stay before it is read: half a file names fewer agencies than the whole.
	settled = 500 * time.Millisecond
)

// keyReader tells the poller again whom to watch and with which keys, when a file has changed and on SIGHUP. What is wrong
// with a file that is just being replaced is said, and what was configured before stays.
type keyReader struct {
	environ []string
	hup     <-chan os.Signal
	log     *slog.Logger
	loud    *slog.Logger // for what somebody has just done and waits to hear of

	// What counts is what stands in the files. A modification time may stay the same when they are replaced, and one that
	// is looked at after the reading may belong to a text that was not read.
	files map[string][sha256.Size]byte
	told  []poller.AgencyKeys // what the poller has
	heard []string            // warnings that were logged
	again bool                // the poller could not take it: try it once more
}

func newKeyReader(environ []string, c *Config, hup <-chan os.Signal, log *slog.Logger) *keyReader {
	r := &keyReader{environ: environ, hup: hup, log: log, loud: loud(log), told: c.pollerOptions().Agencies, heard: c.Warnings}
	r.files = make(map[string][sha256.Size]byte, len(c.Files))
	for _, f := range c.Files {
		r.files[f] = [sha256.Size]byte{} // the first look reads, as the file may have changed since the start
	}
	return r
}

// run reads until ctx ends. Only set can fail.
func (r *keyReader) run(ctx context.Context, set func([]poller.AgencyKeys) error) error {
	tick := time.NewTicker(lookForKeysEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hup:
			r.look()
		case <-tick.C:
			if !r.look() && !r.again || !r.settle(ctx) {
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
	for _, f := range c.Files {
		if _, known := r.files[f]; !known {
			r.files[f] = [sha256.Size]byte{}
		}
	}
	if err != nil {
		r.loud.Error("the changed configuration is refused; agencies and keys stay as they were", "err", err)
		return nil
	}
	for _, w := range c.Warnings {
		if !slices.Contains(r.heard, w) {
			r.loud.Warn(w)
		}
	}
	r.heard = c.Warnings
	return r.tell(c.pollerOptions().Agencies, set)
}

func (r *keyReader) tell(list []poller.AgencyKeys, set func([]poller.AgencyKeys) error) error {
	if slices.Equal(list, r.told) {
		r.again = false
		return nil
	}
	err := set(list)
	r.again = errors.Is(err, store.ErrNoSpace) || errors.Is(err, daemon.ErrUndecided)
	switch {
	case errors.Is(err, daemon.ErrUndecided):
		r.log.Warn("agencies and keys wait", "err", err)
		return nil
	case errors.Is(err, poller.ErrRetiresAll):
		r.loud.Error("the changed configuration is refused: it would retire all agencies at once; agencies and keys stay as they "+
			"were, a restart takes it", "err", err)
		return nil
	case r.again:
		r.log.Error("agencies and keys wait for space", "err", err)
		return nil
	case err != nil:
		return err
	}
	r.told = list
	r.loud.Info("agencies and keys are read again", "agencies", len(list))
	return nil
}

// settle waits until the files stay as they are. Those that go on changing are read after the next look.
func (r *keyReader) settle(ctx context.Context) bool {
	for range 5 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(settled):
		}
		if !r.look() {
			return true
		}
	}
	r.again = true
	return false
}

// look says whether what stands in the files is another text than at the last look.
func (r *keyReader) look() (changed bool) {
	for f, before := range r.files {
		text, _ := readFile(f) // what is wrong with it is for the reading to say
		if now := sha256.Sum256([]byte(text)); now != before {
			r.files[f], changed = now, true
		}
	}
	return changed
}
