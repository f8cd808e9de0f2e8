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
	JSON       bool   `name:"json" help:"Print JSON." xor:"form"`
	APIKeyFile string `name:"api-key-file" type:"path" placeholder:"FILE" help:"Test the key in this file against every agency before it replaces the configured one; check nothing else." xor:"only"`
	Shape      string `type:"path" placeholder:"FILE" help:"Write the form of real responses to this file, without any of their values; check nothing else." xor:"only,form"`
}

// Run says whether `doorbell run` would work, with this configuration, here and now, or only
// whether another key would. It leaves nothing behind.
func (cmd *CheckCmd) Run(ctx context.Context, p *program) error {
	cfg, err := config.Read(p.environ, config.GroupPoll, config.GroupForward)
	run := check.Run
	p.warn(cfg.Warnings)
	if cmd.APIKeyFile != "" && err == nil {
		cfg, err = cfg.WithKeyFile(cmd.APIKeyFile)
		run = check.Key
	}
	if cmd.Shape != "" && err == nil {
		return cmd.shape(ctx, p, cfg)
	}
	if err != nil && !cmd.JSON {
		return err
	}
	r := check.Refused(err)
	if err == nil {
		if r, err = run(ctx, cfg, release); err != nil {
			return err
		}
	}
	if cmd.JSON {
		return cmp.Or(p.printJSON(r), r.Err())
	}
	return cmp.Or(r.WriteText(p.stdout, p.terminalOf(p.stdout).TextOptions), r.Err())
}

// shape writes the form of real responses into a file that can be handed on.
func (cmd *CheckCmd) shape(ctx context.Context, p *program, cfg *config.Config) error {
	f, err := check.Shape(ctx, cfg, release)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := cmp.Or(f.Write(&text), os.WriteFile(cmd.Shape, text.Bytes(), 0o600)); err != nil {
		return exit.IO(err, "choose another file")
	}
	return p.print(fmt.Sprintf(
		"The form of %s is in %s. It holds no value of a response; read it before you pass it on.",
		ops.Counted(len(f.Responses), "response"), cmd.Shape))
}

// ConfigCmd is `doorbell config`.
type ConfigCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints what is in effect, also when it is not good enough to run; then the problems follow as
// the error.
func (c *ConfigCmd) Run(_ context.Context, p *program) error {
	cfg, err := config.Read(p.environ, config.GroupPoll, config.GroupForward)
	if err == nil {
		_, err = receivers.Open(cfg, release)
	}
	p.warn(cfg.Warnings)
	var rows [][]string
	for _, s := range cfg.Settings {
		rows = append(rows, []string{s.Name, s.Value, s.Source})
	}
	return cmp.Or(p.result(c.JSON, cfg.Settings, table("", "VARIABLE|VALUE|SOURCE", rows)), err)
}
