package cli

import (
	"cmp"
	"context"
	"encoding/json"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/receivers"
)

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
	if c.JSON {
		p.warn(cfg.Warnings)
		return firstError(p.printJSON(cfg.Settings), err)
	}
	rows := []string{"VARIABLE\tVALUE\tSOURCE"}
	for _, s := range cfg.Settings {
		rows = append(rows, s.Name+"\t"+cmp.Or(printable(s.Value), "-")+"\t"+printable(s.Source))
	}
	p.warn(cfg.Warnings)
	return firstError(p.printTable("", rows, ""), err)
}

// warn prints sentences about what is odd but not wrong, for commands that have no log.
func (p *program) warn(sentences []string) {
	for _, s := range sentences {
		p.note("doorbell: warning: %s", printable(s))
	}
}

// printJSON prints a value as JSON with indentation.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
