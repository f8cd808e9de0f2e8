package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/shape"
)

// shape writes the form of real responses into a file that can be handed on.
func (cmd *CheckCmd) shape(ctx context.Context, p *program, cfg *config.Config) error {
	f, err := check.Shape(ctx, check.Options{Config: cfg, Version: release, Progress: p.stderr})
	if err != nil {
		return err
	}
	if err := writeShape(cmd.Shape, f); err != nil {
		return exit.IO(err, "choose another file")
	}
	_, err = fmt.Fprintf(p.stdout, "The form of %s is in %s. It holds no value of a response; read it before you hand it on.\n",
		ops.Counted(len(f.Responses), "response"), cmd.Shape)
	return err
}

// writeShape replaces a file by one that only its owner can read, whole or not at all.
func writeShape(path string, f shape.File) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".shape-*") // has mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	err = f.Write(file)
	if err := firstError(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
