package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/natsd"
)

// ForwardCmd is `doorbell forward`.
type ForwardCmd struct {
	To   string `arg:"" enum:"${receivers}" placeholder:"${receivers_or}" help:"Kind of receiver: ${receivers_or}."`
	Name string `placeholder:"NAME" help:"Name of the forwarder; with the same name it continues where it stopped. Default: the kind of receiver."`
	Test bool   `help:"Send one event that is marked as a test, print the receiver's response, and exit."`
	JSON bool   `name:"json" help:"Print the outcome of --test as JSON."`
}

func (c *ForwardCmd) Validate() error {
	if c.Name == "" {
		c.Name = c.To
	}
	if err := forward.ValidName(c.Name); c.To != "" && err != nil {
		return errors.New("--name: write 1 to 32 letters, digits, _ and -")
	}
	if c.JSON && !c.Test {
		return errors.New("--json: works only with --test")
	}
	return nil
}

// receivers opens those of a kind, which has to be configured; without a kind all of them. It
// prints the warnings even if nothing is configured: a name may be misspelt.
func (p *program) receivers(kind, name string) (*config.Config, *receivers.Set, error) {
	c, err := config.Read(p.environ, config.GroupForward)
	p.warn(c.Warnings)
	if err != nil {
		return c, nil, err
	}
	set, err := receivers.OpenKind(c, kind, name, release)
	if err != nil {
		return c, nil, err
	}
	p.opened = append(p.opened, set.Close)
	if kind != "" && len(set.Routes()) == 0 {
		err = exit.Config(fmt.Errorf("%s is not set", receivers.Needed[kind]),
			"see doorbell forward "+kind+" --help")
	}
	return c, set, err
}

// Run brings events to one kind of receiver until it is stopped.
func (c *ForwardCmd) Run(ctx context.Context, p *program) error {
	cfg, set, err := p.receivers(c.To, c.Name)
	if err != nil {
		return err
	}
	if c.Test {
		return c.test(ctx, p, set)
	}
	log := p.logger(cfg.Base)
	defer flushLog(log)
	dial, err := streamServer(ctx, cfg)
	if err != nil {
		return err
	}
	conn, err := daemon.Connect(dial, log.With("part", "nats")) // it need not respond yet
	if err != nil {
		return exit.Config(err, "check the NATS_* settings")
	}
	defer daemon.HangUp(conn)
	o := DaemonOptions(cfg, log).ForwardOptions(conn)
	o.Name, o.Routes = c.Name, set.Routes()
	// guests of the embedded server make no streams: the daemon has made it
	o.Manage = o.Manage && cfg.NATS.URL != ""
	pipeline, err := forward.New(o)
	switch {
	case errors.Is(err, forward.ErrBusy):
		return exit.Config(err, "doorbell run already forwards to what is configured; for a second forwarder choose another --name or DOORBELL_DATA_DIR")
	case err != nil:
		return exit.IO(err, "check "+cfg.Base.DataDir+" and the free space on its disk")
	}
	log.Info("forwarding", "forwarder", c.Name, "nats", natsd.Redact(dial.URL),
		"outlets", len(o.Routes), "data", cfg.Base.DataDir)
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		set.Watch(ctx, log, func(routes []forward.Route, problem string) {
			if problem == "" {
				pipeline.Change(routes, time.Now())
			}
		})
	})
	err = pipeline.Run(ctx)
	stop()
	watching.Wait()
	if err != nil {
		return exit.Failed(err, "start it again; it continues where it stopped")
	}
	return nil
}

// trial is the outcome of a test event.
type trial struct {
	Forwarder   string `json:"forwarder"`
	Destination string `json:"destination"`
	// Agencies are whose events go there, Except whose do not; neither: those of all.
	Agencies []string `json:"agencies,omitempty"`
	Except   []string `json:"except,omitempty"`
	Kind     string   `json:"kind"`
	Outcome  string   `json:"outcome"` // taken, later, refused
	Reason   string   `json:"reason,omitempty"`
}

// test sends an event that is marked as a test to every receiver.
func (c *ForwardCmd) test(ctx context.Context, p *program, set *receivers.Set) (err error) {
	trials, text := []trial{}, ""
	for _, r := range set.Distinct() {
		t := try(ctx, r)
		if t.Outcome != "taken" {
			err = exit.Failed(errors.New("not every receiver accepted the test"),
				"doorbell config shows what is in effect")
		}
		trials, text = append(trials, t), text+t.text()+"\n"
	}
	return cmp.Or(p.result(c.JSON, trials, text), err)
}

// try sends a contact request, or an alert where nothing else comes.
func try(ctx context.Context, r forward.Route) trial {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t := trial{
		Forwarder: r.Forwarder, Destination: r.Receiver.Traits().Destination,
		Agencies: r.Filter.Agencies, Except: r.Filter.Except, Kind: "contact request",
		Outcome: "taken",
	}
	alert := r.Filter.Takes(events.TypeAccessHalted) &&
		!r.Filter.Takes(events.TypeContactRequestCreated)
	if alert {
		t.Kind = "alert"
	}
	if err := forward.SendTest(ctx, r.Receiver, forward.TestAgency, alert); err != nil {
		t.Outcome, t.Reason = receivers.Outcome(err)
	}
	return t
}

func (t trial) text() string {
	verb := map[string]string{
		"taken": "accepted", "refused": "rejected",
		"later": "failed to accept",
	}[t.Outcome]
	whose := forward.Filter{Agencies: t.Agencies, Except: t.Except}.Whose()
	return strings.TrimSuffix(
		fmt.Sprintf("%s (%s) %s a test %s: %s", t.Forwarder, whose, verb, t.Kind, t.Reason), ": ")
}
