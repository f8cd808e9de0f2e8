package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/receivers"
)

// CheckCmd is `doorbell check`.
type CheckCmd struct {
	JSON       bool   `name:"json" help:"Print JSON." xor:"what"`
	APIKeyFile string `name:"api-key-file" type:"path" placeholder:"FILE" help:"Test the key in this file on every agency before it replaces the configured one; check nothing else." xor:"what"`
	Shape      string `type:"path" placeholder:"FILE" help:"Write the form of real responses into this file, without any value of them; check nothing else." xor:"what"`
}

func (CheckCmd) Help() string {
	return "Changes nothing. Beside a running daemon it begins at most one request a second.\n\n" +
		"Exit codes: 0 run would work (warnings allowed), 78 and 74 it would end with that, 1 something\n" +
		"else would not work.\n\n69: the daemon holds the store and does not answer.\n\nExamples:\n" +
		"  doorbell check\n  doorbell check --api-key-file /run/secrets/new-key\n  doorbell check --shape shape.json"
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
			return err
		}
	case cmd.JSON:
		r = check.Refused(err)
	default:
		p.warn(cfg.Warnings)
		return err
	}
	if cmd.JSON {
		return cmp.Or(p.printJSON(r), r.Err())
	}
	return cmp.Or(r.WriteText(p.stdout, p.terminalOf(p.stdout).TextOptions), r.Err())
}

// key tests another key on the configured agencies.
func (cmd *CheckCmd) key(ctx context.Context, p *program, cfg *config.Config) error {
	other, err := cfg.WithKeyFile(cmd.APIKeyFile)
	if err != nil {
		return err
	}
	refused, err := check.Key(ctx, check.Options{Config: other, Version: release, Progress: p.stderr}, p.stdout)
	if err == nil && refused > 0 {
		return exit.Failed(fmt.Errorf("the key in %s does not open %s", cmd.APIKeyFile, ops.Counted(refused, "agency")),
			"leave the configured key in place, and ask the provider's account manager")
	}
	return err
}

// shape writes the form of real responses into a file that can be handed on.
func (cmd *CheckCmd) shape(ctx context.Context, p *program, cfg *config.Config) error {
	f, err := check.Shape(ctx, check.Options{Config: cfg, Version: release, Progress: p.stderr})
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := cmp.Or(f.Write(&text), os.WriteFile(cmd.Shape, text.Bytes(), 0o600)); err != nil {
		return exit.IO(err, "choose another file")
	}
	return p.print(fmt.Sprintf("The form of %s is in %s. It holds no value of a response; read it before you hand it on.",
		ops.Counted(len(f.Responses), "response"), cmd.Shape))
}

// ConfigCmd is `doorbell config`.
type ConfigCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (ConfigCmd) Help() string {
	return "Secrets are shown as fingerprints. Exits with 78 if `doorbell run` would refuse the configuration.\n\nExample:\n  doorbell config"
}

// Run prints what is in effect, also when it is not good enough to run; then the problems follow as
// the error.
func (c *ConfigCmd) Run(_ context.Context, p *program) error {
	cfg, err := config.Read(p.environ, config.GroupPoll, config.GroupForward)
	if err == nil {
		_, err = receivers.Open(cfg, release)
	}
	p.warn(cfg.Warnings)
	if c.JSON {
		return cmp.Or(p.printJSON(cfg.Settings), err)
	}
	rows := []string{"VARIABLE\tVALUE\tSOURCE"}
	for _, s := range cfg.Settings {
		rows = append(rows, s.Name+"\t"+cmp.Or(ops.Printable(s.Value), "-")+"\t"+s.Source)
	}
	return cmp.Or(p.printTable(rows), err)
}
