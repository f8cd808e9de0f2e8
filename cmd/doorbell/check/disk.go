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
	switch {
	case err != nil:
	case !info.IsDir():
		err = fmt.Errorf("%s is not a directory", nearest)
	case !exit.MayWrite(nearest):
		err = fmt.Errorf("%s may not be written", nearest)
	}
	if err != nil {
		c.report.refuse(SectionDisk, exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), exit.LetWrite(dir)))
		return
	}
	free, known := exit.FreeSpace(nearest)
	if nearest != dir && !known { // /proc may be written by its mode, and takes no directory
		probe, err := os.MkdirTemp(nearest, "doorbell-check-")
		if err != nil {
			c.report.refuse(SectionDisk, exit.Store(fmt.Errorf("%s: %w", dir, errors.Unwrap(err)), dir))
			return
		}
		_ = os.Remove(probe)
	}
	if nearest == dir {
		c.report.ok(SectionDisk, "%s can be written", dir)
	} else {
		c.report.ok(SectionDisk, "%s is not there yet; run makes it", dir)
	}
	if known {
		c.space(free)
	}
}

// space compares what is free with what store and embedded stream may still grow by.
func (c *checker) space(free int64) {
	b := c.Config.Base
	wanted, what := int64(b.StoreMax), "DOORBELL_STORE_MAX"
	if c.Config.NATS.URL == "" {
		wanted += int64(b.StreamMax)
		what += " and DOORBELL_STREAM_MAX"
	}
	wanted = max(0, wanted-size(b.DataDir))
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

// size is what all files in a folder take; what cannot be read counts as nothing.
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
