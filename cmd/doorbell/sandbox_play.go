package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"doorbell/poller/sandbox"
)

// nextMadeUpKey replaces madeUpKey where a scenario replaces it.
const nextMadeUpKey = "00000000-5a4d-4b0b-8a11-d00fbe110001"

// scenarioSettings are what a client has to set, so that a scenario can be watched in minutes.
var scenarioSettings = map[string]string{
	"key-rotation":  "DOORBELL_API_KEY_NEXT=" + nextMadeUpKey,
	"mass-vanish":   "DOORBELL_HOLD_FOR=2m",
	"monday-upload": "DOORBELL_IGNORE_FIELDS=insertion:/updatedAt",
}

// findScenario returns nil if none is given.
func findScenario(name string) (*sandbox.Scenario, error) {
	if name == "" {
		return nil, nil
	}
	s, ok := sandbox.ScenarioNamed(name)
	if !ok {
		var names []string
		for _, s := range sandbox.Scenarios() {
			names = append(names, s.Name)
		}
		return nil, usageError("--scenario: there is none of this name", "choose one of "+strings.Join(names, ", "))
	}
	return &s, nil
}

// play serves a scenario as it is before it begins, until ctx ends.
func (c *SandboxCmd) play(ctx context.Context, s sandbox.Scenario, rendering *sandbox.Rendering, l net.Listener) madeUp {
	p := s.Open(sandbox.ScenarioOptions{
		Seed: uint64(c.Seed), Key: madeUpKey, NextKey: nextMadeUpKey, Rendering: rendering, Speed: c.Speed, Model: modelOptions(),
	})
	speed := s.Speed
	if c.Speed > 0 {
		speed = c.Speed
	}
	m := madeUp{model: p.Model, url: "http://" + l.Addr().String(), agencies: s.Agencies, play: p, settings: "DOORBELL_REQUESTS_PER_SECOND=50 "}
	if more := scenarioSettings[s.Name]; more != "" {
		m.settings += more + " "
	}
	lasts := time.Duration(float64(s.Lasts) / speed).Round(time.Second)
	m.story = fmt.Sprintf("Scenario %s: %s\nWhat must come out: %s\nIt begins with the first request and takes %s, %g times as fast as in life.\n\n",
		s.Name, s.Description, s.Outcome, lasts, speed)
	go serveUntil(ctx, l, p.Handler)
	return m
}

// tell waits for the first request, lets the scenario happen, and returns when it is over.
func tell(ctx context.Context, w io.Writer, p *sandbox.Play) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.Model.Requests(sandbox.Filter{}) == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	fmt.Fprintf(w, "The first request: scenario %s begins.\n", p.Scenario.Name)
	p.Run(ctx)
	if ctx.Err() == nil {
		fmt.Fprintln(w, "The scenario is over; the API goes on as it was left.")
	}
}

// sandboxHelp lists what can be chosen.
func sandboxHelp() string {
	var b strings.Builder
	b.WriteString("Example:\n  doorbell sandbox --scenario zurich-hot\n\nScenarios:\n")
	for _, s := range sandbox.Scenarios() {
		fmt.Fprintf(&b, "  %-19s %s\n", s.Name, s.Description)
	}
	b.WriteString("\nRenderings:\n  " + strings.Join(renderingNames(), ", "))
	return b.String()
}
