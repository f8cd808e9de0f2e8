package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// disk looks at the data directory: can it be made and written, is it ours alone, is there space
// for what may come.
func (c *checker) disk() {
	dir := c.Config.Base.DataDir
	if err := ops.CheckPath(filepath.Join(dir, daemon.SocketFile)); err != nil {
		c.report.refuse(SectionDisk, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "set DOORBELL_DATA_DIR to a shorter path"))
		return
	}
	nearest, info, err := nearestDir(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", nearest)
	}
	if err == nil && !exit.MayWrite(nearest) {
		err = fmt.Errorf("%s may not be written: %w", nearest, fs.ErrPermission)
	}
	if err != nil {
		c.report.refuse(SectionDisk, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), exit.LetWrite(dir)))
		return
	}
	if nearest == filepath.Clean(dir) {
		c.ownersAlone(dir, info)
	} else if err := mayBeMade(nearest); err != nil {
		c.report.refuse(SectionDisk, exit.Store(fmt.Errorf("%s: %w", dir, err), dir))
		return
	} else {
		c.report.ok(SectionDisk, "%s is not there yet; run makes it", dir)
	}
	c.space(nearest)
}

// nearestDir is the directory, or what of its parents exists.
func nearestDir(dir string) (string, fs.FileInfo, error) {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return at, info, err
		}
	}
}

// mayBeMade tries to make a directory where there is no disk: /proc is writable by its mode, and
// takes none.
func mayBeMade(parent string) error {
	if _, disk := exit.FreeSpace(parent); disk {
		return nil
	}
	probe, err := os.MkdirTemp(parent, "doorbell-check-")
	if err != nil {
		return errors.Unwrap(err) // without its name
	}
	return os.Remove(probe)
}

func (c *checker) ownersAlone(dir string, info fs.FileInfo) {
	for _, name := range []string{daemon.StreamFolder, daemon.StoreFile} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil && !exit.MayWrite(path) {
			c.report.refuse(SectionDisk, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %s may not be written", path), exit.LetWrite(dir)))
			return
		}
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		c.report.warn(SectionDisk, fmt.Sprintf("%s may be written by others (mode %04o)", dir, mode), "chmod 700 "+dir)
		return
	}
	c.report.ok(SectionDisk, "%s can be written", dir)
}

// space holds what is free against what store and embedded stream may still grow by.
func (c *checker) space(dir string) {
	b := c.Config.Base
	free, known := exit.FreeSpace(dir)
	if !known {
		c.report.warn(SectionDisk, "how much space is free there is not known", "put DOORBELL_DATA_DIR on a disk")
		return
	}
	wanted := max(0, int64(b.StoreMax)-size(filepath.Join(b.DataDir, daemon.StoreFile)))
	what := "DOORBELL_STORE_MAX"
	if c.Config.NATS.URL == "" {
		wanted += max(0, int64(b.StreamMax)-size(filepath.Join(b.DataDir, daemon.StreamFolder)))
		what += " and DOORBELL_STREAM_MAX"
	}
	text := fmt.Sprintf("%s free; %s may take %s more", ops.BytesText(free), what, ops.BytesText(wanted))
	switch {
	case free < exit.LeastSpace:
		c.report.fail(SectionDisk, text, "make space on the disk of "+b.DataDir)
	case free < wanted:
		c.report.warn(SectionDisk, text, "lower them, or put DOORBELL_DATA_DIR on a larger disk; doorbell ends on a full disk")
	default:
		c.report.ok(SectionDisk, "%s", text)
	}
}

// size is what a file, or all files in a folder, take; what cannot be read counts as nothing.
func size(path string) (n int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
