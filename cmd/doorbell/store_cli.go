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
	"strings"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events/relay"
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

// Run copies.
func (c *BackupCmd) Run(ctx context.Context, p *program) error { return cmdBackup(ctx, p, c) }

// VerifyCmd is `doorbell verify`.
type VerifyCmd struct {
	File string `placeholder:"PATH" help:"Look at this file, a backup for instance, instead of the store in the data directory."`
	JSON bool   `name:"json" help:"Print JSON."`
	streamVerify
}

// Help is printed by --help below the flags.
func (VerifyCmd) Help() string {
	return "Reads every page and every value of the store, then compares the event log with the stream from end to end; changes nothing without " +
		"--repair. Beside a running daemon it looks at a copy, which it makes in the data directory and removes.\n\n" +
		"Exit codes: 0 sound, 1 log and stream differ, 74 damaged, 78 of a newer doorbell or not the store that belongs there.\n\n" +
		"Examples:\n  doorbell verify\n  doorbell verify --file /backup/doorbell.db"
}

// Validate refuses to repair what has no stream.
func (c *VerifyCmd) Validate() error {
	switch {
	case c.File != "" && (c.Repair || c.Yes):
		return errors.New("--repair: is about the stream, and --file about a file alone")
	case c.Yes && !c.Repair:
		return errors.New("--yes: needs --repair")
	}
	return nil
}

// Run verifies.
func (c *VerifyCmd) Run(ctx context.Context, p *program) error { return cmdVerify(ctx, p, c) }

// CompactCmd is `doorbell compact`.
type CompactCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (CompactCmd) Help() string {
	return "Needs the daemon stopped, and space for a second file. Trimmed events leave space in the file that is used again; this gives it back.\n\nExample:\n  doorbell compact"
}

// Run compacts.
func (c *CompactCmd) Run(ctx context.Context, p *program) error { return cmdCompact(ctx, p, c) }

// cmdBackup copies the store into a file, through the daemon or, if none runs, from the data directory.
func cmdBackup(ctx context.Context, p *program, c *BackupCmd) error {
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
	err := ops.NewClient(filepath.Join(b.DataDir, daemon.SocketFile)).Backup(ctx, w, room)
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
	if free, known := freeSpace(dir); known && free < bytes+leastSpace {
		return ioError(fmt.Errorf("%s has %s free; a copy takes %s, and %s have to be left", dir, bytesText(free), bytesText(bytes), bytesText(leastSpace)), "make space there, or choose another disk")
	}
	return nil
}

// readStopped opens the store of a daemon that does not run, without touching it.
func readStopped(b Base) (*store.Store, error) {
	s, err := store.OpenReadOnly(store.Options{Dir: b.DataDir, Restored: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failed(fmt.Errorf("no daemon answers, and there is no store in %s", b.DataDir), "set DOORBELL_DATA_DIR to the data directory of the daemon")
	}
	if err != nil {
		return nil, stoppedError(err, b.DataDir)
	}
	return s, nil
}

// stoppedError is storeError, where a store that is locked belongs to a daemon that hangs.
func stoppedError(err error, dir string) error {
	var locked *store.LockedError
	if errors.As(err, &locked) {
		return unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), adviceOnHolder)
	}
	return storeError(err, dir)
}

// cmdVerify says whether a store is sound.
func cmdVerify(ctx context.Context, p *program, c *VerifyCmd) error {
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	found := verified{}
	err = found.look(ctx, p, config, c)
	if c.JSON && found.Store != nil {
		return firstError(p.printJSON(found), err)
	}
	return err
}

// verified is what `verify --json` prints.
type verified struct {
	Store *store.Report `json:"store"`
	// Stream has an entry for each agency; null: it was not looked at.
	Stream []relay.Comparison `json:"stream"`
}

// look verifies the store, and the stream if that is sound. The error says what is not.
func (v *verified) look(ctx context.Context, p *program, config *Config, c *VerifyCmd) error {
	r, err := verifyStore(ctx, config.Base, c.File)
	if err != nil {
		return err
	}
	v.Store = &r
	if !c.JSON {
		if err := printReport(p.stdout, r); err != nil {
			return err
		}
	}
	if n := len(r.Findings) + r.More; n > 0 {
		return ioError(fmt.Errorf("%s is damaged: %s", r.Path, ops.Counted(n, "finding")), adviceOn(c.File))
	}
	if c.File != "" {
		return nil
	}
	v.Stream, err = verifyStream(ctx, p, config, c.streamVerify, c.JSON)
	return err
}

