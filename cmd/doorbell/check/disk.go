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
	b := c.config.Base
	dir := filepath.Clean(b.DataDir)
	if err := ops.CheckPath(filepath.Join(dir, daemon.SocketFile)); err != nil {
		c.report.refuse(SectionDisk,
			exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "set it to a shorter path"))
		return
	}
	nearest := dir // or what of its parents exists
	for nearest != filepath.Dir(nearest) {
		if _, err := os.Stat(nearest); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		nearest = filepath.Dir(nearest)
	}
	if info, err := os.Stat(nearest); err != nil || !info.IsDir() || !exit.MayWrite(nearest) {
		c.report.refuse(SectionDisk,
			exit.Config(fmt.Errorf("DOORBELL_DATA_DIR: %s is not writable", nearest),
				exit.LetWrite(dir)))
		return
	}
	free, known := exit.FreeSpace(nearest)
	if !known {
		c.report.ok(SectionDisk, "%s is writable", dir)
		return
	}
	wanted := int64(b.StoreMax)
	if c.config.NATS.URL == "" {
		wanted += int64(b.StreamMax)
	}
	text := fmt.Sprintf("%s is writable; %s free, and store and stream may use %s in all",
		dir, ops.BytesText(free), ops.BytesText(wanted))
	switch {
	case free < exit.LeastSpace:
		c.report.fail(SectionDisk, text, "free some space on the disk of "+dir)
	case free < wanted:
		c.report.warn(SectionDisk, text,
			"doorbell exits on a full disk: lower DOORBELL_STORE_MAX and DOORBELL_STREAM_MAX, "+
				"or put DOORBELL_DATA_DIR on a larger disk")
	default:
		c.report.ok(SectionDisk, "%s", text)
	}
}
