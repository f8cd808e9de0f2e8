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

// disk looks at the data directory: can it be made and written, and is there space for what may
// come.
func (c *checker) disk() {
	dir := filepath.Clean(c.Config.Base.DataDir)
	if err := ops.CheckPath(filepath.Join(dir, daemon.SocketFile)); err != nil {
		c.report.refuse(SectionDisk, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "set DOORBELL_DATA_DIR to a shorter path"))
		return
	}
	nearest := dir // or what of its parents exists
	info, err := os.Stat(nearest)
	for errors.Is(err, fs.ErrNotExist) && nearest != filepath.Dir(nearest) {
		nearest = filepath.Dir(nearest)
		info, err = os.Stat(nearest)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", nearest)
	}
	for _, path := range []string{nearest, filepath.Join(dir, daemon.StreamFolder), filepath.Join(dir, daemon.StoreFile)} {
		if _, missing := os.Stat(path); err == nil && missing == nil && !exit.MayWrite(path) {
			err = fmt.Errorf("%s may not be written", path)
		}
	}
	free, known := exit.FreeSpace(nearest)
	var unmade error
	if nearest != dir && !known {
		unmade = mayBeMade(nearest)
	}
	switch {
	case err != nil:
		c.report.refuse(SectionDisk, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), exit.LetWrite(dir)))
		return
	case unmade != nil:
		c.report.refuse(SectionDisk, exit.Store(fmt.Errorf("%s: %w", dir, unmade), dir))
		return
	case nearest == dir:
		c.report.ok(SectionDisk, "%s can be written", dir)
	default:
		c.report.ok(SectionDisk, "%s is not there yet; run makes it", dir)
	}
	if known {
		c.space(free)
	}
}

// mayBeMade tries to make a directory where there is no disk: /proc is writable by its mode, and
// takes none.
func mayBeMade(parent string) error {
	probe, err := os.MkdirTemp(parent, "doorbell-check-")
	if err != nil {
		return errors.Unwrap(err) // without its name
	}
	return os.Remove(probe)
}

// space holds what is free against what store and embedded stream may still grow by.
func (c *checker) space(free int64) {
	b := c.Config.Base
	wanted := int64(b.StoreMax) - size(filepath.Join(b.DataDir, daemon.StoreFile))
	what := "DOORBELL_STORE_MAX"
	if c.Config.NATS.URL == "" {
		wanted = max(0, wanted) + int64(b.StreamMax) - size(filepath.Join(b.DataDir, daemon.StreamFolder))
		what += " and DOORBELL_STREAM_MAX"
	}
	text := fmt.Sprintf("%s free; %s may take %s more", ops.BytesText(free), what, ops.BytesText(max(0, wanted)))
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
