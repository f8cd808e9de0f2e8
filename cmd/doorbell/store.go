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
	"syscall"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/store"
)

// BackupCmd is `doorbell backup`.
type BackupCmd struct {
	File  string `arg:"" help:"File that is made, mode 0600."`
	Force bool   `help:"Replace the file if it is there."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (BackupCmd) Help() string {
	return "The copy is consistent, and verified before it gets its name. It holds people's data. To use it: stop the daemon, copy it to " +
		"doorbell.db in the data directory, and start once with doorbell run --restored.\n\nExample:\n  doorbell backup /backup/doorbell-$(date +%F).db"
}

// CompactCmd is `doorbell compact`.
type CompactCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (CompactCmd) Help() string {
	return "Needs the daemon stopped, and space for a second file. Trimmed events leave space in the file that is used again; this gives it back.\n\nExample:\n  doorbell compact"
}

// Run copies the store into a file, through the daemon or, if none runs, from the data directory.
func (c *BackupCmd) Run(ctx context.Context, p *program) error {
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	if info, err := os.Stat(c.File); err == nil && info.IsDir() {
		return usageError("FILE is a folder", "add the name that the backup gets in it")
	}
	if same(c.File, filepath.Join(config.Base.DataDir, daemon.StoreFile)) {
		return usageError("FILE is the store itself", "give a backup another name, best on another disk")
	}
	r, err := store.ReceiveBackup(ctx, c.File, c.Force, verifyFile, func(w io.Writer) error {
		return copyStore(ctx, config.Base, w, filepath.Dir(c.File))
	})
	if err != nil {
		sayOfStore(err, config.Base)
		return backupError(err, c.File)
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(r)
	}
	_, err = fmt.Fprintf(p.stdout, "%s holds store %s, verified: %s\n", c.File, r.StoreID, reportText(r))
	return err
}

// same says whether two paths are one file.
func same(a, b string) bool {
	one, err := os.Stat(a)
	two, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, two)
}

func backupError(err error, path string) error {
	var known *exitError
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrExist):
		return failed(fmt.Errorf("%s is there already", path), "give another name, or replace it with --force")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return ioError(err, "give a file in a directory that is there and may be written")
	}
	return ioError(err, "no backup was made; look at the disk of "+filepath.Dir(path))
}

// copyStore writes a copy of the store to w, which stands in a directory.
func copyStore(ctx context.Context, b Base, w io.Writer, dir string) error {
	room := func(bytes int64) error { return needSpace(dir, bytes) }
	err := b.client().Backup(ctx, w, room)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return err
	}
	kept, err := readStopped(b, true)
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
	if free, known := freeSpace(dir); known && free < bytes+leastSpace {
		return ioError(fmt.Errorf("%s has %s free; a copy takes %s, and %s have to be left", dir, ops.BytesText(free), ops.BytesText(bytes), ops.BytesText(leastSpace)), "make space there, or choose another disk")
	}
	return nil
}

// openStopped opens the store of a daemon that does not run. It never makes a new one.
func openStopped(b Base) (*store.Store, error) {
	_, err := os.Stat(filepath.Join(b.DataDir, daemon.StoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, stoppedError(err, b.DataDir)
	}
	s, err := store.Open(store.Options{Dir: b.DataDir, Check: soundFile})
	return s, stoppedError(err, b.DataDir)
}

// readStopped opens it without touching it; restored accepts a backup that no start has accepted.
func readStopped(b Base, restored bool) (*store.Store, error) {
	s, err := store.OpenReadOnly(store.Options{Dir: b.DataDir, Restored: restored})
	return s, stoppedError(err, b.DataDir)
}

// stoppedError is storeError of a command that has found no daemon: one that holds the store hangs.
func stoppedError(err error, dir string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return failed(fmt.Errorf("no daemon answers, and there is no store in %s", dir), "set DOORBELL_DATA_DIR to the data directory of the daemon")
	case errors.As(err, new(*store.LockedError)):
		return unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), adviceOnHolder)
	}
	return storeError(err, dir)
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
		return configError(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), letWrite(dir))
	}
	return ioError(err, fmt.Sprintf("look at %s and at the space on its disk", dir))
}

// letWrite says what to do about a data directory in which doorbell may not read or write.
func letWrite(dir string) string {
	for _, path := range []string{dir, filepath.Join(dir, daemon.StoreFile), filepath.Join(dir, daemon.StreamFolder)} {
		if info, err := os.Stat(path); err == nil && !mayWrite(path) {
			return fmt.Sprintf("%s has mode %04o, and doorbell runs as user %d: let that user read and write it, as with chmod -R u+rwX %s or "+
				"chown -R %[3]d %[4]s, or choose another directory", path, info.Mode().Perm(), os.Getuid(), dir)
		}
	}
	return fmt.Sprintf("let the user that runs doorbell write to %s, or choose another directory", dir)
}

// client asks the daemon in the data directory, if one runs.
func (b Base) client() *ops.Client { return ops.NewClient(filepath.Join(b.DataDir, daemon.SocketFile)) }

// Run gives back space that the store does not use.
func (c *CompactCmd) Run(ctx context.Context, p *program) error {
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	dir := config.Base.DataDir
	done, err := store.Compact(ctx, store.Options{Dir: dir, Check: soundFile}, verifyFile, func(bytes int64) error { return needSpace(dir, bytes) })
	var locked *store.LockedError
	switch {
	case errors.As(err, &locked):
		return failed(err, "stop the daemon first: its store cannot be replaced while it is open")
	case errors.Is(err, fs.ErrNotExist):
		return failed(fmt.Errorf("there is no store in %s", dir), "set DOORBELL_DATA_DIR to the data directory of the daemon")
	case err != nil:
		return asStoreError(err, dir)
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(done)
	}
	_, err = fmt.Fprintf(p.stdout, "%s takes %s; it took %s\n", filepath.Join(dir, daemon.StoreFile), ops.BytesText(done.After), ops.BytesText(done.Before))
	return err
}
