package cli

import (
	"context"
	"errors"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
)

// CheckCmd is `doorbell check`.
type CheckCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (CheckCmd) Help() string {
	return "Reads the configuration of run, asks the API once for every agency and at most seven times more, looks at NATS, disk and clock, " +
		"and changes nothing. Beside a running daemon it sends no requests and shows what the daemon knows.\n\nExit codes: 0 run would work (warnings allowed), 78 it would end with 78, 74 with 74, 1 something else would not work, or the daemon does not, " +
		"69 the daemon holds the store and does not answer.\n\nExample:\n  doorbell check"
}

// Run says whether `doorbell run` would work, with this configuration, here and now. It leaves nothing behind.
func (cmd *CheckCmd) Run(ctx context.Context, p *program) error {
	cfg, err := config.Read(p.environ, config.GroupPoll, config.GroupForward)
	var r *check.Report
	switch {
	case err == nil:
		if r, err = check.Run(ctx, check.Options{Config: cfg, Version: release, Sound: soundFile, Progress: p.stderr}); err != nil {
			return exit.Failed(errors.New("interrupted"), "")
		}
	case cmd.JSON:
		r = check.Refused(err)
	default:
		p.warn(cfg.Warnings)
		return err
	}
	if cmd.JSON {
		return firstError(p.printJSON(r), r.Err())
	}
	return firstError(r.WriteText(p.stdout, p.terminalOf(p.stdout).TextOptions), r.Err())
}
