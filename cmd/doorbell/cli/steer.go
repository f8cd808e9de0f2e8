package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/poller"
)

// OneAgency is the arguments of a command about one agency.
type OneAgency struct {
	Agency string `arg:"" help:"Id of the agency."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

func (c *OneAgency) Validate() error { return validAgency("AGENCY", c.Agency) }

// ask asks the daemon of the data directory. Without one it says whether it hangs or does not run.
func ask[Q, A any](ctx context.Context, b config.Base, v ops.Verb[Q, A], q Q) (A, error) {
	a, err := v.Ask(ctx, options.Client(b), q)
	return a, daemonError(err, b)
}

func daemonError(err error, b config.Base) error {
	if !errors.Is(err, ops.ErrNoAnswer) {
		return err
	}
	kept, err := readStopped(b)
	if err != nil {
		return err
	}
	return errors.Join(
		exit.Failed(errors.New("no daemon is running"), "start it with doorbell run"),
		kept.Close())
}

// PollCmd is `doorbell poll`.
type PollCmd struct {
	OneAgency
	Reference string `arg:"" optional:"" help:"Poll this insertion next."`
}

// Run has the daemon poll an agency now.
func (c *PollCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	done, err := ask(ctx, cfg.Base, ops.Poll,
		ops.AgencyRequest{AgencyID: c.Agency, PropertyReferenceID: c.Reference})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s is being walked now; insertions to be polled next: %d", c.Agency,
		done.Insertions)
	switch {
	case done.Waits == poller.WaitsPoll:
		text = fmt.Sprintf("%q of %s will be polled next", c.Reference, c.Agency)
	case c.Reference != "":
		text = fmt.Sprintf(
			"%s is being walked now: %q is not among its insertions, and will be polled if the walk finds it",
			c.Agency, c.Reference)
	}
	return p.result(c.JSON, done, text)
}

// ResumeCmd is `doorbell resume`.
type ResumeCmd struct {
	Agency    string `arg:"" optional:"" help:"Agency to poll again."`
	All       bool   `help:"End the halts of all agencies."`
	Insertion string `placeholder:"REFERENCE" help:"End only the halt of this insertion."`
	JSON      bool   `name:"json" help:"Print JSON."`
}

func (c *ResumeCmd) Validate() error {
	switch {
	case c.All && (c.Agency != "" || c.Insertion != ""):
		return errors.New("--all is for all agencies: leave out AGENCY and --insertion")
	case c.Agency == "" && !c.All:
		return errors.New("AGENCY: name the agency, or write --all")
	}
	return validAgency("AGENCY", c.Agency)
}

// Run ends halts.
func (c *ResumeCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	what := c.Agency
	if c.Insertion != "" {
		what += fmt.Sprintf(" %q", c.Insertion)
	}
	if c.All {
		c.Agency, what = poller.AllAgencies, "every agency"
	}
	done, err := ask(ctx, cfg.Base, ops.Resume,
		ops.AgencyRequest{AgencyID: c.Agency, PropertyReferenceID: c.Insertion})
	if err != nil {
		return err
	}
	text := what + " is not halted"
	switch {
	case done.Ended > 0:
		text = what + " is polled again; " + ops.Counted(done.Ended, "halt") +
			" ended. doorbell status shows in a moment whether the API accepts it"
	case c.All:
		text = "no agency is halted"
	}
	return p.result(c.JSON, done, text)
}

// ApproveCmd is `doorbell approve`.
type ApproveCmd struct{ OneAgency }

// Run approves a held change.
func (c *ApproveCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	done, err := ask(ctx, cfg.Base, ops.Approve, ops.AgencyRequest{AgencyID: c.Agency})
	if err != nil {
		return err
	}
	text := "nothing is held for " + c.Agency
	if done.Held {
		text = "the change of " + c.Agency +
			" will be announced by the next complete walk or poll that still shows it"
	}
	return p.result(c.JSON, done, text)
}

// StatusCmd is `doorbell status`.
type StatusCmd struct {
	JSON  bool `name:"json" help:"Print JSON."`
	Check bool `help:"Exit with 1 unless the headline is \"All is well\", or if no daemon runs."`
}

func (c *StatusCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	s, err := options.Client(cfg.Base).Status(ctx)
	if err != nil {
		return daemonError(err, cfg.Base)
	}
	if c.JSON {
		err = p.printJSON(s)
	} else { // with colors
		_, err = io.WriteString(p.stdout, s.Render(p.terminalOf(p.stdout).TextOptions))
	}
	if err == nil && c.Check && s.Summary() != "" {
		err = exit.Failed(errors.New(s.Summary()),
			"doorbell status shows the details, and the commands that help")
	}
	return err
}

// ReportCmd is `doorbell report`.
type ReportCmd struct {
	Since Moment `default:"7d" placeholder:"MOMENT" help:"Begin at this moment: 2026-11-20T09:00:00Z, or 12h or 7d for that long ago. Default 7d."`
	JSON  bool   `name:"json" xor:"form" help:"Print JSON."`
	CSV   bool   `name:"csv" xor:"form" help:"Print CSV for a spreadsheet, with every listing."`
}

func (c *ReportCmd) Validate() error { return validSince(c.Since) }

func (c *ReportCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	r, err := ask(ctx, cfg.Base, ops.Report, ops.ReportRequest{Since: time.Time(c.Since)})
	if err == nil && c.CSV {
		return r.WriteCSV(p.stdout)
	}
	if err != nil {
		return err
	}
	return p.result(c.JSON, r, r.Text())
}
