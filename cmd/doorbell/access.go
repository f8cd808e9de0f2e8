package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
	"doorbell/store"
)

// openStopped opens the store of a daemon that does not run. It never makes a new one.
func openStopped(b Base) (*store.Store, error) {
	if _, err := os.Stat(filepath.Join(b.DataDir, daemon.StoreFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, failed(fmt.Errorf("no daemon answers, and there is no store in %s", b.DataDir),
			"set DOORBELL_DATA_DIR to the data directory of the daemon")
	}
	s, err := store.Open(store.Options{Dir: b.DataDir, Check: soundFile})
	var locked *store.LockedError
	if errors.As(err, &locked) {
		return nil, unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), adviceOnHolder)
	}
	if err != nil {
		return nil, storeError(err, b.DataDir)
	}
	return s, nil
}

// storeError says what to do about a store that cannot be opened.
func storeError(err error, dir string) error {
	var locked *store.LockedError
	switch {
	case errors.Is(err, store.ErrEmpty):
		return ioError(err, "")
	case errors.Is(err, store.ErrDamaged):
		return err
	case errors.As(err, &locked):
		// And not 78: a command lets go of it, and a supervisor has to try again until then.
		return ioError(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "stop the other doorbell, wait if it is a command as verify, or give this one a data directory of its own")
	case errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrNewer):
		return configError(err, "")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return configError(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), fmt.Sprintf("let the user that runs doorbell write to %s, or choose another directory", dir))
	}
	return ioError(err, fmt.Sprintf("look at %s and at the space on its disk", dir))
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
	held, err := ops.NewClient(filepath.Join(b.DataDir, daemon.SocketFile)).Approve(ctx, agencyID)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return held, agencyError(err)
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
	return agencyError(err)
}

// agencyError says where the agencies are listed, if one was named that is not watched.
func agencyError(err error) error {
	if errors.Is(err, poller.ErrUnknownAgency) {
		return failed(err, "doorbell status lists the agencies; upper and lower case differ")
	}
	return err
}

func resume(ctx context.Context, b Base, c *ResumeCmd) (int, error) {
	q := ops.ResumeRequest{AgencyID: c.Agency, PropertyReferenceID: c.Insertion}
	ended, err := ops.NewClient(filepath.Join(b.DataDir, daemon.SocketFile)).Resume(ctx, q)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return ended, agencyError(err)
	}
	kept, err := openStopped(b)
	if err != nil {
		return 0, err
	}
	defer kept.Close()
	ended, err = poller.ResumeRemembered(kept, c.Agency, c.Insertion)
	return ended, writeError(err, b)
}
