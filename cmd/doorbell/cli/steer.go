package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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

// printResult prints the result of a command: an object for programs, a sentence for people.
func (p *program) printResult(asJSON bool, object any, sentence string, args ...any) error {
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(object)
	}
	return p.print(fmt.Sprintf(sentence+"\n", args...))
}

// PollCmd is `doorbell poll`.
type PollCmd struct {
	OneAgency
	Reference string `arg:"" optional:"" help:"Reference of the only insertion to poll."`
}

func (PollCmd) Help() string {
	return "The daemon walks the agency's list now and polls its insertions next, within the budget: at most as many as " +
		"the budget allows in a minute. With a reference it polls that insertion before anything else; a reference that it " +
		"does not know starts a walk, once a minute at most. The command does not wait for the polls.\n\n" +
		"Examples:\n  doorbell poll A100\n  doorbell poll A100 'seefeld#1203#H2#0305'"
}

// Run has the daemon poll an agency now.
func (c *PollCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	done, err := ops.Poll.Ask(ctx, options.Client(cfg.Base), ops.AgencyRequest{AgencyID: c.Agency, PropertyReferenceID: c.Reference})
	if err != nil {
		return daemonError(err, cfg.Base)
	}
	return p.printResult(c.JSON, done, "%s", polledNow(c.Agency, c.Reference, done))
}

func polledNow(agencyID, reference string, done poller.PolledNow) string {
	switch {
	case done.Waits == poller.WaitsPoll:
		return fmt.Sprintf("%q of %s is polled next", reference, agencyID)
	case reference != "":
		return fmt.Sprintf("%s is walked now: %q is not among its insertions, and is polled when the walk finds it", agencyID, reference)
	case done.Of == 0:
		return agencyID + " is walked now; no insertion of it is known yet"
	case done.Insertions < done.Of:
		return fmt.Sprintf("%s is walked now; %d of its %d insertions, those that have waited the longest, are polled next",
			agencyID, done.Insertions, done.Of)
	}
	return fmt.Sprintf("%s is walked now; insertions that are polled next: %d", agencyID, done.Of)
}

// daemonError explains why a verb failed: no daemon runs, or it hangs, or it refused.
func daemonError(err error, b config.Base) error {
	switch {
	case errors.Is(err, poller.ErrUnknownAgency):
		return exit.Failed(err, "doorbell status lists the agencies; upper and lower case differ")
	case errors.Is(err, poller.ErrHalted):
		return exit.Failed(err, "doorbell status says why, and what ends it")
	case !errors.Is(err, ops.ErrNoAnswer):
		return err
	}
	kept, err := readStopped(b)
	if err != nil {
		return err
	}
	return errors.Join(exit.Failed(errors.New("no daemon runs"), "start it with doorbell run"), kept.Close())
}

// ResumeCmd is `doorbell resume`.
type ResumeCmd struct {
	Agency    string `arg:"" optional:"" help:"Agency to poll again."`
	All       bool   `help:"End the halts of all agencies."`
	Insertion string `placeholder:"REFERENCE" help:"End only the halt of this insertion."`
	JSON      bool   `name:"json" help:"Print JSON."`
}

func (ResumeCmd) Help() string {
	return "Make sure that the key is right first: a refusal halts the agency again.\n\nExamples:\n  doorbell resume A100\n  doorbell resume --all"
}

func (c *ResumeCmd) Validate() error {
	switch {
	case c.All && (c.Agency != "" || c.Insertion != ""):
		return errors.New("--all is for all agencies: leave AGENCY and --insertion out")
	case c.Agency == "" && !c.All:
		return errors.New("AGENCY: name the agency, or write --all")
	}
	return validAgency("AGENCY", c.Agency)
}

// Run ends halts.
func (c *ResumeCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	if c.All {
		c.Agency = poller.AllAgencies
	}
	done, err := ops.Resume.Ask(ctx, options.Client(cfg.Base),
		ops.AgencyRequest{AgencyID: c.Agency, PropertyReferenceID: c.Insertion})
	if err != nil {
		return daemonError(err, cfg.Base)
	}
	what, halts := c.Agency, "one halt"
	if c.Insertion != "" {
		what += fmt.Sprintf(" %q", c.Insertion)
	}
	if c.All {
		what = "every agency"
	}
	if done.Ended > 1 {
		halts = fmt.Sprintf("%d halts", done.Ended)
	}
	switch {
	case done.Ended > 0:
		return p.printResult(c.JSON, done,
			"%s is polled again; %s ended. doorbell status shows in a moment whether the API accepts it", what, halts)
	case c.All:
		return p.printResult(c.JSON, done, "no agency is halted")
	}
	return p.printResult(c.JSON, done, "%s is not halted", what)
}

// ApproveCmd is `doorbell approve`.
type ApproveCmd struct{ OneAgency }

func (ApproveCmd) Help() string {
	return "Check the agency's list first: what is missing from it is announced as disappeared, and people who are " +
		"missing as redacted.\n\nExample:\n  doorbell approve A100"
}

// Run approves a held change.
func (c *ApproveCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	done, err := ops.Approve.Ask(ctx, options.Client(cfg.Base), ops.AgencyRequest{AgencyID: c.Agency})
	if err != nil {
		return daemonError(err, cfg.Base)
	}
	sentence := "nothing is held for %s"
	if done.Held {
		sentence = "the change of %s is announced by the next complete walk or poll that still shows it"
	}
	return p.printResult(c.JSON, done, sentence, c.Agency)
}
