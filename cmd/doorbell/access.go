package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
	"doorbell/store"
)

// watchEvery is how often `status --watch` looks again.
const watchEvery = 2 * time.Second

// cmdStatus prints how the daemon is.
func cmdStatus(ctx context.Context, p *program, c *StatusCmd) error {
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	for {
		s, err := status(ctx, config.Base)
		if err != nil {
			return err
		}
		if c.Watch && !c.JSON {
			fmt.Fprint(p.stdout, "\033[H\033[2J")
		}
		if err := printStatus(p.stdout, s, c.JSON); err != nil {
			return err
		}
		if c.Check && !s.Running {
			return failed(errors.New("no daemon runs"), "start it with doorbell run")
		}
		if c.Check && s.Troubled() {
			return failed(errors.New("something is halted, held, stale, full, off or does not answer"), "the status above says what")
		}
		if !c.Watch {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

func printStatus(w io.Writer, s ops.Status, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(s)
	}
	return s.WriteText(w)
}

// status asks the daemon; if none runs, it reads what the store remembers.
func status(ctx context.Context, b Base) (ops.Status, error) {
	s, err := ops.NewClient(filepath.Join(b.DataDir, socketFile)).Status(ctx)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return s, err
	}
	kept, err := openToRead(b)
	if err != nil {
		return ops.Status{}, err
	}
	defer kept.Close()
	w, err := poller.Remembered(kept)
	if err != nil {
		return ops.Status{}, ioError(err, "")
	}
	inUse, err := kept.InUse()
	if err != nil {
		return ops.Status{}, ioError(err, "")
	}
	s = ops.Status{Version: version(), StoreID: kept.ID(), DataDir: b.DataDir, Watch: w}
	s.Store = ops.NewStoreStatus(store.NewSpace(inUse, int64(b.StoreMax)))
	for _, a := range w.Agencies {
		c, err := kept.Cursor(a.AgencyID)
		if err != nil {
			return s, ioError(err, "")
		}
		s.Relay = append(s.Relay, ops.RelayStatus{AgencyID: a.AgencyID, Acknowledged: c.Sequence, Pending: a.LastSequence - min(a.LastSequence, c.Sequence)})
	}
	return s, nil
}

// openStopped opens the store of a daemon that does not run. It never makes a new one.
func openStopped(b Base) (*store.Store, error) {
	if _, err := os.Stat(filepath.Join(b.DataDir, storeFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, failed(fmt.Errorf("no daemon answers, and there is no store in %s", b.DataDir),
			"set DOORBELL_DATA_DIR to the data directory of the daemon")
	}
	s, err := store.Open(store.Options{Dir: b.DataDir})
	var locked *store.LockedError
	if errors.As(err, &locked) {
		return nil, unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), adviceOnHolder)
	}
	if err != nil {
		return nil, storeError(err, b.DataDir)
	}
	return s, nil
}

// cmdResume ends halts, through the daemon or, if none runs, in the store.
func cmdResume(ctx context.Context, p *program, c *ResumeCmd) error {
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	ended, err := resume(ctx, config.Base, c)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(ops.ResumeAnswer{Ended: ended})
	}
	what := c.Agency
	if c.Insertion != "" {
		what += fmt.Sprintf(" %q", c.Insertion)
	}
	if ended == 0 {
		fmt.Fprintf(p.stdout, "%s is not halted\n", what)
		return nil
	}
	halts := "one halt"
	if ended > 1 {
		halts = fmt.Sprintf("%d halts", ended)
	}
	fmt.Fprintf(p.stdout, "%s is asked for again; %s ended\n", what, halts)
	return nil
}

// cmdApprove believes a held change, through the daemon or, if none runs, in the store.
func cmdApprove(ctx context.Context, p *program, c *ApproveCmd) error {
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	held, err := approve(ctx, config.Base, c.Agency)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(ops.ApproveAnswer{Held: held})
	}
	if !held {
		fmt.Fprintf(p.stdout, "nothing is held for %s\n", c.Agency)
		return nil
	}
	fmt.Fprintf(p.stdout, "the change of %s is told by the next complete walk that still shows it\n", c.Agency)
	return nil
}

func approve(ctx context.Context, b Base, agencyID string) (bool, error) {
	held, err := ops.NewClient(filepath.Join(b.DataDir, socketFile)).Approve(ctx, agencyID)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return held, err
	}
	kept, err := openStopped(b)
	if err != nil {
		return false, err
	}
	defer kept.Close()
	held, err = poller.ApproveRemembered(kept, agencyID)
	return held, writeError(err, b)
}

// writeError gives the failed commit of a command the exit code that it has in the daemon.
func writeError(err error, b Base) error {
	if errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrDamaged) {
		return storeError(err, b.DataDir)
	}
	return err
}

func resume(ctx context.Context, b Base, c *ResumeCmd) (int, error) {
	q := ops.ResumeRequest{AgencyID: c.Agency, PropertyReferenceID: c.Insertion}
	ended, err := ops.NewClient(filepath.Join(b.DataDir, socketFile)).Resume(ctx, q)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return ended, err
	}
	kept, err := openStopped(b)
	if err != nil {
		return 0, err
	}
	defer kept.Close()
	ended, err = poller.ResumeRemembered(kept, c.Agency, c.Insertion)
	return ended, writeError(err, b)
}
