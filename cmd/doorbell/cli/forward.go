package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	To   string `arg:"" enum:"${receivers}" placeholder:"${receivers_or}" help:"Where to: ${receivers_or}."`
	Name string `placeholder:"NAME" help:"Name of the forwarder, by which it goes on where it stopped. Default ${receivers_or}."`
	Test bool   `help:"Send one event that is marked as a test, say what the receiver answers, and end."`
	JSON bool   `name:"json" help:"Print the outcome of --test as JSON."`
}

func (ForwardCmd) Help() string {
	return "doorbell run does the same for every receiver that is configured. Alone, a forwarder reads the\n" +
		"stream of any NATS, needs no key of the API, and goes on where it stopped.\n\n" +
		"Example:\n  DOORBELL_SLACK_URL_FILE=slack_url doorbell forward slack --test"
}

func (c *ForwardCmd) Validate() error {
	if c.Name == "" {
		c.Name = c.To
	}
	if err := forward.ValidName(c.Name); c.To != "" && err != nil {
		return errors.New("--name: write 1 to 32 letters, digits, _ and -")
	}
	if c.JSON && !c.Test {
		return errors.New("--json: is for --test")
	}
	return nil
}

// Run brings events to one kind of receiver until it is stopped.
func (c *ForwardCmd) Run(ctx context.Context, p *program) error {
	cfg, set, err := p.receivers(c.To, c.Name)
	if err != nil {
		return err
	}
	defer set.Close()
	if c.Test {
		p.warn(cfg.Warnings)
		return c.test(ctx, p, cfg, set)
	}
	log := p.logger(cfg.Base)
	defer flushLog(log)
	for _, w := range cfg.Warnings {
		log.Warn(w)
	}
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
	o.Manage = o.Manage && cfg.NATS.URL != "" // guests of the embedded server make no streams: the daemon has made it
	pipeline, err := forward.New(o)
	switch {
	case errors.Is(err, forward.ErrBusy):
		return exit.Config(err, "doorbell run forwards by itself what is configured; for a second forwarder choose another --name or DOORBELL_DATA_DIR")
	case errors.Is(err, forward.ErrOptions):
		return exit.Config(err, "")
	case err != nil:
		return exit.IO(err, "look at "+cfg.Base.DataDir+" and at the space on its disk")
	}
	log.Info("forwarding", "forwarder", c.Name, "nats", natsd.Redact(dial.URL), "outlets", len(o.Routes), "data", cfg.Base.DataDir)
	var watching sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	watching.Go(func() { set.Watch(ctx, taking(log, pipeline.Change)) })
	err = pipeline.Run(ctx)
	stop()
	watching.Wait()
	if err != nil {
		return exit.Failed(err, "start it again; it goes on where it stopped")
	}
	return nil
}

// taking puts routes into force that were read again, but for those that are refused.
func taking(log *slog.Logger, change func([]forward.Route, time.Time) error) func([]forward.Route, string) {
	return func(routes []forward.Route, problem string) {
		err := errors.New(problem)
		if problem == "" {
			err = change(routes, time.Now())
		}
		if err != nil {
			log.Error("the changed table of routes is refused; the one before stays in force", "err", err.Error())
			return
		}
		log.Info("the table of routes was read again", "outlets", len(routes))
	}
}

// trial is what came of a test event.
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
func (c *ForwardCmd) test(ctx context.Context, p *program, cfg *config.Config, set *receivers.Set) error {
	trials, bad := []trial{}, false
	for _, r := range set.Distinct() {
		t := try(ctx, r)
		trials = append(trials, t)
		bad = bad || t.Outcome != "taken"
		if !c.JSON {
			_ = p.print(t.text())
		}
	}
	people := map[string]string{"slack": cfg.Forward.SlackPeople, "teams": cfg.Forward.TeamsPeople}[c.To]
	switch {
	case c.JSON:
		if err := p.printJSON(trials); err != nil {
			return err
		}
	case !bad && people != "" && people != config.FullPeople:
		_ = p.print("Of a person the message shows the first name and an initial; with DOORBELL_" + strings.ToUpper(c.To) +
			"_PEOPLE=full it shows e-mail and phone too, and links to write and call.")
	}
	if bad {
		return exit.Failed(errors.New("not every receiver accepted the test"), "doorbell config shows what is in effect")
	}
	return nil
}

// try sends a contact request, or an alert where nothing else comes.
func try(ctx context.Context, r forward.Route) trial {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t := trial{
		Forwarder: r.Forwarder, Destination: r.Receiver.Traits().Destination, Agencies: r.Filter.Agencies, Except: r.Filter.Except,
		Kind: "contact request", Outcome: "taken",
	}
	alert := r.Filter.Takes(events.TypeAccessHalted) && !r.Filter.Takes(events.TypeContactRequestCreated)
	if alert {
		t.Kind = "alert"
	}
	if err := forward.SendTest(ctx, r.Receiver, forward.TestAgency, alert); err != nil {
		t.Outcome, t.Reason = receivers.Outcome(err)
	}
	return t
}

func (t trial) text() string {
	verb := map[string]string{"taken": "accepted", "refused": "rejected", "later": "failed to take"}[t.Outcome]
	whose := forward.Filter{Agencies: t.Agencies, Except: t.Except}.Whose()
	return strings.TrimSuffix(fmt.Sprintf("%s (%s) %s a test %s: %s", t.Forwarder, whose, verb, t.Kind, t.Reason), ": ")
}

// receivers opens those that are configured of a kind.
func (p *program) receivers(kind, name string) (c *config.Config, set *receivers.Set, err error) {
	if c, err = config.Read(p.environ, config.GroupForward); err == nil {
		set, err = receivers.OpenKind(c, kind, name, release)
	}
	if err == nil && len(set.Routes()) == 0 {
		err = exit.Config(fmt.Errorf("%s is not set", receivers.Needed[kind]), "doorbell forward "+kind+" --help says what else there is")
	}
	return c, set, err
}