// adviceOn says what to do about damage of the store, or of another file.
func adviceOn(file string) string {
	if file == "" {
		return adviceOnDamage
	}
	return "do not start from this file: take another backup, which `doorbell verify --file` calls sound"
}

func verifyStore(ctx context.Context, b Base, file string) (store.Report, error) {
	if file != "" {
		r, err := verifyFile(ctx, file)
		var locked *store.LockedError
		if errors.As(err, &locked) {
			return r, unavailable(err, "leave out --file to look at the store of the daemon that holds it")
		}
		if errors.Is(err, fs.ErrNotExist) {
			return r, failed(err, "")
		}
		if errors.Is(err, store.ErrDamaged) {
			return r, ioError(errors.New(err.Error()), adviceOn(file)) // not that of the store
		}
		return r, asStoreError(err, filepath.Dir(file))
	}
	r, err := verifyCopy(ctx, b)
	if !errors.Is(err, ops.ErrNoAnswer) {
		return r, asStoreError(err, b.DataDir)
	}
	r, err = verifyFile(ctx, filepath.Join(b.DataDir, daemon.StoreFile))
	if err == nil && len(r.Findings) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, asStoreError(err, b.DataDir)
	}
	kept, err := readStopped(b) // says what does not belong here
	if err != nil {
		return r, err
	}
	return r, kept.Close()
}

func asStoreError(err error, dir string) error {
	var known *exitError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return stoppedError(err, dir)
}

// sayOfStore lets damage of a copy be that of the store that was copied: the copy is gone.
func sayOfStore(err error, b Base) {
	var damage *store.DamagedError
	if errors.As(err, &damage) {
		damage.Path = filepath.Join(b.DataDir, daemon.StoreFile)
	}
}

// verifyCopy looks at a copy of the store that the daemon has open: others go on to write.
func verifyCopy(ctx context.Context, b Base) (r store.Report, err error) {
	client := ops.NewClient(filepath.Join(b.DataDir, daemon.SocketFile))
	if _, err := client.Status(ctx); err != nil {
		return r, err
	}
	dir, done, err := store.Scratch(b.DataDir)
	if err != nil {
		return r, err
	}
	defer done()
	r, err = store.ReceiveBackup(ctx, filepath.Join(dir, daemon.StoreFile), false, verifyFile, func(w io.Writer) error {
		return client.Backup(ctx, w, func(bytes int64) error { return needSpace(b.DataDir, bytes) })
	})
	if errors.Is(err, ops.ErrNoAnswer) {
		err = errors.New("the daemon stopped meanwhile") // and not: none runs
	}
	r.Path, r.Copied = filepath.Join(b.DataDir, daemon.StoreFile), time.Time{}
	sayOfStore(err, b)
	if len(r.Findings) > 0 {
		return r, nil
	}
	return r, err
}

func printReport(w io.Writer, r store.Report) error {
	for _, f := range r.Findings {
		fmt.Fprintln(w, printable(f))
	}
	if r.More > 0 {
		fmt.Fprintf(w, "and %d more\n", r.More)
	}
	if r.Torn {
		fmt.Fprintln(w, "one of the two heads of the file is unreadable: the last commit may be missing, as after a power failure; run goes on from the commit before")
	}
	what := "is sound"
	if len(r.Findings) > 0 {
		what = "is damaged"
	}
	_, err := fmt.Fprintf(w, "%s, store %s of %s, %s: %s\n", r.Path, r.StoreID, r.BaseURL, what, reportText(r))
	return err
}

func reportText(r store.Report) string {
	return strings.Join([]string{
		ops.Counted(r.Agencies, "agency"), ops.Counted(r.Insertions, "insertion"), ops.Counted(r.ContactRequests, "contact request"),
		ops.Counted(r.Events, "event"), bytesText(r.Bytes),
	}, ", ")
}

// cmdCompact gives back space that the store does not use.
func cmdCompact(ctx context.Context, p *program, c *CompactCmd) error {
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
	_, err = fmt.Fprintf(p.stdout, "%s takes %s; it took %s\n", filepath.Join(dir, daemon.StoreFile), bytesText(done.After), bytesText(done.Before))
	return err
}
