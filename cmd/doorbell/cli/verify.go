package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/store"
)

// VerifyCmd is `doorbell verify`.
type VerifyCmd struct {
	File string `placeholder:"PATH" help:"Look at this file, a backup for instance, instead of the store in the data directory."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (VerifyCmd) Help() string {
	return "Reads every page and every value of the store, and changes nothing. Beside a running daemon it looks at a copy, which it makes in the " +
		"data directory and removes.\n\n" +
		"Exit codes: 0 sound, 74 damaged, 78 of a newer doorbell or not the store that belongs there.\n\n" +
		"Examples:\n  doorbell verify\n  doorbell verify --file /backup/doorbell.db"
}

// Run says whether a store is sound.
func (c *VerifyCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	r, err := verifyStore(ctx, cfg.Base, c.File)
	if err != nil {
		return err
	}
	if n := len(r.Findings) + r.More; n > 0 {
		err = exit.IO(fmt.Errorf("%s is damaged: %s", r.Path, ops.Counted(n, "finding")), adviceOn(c.File, r.Path))
	}
	if c.JSON {
		return firstError(p.printJSON(verified{&r}), err)
	}
	return firstError(printReport(p, r), err)
}

// verified is what `verify --json` prints.
type verified struct {
	Store *store.Report `json:"store"`
}

// adviceOn says what to do about damage of the store, or of another file.
func adviceOn(file, path string) string {
	if file == "" {
		return exit.AdviceOnDamage(path)
	}
	return "do not start from this file: take another backup, which `doorbell verify --file` calls sound"
}

func verifyStore(ctx context.Context, b config.Base, file string) (store.Report, error) {
	if file != "" {
		r, err := store.Verify(ctx, file)
		var locked *store.LockedError
		if errors.As(err, &locked) {
			return r, exit.Unavailable(err, "leave out --file to look at the store of the daemon that holds it")
		}
		if errors.Is(err, fs.ErrNotExist) {
			return r, exit.Failed(fmt.Errorf("there is no file %s", file), "give the path of a store or backup; without --file, verify reads the store in DOORBELL_DATA_DIR")
		}
		if errors.Is(err, store.ErrDamaged) {
			return r, exit.IO(errors.New(err.Error()), adviceOn(file, file)) // not that of the store
		}
		return r, stoppedError(err, filepath.Dir(file))
	}
	r, err := verifyCopy(ctx, b)
	if !errors.Is(err, ops.ErrNoAnswer) {
		return r, stoppedError(err, b.DataDir)
	}
	path := filepath.Join(b.DataDir, daemon.StoreFile)
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if r, err = store.Verify(ctx, path); err != nil || len(r.Findings) > 0 {
			return r, stoppedError(err, b.DataDir)
		}
	}
	kept, err := readStopped(b) // says what does not belong here
	if err != nil {
		return r, err
	}
	return r, kept.Close()
}

// sayOfStore lets damage of a copy be that of the store that was copied: the copy is gone.
func sayOfStore(err error, b config.Base) {
	var damage *store.DamagedError
	if errors.As(err, &damage) {
		damage.Path = filepath.Join(b.DataDir, daemon.StoreFile)
	}
}

// verifyCopy looks at a copy of the store that the daemon has open: others go on to write.
func verifyCopy(ctx context.Context, b config.Base) (r store.Report, err error) {
	client := options.Client(b)
	if _, err := client.Status(ctx); err != nil {
		return r, err
	}
	path := filepath.Join(b.DataDir, store.CopyFile)
	defer os.Remove(path)
	r, err = store.ReceiveBackup(ctx, path, true, func(w io.Writer) error {
		return client.Backup(ctx, w, func(bytes int64) error { return needSpace(b.DataDir, bytes) })
	})
	if errors.Is(err, ops.ErrNoAnswer) {
		err = errors.New("the daemon stopped meanwhile") // and not: none runs
	}
	r.Path = filepath.Join(b.DataDir, daemon.StoreFile)
	sayOfStore(err, b)
	if len(r.Findings) > 0 {
		return r, nil
	}
	return r, err
}

func printReport(p *program, r store.Report) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintln(&b, printable(f))
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", r.More)
	}
	what := "is sound: " + reportText(r)
	if len(r.Findings) > 0 {
		what = "is damaged"
	}
	fmt.Fprintf(&b, "%s, store %s of %s, %s\n", r.Path, r.StoreID, r.BaseURL, what)
	return p.print(b.String())
}

func reportText(r store.Report) string {
	return strings.Join([]string{
		ops.Counted(r.Agencies, "agency"), ops.Counted(r.Insertions, "insertion"), ops.Counted(r.ContactRequests, "contact request"),
		ops.Counted(r.Events, "event"), ops.BytesText(r.Bytes),
	}, ", ")
}
