package main

import (
	"context"
	"encoding/json"

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
	t := p.terminalOf(p.stdout)
	return printLines(p.stdout, s.ClusterLines(ops.TextOptions{Width: t.width, Color: t.color}))
}
