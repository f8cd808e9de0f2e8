package cli

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
)

// ReportCmd is `doorbell report`.
type ReportCmd struct {
	Since Moment `default:"7d" placeholder:"MOMENT" help:"Begin at this moment: 2026-11-20T09:00:00Z, or 12h or 7d for that long ago. Default 7d."`
	JSON  bool   `name:"json" help:"Print JSON."`
	CSV   bool   `name:"csv" help:"Print CSV for a spreadsheet, with every listing."`
}

func (ReportCmd) Help() string {
	return "Counts for each agency and listing the leads that were seen, published and delivered; and says how long they took, which listings " +
		"had none, when leads may not have been seen, and what a receiver rejected. It names no person. Delivered is what every receiver of this " +
		"daemon accepted. Needs a running daemon.\n\nExamples:\n  doorbell report\n  doorbell report --since 30d --csv > leads.csv"
}

func (c *ReportCmd) Validate() error {
	if c.JSON && c.CSV {
		return errJSONAndCSV
	}
	return nil
}

func (c *ReportCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	since := c.Since.Time(time.Now())
	if since.After(time.Now()) {
		return exit.Usage("--since: lies in the future", "write a moment like 2026-11-20T09:00:00Z, or 12h or 7d for that long ago")
	}
	r, err := ops.Report.Ask(ctx, options.Client(cfg.Base), ops.ReportRequest{Since: since})
	switch {
	case err != nil:
		return daemonError(err, cfg.Base)
	case c.JSON:
		return json.NewEncoder(p.stdout).Encode(r)
	case c.CSV:
		return r.WriteCSV(p.stdout)
	}
	_, err = io.WriteString(p.stdout, r.Text())
	return err
}
