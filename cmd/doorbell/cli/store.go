package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/store"
)

// BackupCmd is `doorbell backup`.
type BackupCmd struct {
	File  string `arg:"" help:"File that is made, mode 0600."`
	Force bool   `help:"Replace the file if it is there."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

func (BackupCmd) Help() string {
	return "The copy is consistent, and verified before it gets its name. It holds people's data. To use it: stop the daemon, copy it to " +
		"doorbell.db in the data directory, and start the daemon again.\n\nExample:\n  doorbell backup /backup/doorbell-$(date +%F).db"
}

// Run copies the store into a file, through the daemon or, if none runs, from the data directory.
func (c *BackupCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	if info, err := os.Stat(c.File); err == nil && info.IsDir() {
		return exit.Usage("FILE is a folder", "add the name that the backup gets in it")
	}
	if same(c.File, filepath.Join(cfg.Base.DataDir, daemon.StoreFile)) {
		return exit.Usage("FILE is the store itself", "give a backup another name, best on another disk")
	}
	r, err := store.ReceiveBackup(ctx, c.File, c.Force, func(w io.Writer) error {
		return copyStore(ctx, cfg.Base, w, filepath.Dir(c.File))
	})
	if err != nil {
		sayOfStore(err, cfg.Base)
		return backupError(err, c.File)
	}
	return p.printResult(c.JSON, r, "%s holds store %s, verified: %s", c.File, r.StoreID, reportText(r))
}

// same says whether two paths are one file.
func same(a, b string) bool {
	one, err := os.Stat(a)
	two, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, two)
}

func backupError(err error, path string) error {
	var known *exit.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrExist):
		return exit.Failed(fmt.Errorf("%s already exists", path), "give another name, or replace it with --force")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return exit.IO(err, "give a file in a directory that is there and may be written")
	}
	return exit.IO(err, "no backup was made; look at the disk of "+filepath.Dir(path))
}

// copyStore writes a copy of the store to w, which stands in a directory.
func copyStore(ctx context.Context, b config.Base, w io.Writer, dir string) error {
	room := func(bytes int64) error { return needSpace(dir, bytes) }
	err := options.Client(b).Backup(ctx, w, room)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return err
	}
	kept, err := readStopped(b)
	if err != nil {
		return err
	}
	defer kept.Close()
	var short error
	err = kept.Backup(stopped{ctx, &short, w}, func(bytes int64) { short = room(bytes) })
	return errors.Join(short, err)
}

// stopped writes until its context ends or an error is there.
type stopped struct {
	ctx context.Context
	err *error
	io.Writer
}

func (w stopped) Write(p []byte) (int, error) {
	if err := errors.Join(*w.err, w.ctx.Err()); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

// needSpace refuses what would fill a disk.
func needSpace(dir string, bytes int64) error {
	if free, known := exit.FreeSpace(dir); known && free < bytes+exit.LeastSpace {
		return exit.IO(fmt.Errorf("%s has %s free; a copy takes %s, and %s have to be left", dir, ops.BytesText(free), ops.BytesText(bytes), ops.BytesText(exit.LeastSpace)), "make space there, or choose another disk")
	}
	return nil
}

// openStopped opens the store of a daemon that does not run. It never makes a new one.
func openStopped(b config.Base) (*store.Store, error) {
	_, err := os.Stat(filepath.Join(b.DataDir, daemon.StoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, stoppedError(err, b.DataDir)
	}
	s, err := store.Open(store.Options{Dir: b.DataDir})
	return s, stoppedError(err, b.DataDir)
}

// readStopped opens it without touching it.
func readStopped(b config.Base) (*store.Store, error) {
	s, err := store.OpenReadOnly(store.Options{Dir: b.DataDir})
	return s, stoppedError(err, b.DataDir)
}

// stoppedError is exit.Store of a command that has found no daemon: one that holds the store hangs.
func stoppedError(err error, dir string) error {
	switch {
	case err == nil, errors.As(err, new(*exit.Error)):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return exit.Failed(fmt.Errorf("no daemon answers, and there is no store in %s", dir), "set DOORBELL_DATA_DIR to the data directory of the daemon")
	case errors.As(err, new(*store.LockedError)):
		return exit.Unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), exit.AdviceOnHolder)
	}
	return exit.Store(err, dir)
}
