package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// cmdPoll lets the daemon ask for an agency now. Without a daemon there is nobody to ask.
func cmdPoll(ctx context.Context, p *program, c *PollCmd) error {
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	done, err := ops.NewClient(filepath.Join(config.Base.DataDir, daemon.SocketFile)).Poll(ctx, c.Agency)
	if errors.Is(err, ops.ErrNoAnswer) {
		return noDaemon(config.Base)
	}
	if err != nil {
		return agencyError(err)
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(done)
	}
	fmt.Fprintln(p.stdout, polledNow(c.Agency, done))
	return nil
}

func polledNow(agencyID string, done poller.PolledNow) string {
	switch {
	case done.Of == 0:
		return agencyID + " is walked now; no insertion of it is known yet"
	case done.Insertions < done.Of:
		return fmt.Sprintf("%s is walked now; %d of its %d insertions, which have waited the longest, are polled next", agencyID, done.Insertions, done.Of)
	}
	return fmt.Sprintf("%s is walked now; insertions that are polled next: %d", agencyID, done.Of)
}

// noDaemon says why nobody answers: none runs, or the one that does hangs.
func noDaemon(b Base) error {
	kept, err := openStopped(b)
	if err != nil {
		return err
	}
	return errors.Join(failed(errors.New("no daemon runs"), "start it with doorbell run"), kept.Close())
}
