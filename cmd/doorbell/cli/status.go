package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/options"
)

// StatusCmd is `doorbell status`.
type StatusCmd struct {
	JSON  bool `name:"json" help:"Print JSON."`
	Check bool `help:"Exit with 1 unless the headline is \"All is well\", or if no daemon runs."`
}

func (StatusCmd) Help() string {
	return "Asks the daemon over its socket, and exits with 1 if none runs. Each problem is shown with the command " +
		"that solves it. Agencies that need attention come first.\n\nExamples:\n  doorbell status\n  doorbell status --check || echo look at it\n" +
		"  watch doorbell status"
}

func (c *StatusCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	s, err := options.Client(cfg.Base).Status(ctx)
	if err != nil {
		return daemonError(err, cfg.Base)
	}
	if c.JSON {
		err = json.NewEncoder(p.stdout).Encode(s)
	} else {
		_, err = fmt.Fprintln(p.stdout, strings.Join(s.Lines(p.terminalOf(p.stdout).TextOptions), "\n"))
	}
	if err == nil && c.Check && s.Summary() != "" {
		err = exit.Failed(errors.New(s.Summary()), "doorbell status shows the details, and the commands that help")
	}
	return err
}
