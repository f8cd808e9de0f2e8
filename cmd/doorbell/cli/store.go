package cli

import (
	"cmp"
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
	"doorbell/store"
)

// BackupCmd is `doorbell backup`.
type BackupCmd struct {
	File  string `arg:"" help:"File that is made, mode 0600."`
	Force bool   `help:"Replace the file if it is there."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

func (BackupCmd) Help() string {
	return "The copy is verified before it gets its name. It holds people's data.\n\n" +
		"Example:\n  doorbell backup /backup/doorbell-$(date +%F).db"
}

// Run copies the store into a file, through the daemon or, if none runs, from the data directory.
func (c *BackupCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	there, _ := os.Stat(c.File)
	if own, err := os.Stat(filepath.Join(cfg.Base.DataDir, daemon.StoreFile)); err == nil && there != nil && os.SameFile(there, own) {
		return exit.Usage("FILE is the store itself", "give a backup another name, best on another disk")
	}
	from, err := open(ctx, cfg.Base)
	if err != nil {
		return err
	}
	defer from.close()
	r, err := from.backup(ctx, cfg.Base, c.File, c.Force)
	switch {
	case errors.Is(err, fs.ErrExist):
		return exit.Failed(fmt.Errorf("%s already exists", c.File), "give another name, or replace it with --force")
	case err != nil && !errors.As(err, new(*exit.Error)):
		return exit.IO(err, "no backup was made; look at the disk of "+filepath.Dir(c.File))
	case err != nil:
		return err
	}
	return p.printResult(c.JSON, r, "%s holds store %s, verified: %s", c.File, r.StoreID, reportText(r))
}

// backup receives a verified copy of the store in a file, unless that would fill its disk.
func (o *opened) backup(ctx context.Context, b config.Base, file string, replace bool) (store.Report, error) {
	r, err := store.ReceiveBackup(ctx, file, replace, func(w io.Writer) error {
		var short error
		err := o.Backup(untilError(func(p []byte) (int, error) {
			if err := cmp.Or(short, ctx.Err()); err != nil {
				return 0, err
			}
			return w.Write(p)
		}), func(bytes int64) { short = needSpace(filepath.Dir(file), bytes) })
		return cmp.Or(short, err)
	})
	var damage *store.DamagedError
	if errors.As(err, &damage) { // it is that of the store: the copy is gone
		damage.Path = filepath.Join(b.DataDir, daemon.StoreFile)
	}
	return r, err
}

type untilError func([]byte) (int, error)

func (f untilError) Write(p []byte) (int, error) { return f(p) }

// needSpace refuses what would fill a disk.
func needSpace(dir string, bytes int64) error {
	if free, known := exit.FreeSpace(dir); known && free < bytes+exit.LeastSpace {
		return exit.IO(fmt.Errorf("%s has %s free; a copy takes %s, and %s have to be left", dir, ops.BytesText(free), ops.BytesText(bytes), ops.BytesText(exit.LeastSpace)), "make space there, or choose another disk")
	}
	return nil
}

// VerifyCmd is `doorbell verify`.
type VerifyCmd struct {
	File string `placeholder:"PATH" help:"Look at this file, a backup for instance, instead of the store in the data directory."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (VerifyCmd) Help() string {
	return "Reads every page and value of the store, beside a daemon of a copy, and changes nothing.\n\n" +
		"Examples:\n  doorbell verify\n  doorbell verify --file /backup/doorbell.db"
}

// Run says whether a store is sound.
func (c *VerifyCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	look, advice := c.own, exit.AdviceOnDamage(filepath.Join(cfg.Base.DataDir, daemon.StoreFile))
	if c.File != "" {
		look, advice = c.other, adviceOnCopy
	}
	r, err := look(ctx, cfg.Base)
	if err != nil {
		return err
	}
	if n := len(r.Findings) + r.More; n > 0 {
		err = exit.IO(fmt.Errorf("%s is damaged: %s", r.Path, ops.Counted(n, "finding")), advice)
	}
	if c.JSON {
		return cmp.Or(p.printJSON(map[string]store.Report{"store": r}), err)
	}
	return cmp.Or(printReport(p, r), err)
}

const adviceOnCopy = "do not start from this file: take another backup, which `doorbell verify --file` calls sound"

// other looks at a file.
func (c *VerifyCmd) other(ctx context.Context, _ config.Base) (store.Report, error) {
	r, err := store.Verify(ctx, c.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = exit.Failed(fmt.Errorf("there is no file %s", c.File), "give the path of a store or backup; without --file, verify reads the store in DOORBELL_DATA_DIR")
	case errors.Is(err, store.ErrDamaged):
		err = exit.IO(errors.New(err.Error()), adviceOnCopy) // not that of the store
	}
	return r, stoppedError(err, filepath.Dir(c.File))
}

// own looks at the store of the data directory, beside a daemon at a copy: others go on to write.
func (c *VerifyCmd) own(ctx context.Context, b config.Base) (store.Report, error) {
	path := filepath.Join(b.DataDir, daemon.StoreFile)
	from, err := open(ctx, b)
	if err != nil {
		return store.Report{}, err
	}
	defer from.close()
	if from.alone {
		r, err := store.Verify(ctx, path)
		return r, stoppedError(err, b.DataDir)
	}
	copied := filepath.Join(b.DataDir, store.CopyFile)
	defer os.Remove(copied)
	r, err := from.backup(ctx, b, copied, true)
	if r.Path = path; len(r.Findings) > 0 {
		err = nil
	}
	return r, stoppedError(err, b.DataDir)
}

func printReport(p *program, r store.Report) error {
	lines := r.Findings
	if r.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", r.More))
	}
	what := "is sound: " + reportText(r)
	if len(r.Findings) > 0 {
		what = "is damaged"
	}
	lines = append(lines, fmt.Sprintf("%s, store %s of %s, %s", r.Path, r.StoreID, r.BaseURL, what))
	return p.print(strings.Join(lines, "\n") + "\n")
}

func reportText(r store.Report) string {
	return strings.Join([]string{
		ops.Counted(r.Agencies, "agency"), ops.Counted(r.Insertions, "insertion"), ops.Counted(r.ContactRequests, "contact request"),
		ops.Counted(r.Events, "event"), ops.BytesText(r.Bytes),
	}, ", ")
}
