package cli

import (
	"context"
	"errors"
	"fmt"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// CheckCmd is `doorbell check`.
type CheckCmd struct {
	JSON       bool   `name:"json" help:"Print JSON." xor:"what"`
	APIKeyFile string `name:"api-key-file" type:"path" placeholder:"FILE" help:"Test the key in this file on every agency before it replaces the configured one; check nothing else." xor:"what"`
	Shape      string `type:"path" placeholder:"FILE" help:"Write the form of real responses into this file, without any value of them; check nothing else." xor:"what"`
}

func (CheckCmd) Help() string {
	return "Reads the configuration of run, requests the list of every agency once and contact requests at most twice, checks NATS and disk, " +
		"and changes nothing. Beside a running daemon it begins at most one request a second.\n\nExit codes: 0 run would work (warnings allowed), 78 it would end with 78, 74 with 74, 1 something else would not work, or the daemon does not, " +
		"69 the daemon holds the store and does not answer.\n\nWith --api-key-file it requests the list of every agency once with that key, beside the requests of a running daemon, and " +
		"exits with 1 if an agency refuses it.\n\nWith --shape it requests each operation once or twice and writes paths, types, lengths and patterns of the responses, so that you can " +
		"show others what the API responds without showing anybody's data. A refusal is written too. `doorbell sandbox --shape` serves made-up responses of that form.\n\nExamples:\n  doorbell check\n  doorbell check --api-key-file /run/secrets/new-key\n  doorbell check --shape shape.json"
}

// Run says whether `doorbell run` would work, with this configuration, here and now. It leaves
// nothing behind.
func (cmd *CheckCmd) Run(ctx context.Context, p *program) error {
	cfg, err := config.Read(p.environ, config.GroupPoll, config.GroupForward)
	if cmd.APIKeyFile != "" || cmd.Shape != "" {
		if err != nil {
			return err
		}
		if cmd.Shape != "" {
			return cmd.shape(ctx, p, cfg)
		}
		return cmd.key(ctx, p, cfg)
	}
	var r *check.Report
	switch {
	case err == nil:
		if r, err = check.Run(ctx, check.Options{Config: cfg, Version: release, Progress: p.stderr}); err != nil {
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

// key tests another key on the configured agencies.
func (cmd *CheckCmd) key(ctx context.Context, p *program, cfg *config.Config) error {
	other, err := config.WithKeyFile(p.environ, cfg, cmd.APIKeyFile)
	if err != nil {
		return err
	}
	refused, err := check.Key(ctx, check.Options{Config: other, Version: release, Progress: p.stderr}, p.stdout)
	switch {
	case ctx.Err() != nil:
		return exit.Failed(errors.New("interrupted"), "")
	case err != nil:
		return err
	case refused > 0:
		return exit.Failed(fmt.Errorf("the key in %s does not open %s", cmd.APIKeyFile, ops.Counted(refused, "agency")),
			"leave the configured key in place, and ask the provider's account manager")
	}
	return nil
}
