package main

import (
	"context"
	"encoding/json"
	"errors"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
)

// ClusterCmd is `doorbell cluster`.
type ClusterCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (ClusterCmd) Help() string {
	return "What the daemon knows as a member. Each permit is a twelfth of the ceiling of requests; the epoch of an agency counts its claims.\n\n" +
		"Example:\n  doorbell cluster"
}

// ReleaseCmd is `doorbell release`.
type ReleaseCmd struct{ OneAgency }

func (ReleaseCmd) Help() string {
	return "The owner stops polling the agency, publishes what it has found and ends its claim; another member claims it within seconds. For an hour the " +
		"owner leaves it to others, as long as there are any.\n\nExample:\n  doorbell release A100"
}

// Run tells the owner, through the daemon.
func (c *ReleaseCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	answer, err := ops.Release.Ask(ctx, options.Client(cfg.Base), ops.AgencyRequest{AgencyID: c.Agency})
	switch {
	case errors.Is(err, ops.ErrNoOther):
		return exit.Failed(err, "doorbell cluster lists the members")
	case err != nil:
		return daemonAnswer(err, cfg.Base)
	case answer.Owner != "":
		return p.answer(c.JSON, answer, "%s is released; member %s owns it now", c.Agency, answer.Owner)
	case answer.Released:
		return p.answer(c.JSON, answer, "%s is released; doorbell cluster shows who claims it", c.Agency)
	}
	return p.answer(c.JSON, answer, "%s is being released; doorbell cluster shows when another member owns it", c.Agency)
}

// Run asks the daemon, whom the others and the stream tell.
func (c *ClusterCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	s, err := options.Client(cfg.Base).Status(ctx)
	switch {
	case err != nil:
		return daemonAnswer(err, cfg.Base)
	case s.Cluster == nil:
		return exit.Failed(ops.ErrAlone, "DOORBELL_CLUSTER is not set; doorbell status shows how it is")
	case c.JSON:
		return json.NewEncoder(p.stdout).Encode(s.Cluster)
	}
	return printLines(p.stdout, s.ClusterLines(p.terminalOf(p.stdout).TextOptions))
}
