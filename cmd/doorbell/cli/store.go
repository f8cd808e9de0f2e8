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
	File  string `arg:"" help:"File to create, with mode 0600."`
	Force bool   `help:"Replace the file if it exists."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Run copies the store into a file, through the daemon or, if none runs, from the data directory.
func (c *BackupCmd) Run(ctx context.Context, p *program, cfg *config.Config, from *eventLog) error {
	there, _ := os.Stat(c.File)
	if own, err := os.Stat(filepath.Join(cfg.Base.DataDir, daemon.StoreFile)); err == nil &&
		there != nil && os.SameFile(there, own) {
		return exit.Usage("FILE is the store itself",
			"give the backup another name, preferably on another disk")
	}
	r, err := from.backup(ctx, cfg.Base, c.File, c.Force)
	switch {
	case errors.Is(err, fs.ErrExist):
		return exit.Failed(fmt.Errorf("%s already exists", c.File),
			"give another name, or replace it with --force")
	case err != nil && !errors.As(err, new(*exit.Error)):
		return exit.IO(err, "no backup was made; check the disk of "+filepath.Dir(c.File))
	case err != nil:
		return err
	}
	return p.result(c.JSON, r,
		fmt.Sprintf("%s contains store %s, verified: %s", c.File, r.StoreID, reportText(r)))
}

// backup receives a verified copy of the store in a file, unless that would fill its disk.
func (l *eventLog) backup(ctx context.Context, b config.Base, file string,
	replace bool,
) (store.Report, error) {
	r, err := store.ReceiveBackup(ctx, file, replace, func(w io.Writer) error {
		return l.Backup(ctx, w, func(bytes int64) error { return needSpace(filepath.Dir(file), bytes) })
	})
	// it is that of the store: the copy is gone
	if damage, is := errors.AsType[*store.DamagedError](err); is {
		damage.Path = filepath.Join(b.DataDir, daemon.StoreFile)
	}
	return r, err
}

// needSpace refuses what would fill a disk.
func needSpace(dir string, bytes int64) error {
	if free, known := exit.FreeSpace(dir); known && free < bytes+exit.LeastSpace {
		return exit.IO(fmt.Errorf("%s has %s free; a copy needs %s, and %s must stay free",
			dir, ops.BytesText(free), ops.BytesText(bytes), ops.BytesText(exit.LeastSpace)),
			"free some space there, or choose another disk")
	}
	return nil
}

// VerifyCmd is `doorbell verify`.
type VerifyCmd struct {
	File string `placeholder:"PATH" help:"Verify this file, for instance a backup, instead of the store in the data directory."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Run says whether a store is sound.
func (c *VerifyCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	path := filepath.Join(cfg.Base.DataDir, daemon.StoreFile)
	advice := exit.AdviceOnDamage(path)
	if c.File != "" {
		path = c.File
		advice = "do not start from this file: use another backup that `doorbell verify --file` reports as sound"
	}
	r, err := c.verify(ctx, p, cfg, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Failed(fmt.Errorf("there is no file %s", path),
			"give the path of a store or backup; without --file, verify reads the store in DOORBELL_DATA_DIR")
	case c.File != "" && errors.Is(err, store.ErrDamaged):
		return exit.IO(errors.New(err.Error()), advice) // not that of the store
	case err != nil:
		return stoppedError(err, filepath.Dir(path))
	}
	if n := len(r.Findings); n > 0 {
		err = exit.IO(fmt.Errorf("%s is damaged: %s", r.Path, ops.Counted(n, "finding")), advice)
	}
	return cmp.Or(p.result(c.JSON, map[string]store.Report{"store": r}, verifiedText(r)), err)
}

// verify looks at the file, or beside a daemon at a copy of its store: others go on to write.
func (c *VerifyCmd) verify(ctx context.Context, p *program, cfg *config.Config,
	path string,
) (store.Report, error) {
	if c.File != "" {
		return store.Verify(ctx, path)
	}
	from, err := p.openLog(ctx, cfg)
	switch {
	case err != nil:
		return store.Report{}, err
	case from.alone:
		return store.Verify(ctx, path)
	}
	copied := filepath.Join(cfg.Base.DataDir, store.CopyFile)
	defer os.Remove(copied)
	r, err := from.backup(ctx, cfg.Base, copied, true)
	if r.Path = path; len(r.Findings) > 0 {
		err = nil
	}
	return r, err
}

func verifiedText(r store.Report) string {
	text, what := "", "is sound: "+reportText(r)
	for _, finding := range r.Findings {
		text, what = text+finding+"\n", "is damaged"
	}
	return text + fmt.Sprintf("%s, store %s of %s, %s", r.Path, r.StoreID, r.BaseURL, what)
}

func reportText(r store.Report) string {
	return strings.Join([]string{
		ops.Counted(r.Agencies, "agency"), ops.Counted(r.Insertions, "insertion"),
		ops.Counted(r.ContactRequests, "contact request"), ops.Counted(r.Events, "event"),
		ops.BytesText(r.Bytes),
	}, ", ")
}
