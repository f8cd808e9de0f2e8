package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events/forward"
	"doorbell/events/natsd"
	"doorbell/events/stream"
)

// ForwardCmd is `doorbell forward`.
type ForwardCmd struct {
	To   string `arg:"" enum:"${receivers}" placeholder:"${receivers_or}" help:"Where to: ${receivers_text}."`
	Name string `placeholder:"NAME" help:"Name of the forwarder, by which it goes on where it stopped. Default ${receivers_text}."`
	Test bool   `help:"Send one event that is marked as a test, say what the receiver answers, and end."`
	JSON bool   `name:"json" help:"Print the outcome of --test as JSON."`
}

func (ForwardCmd) Help() string {
	return "doorbell run does the same for every receiver that is configured. Alone, a forwarder reads the stream of any NATS (NATS_URL, or the " +
		"server of a daemon on this machine), and needs neither the API nor its key. It sends what is recorded from its first start on, and " +
		"goes on where it stopped: its progress is kept in DOORBELL_DATA_DIR.\n\n" +
		"Needs one of DOORBELL_SLACK_URL, DOORBELL_TEAMS_URL, DOORBELL_EMAIL_TO (with DOORBELL_EMAIL_SMTP and DOORBELL_EMAIL_FROM) or DOORBELL_WEBHOOK_URL, " +
		"or a line of the table that DOORBELL_ROUTES_FILE names.\n\n" +
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
	cfg, set, warnings, err := p.receivers(c.To, c.Name)
	if err != nil {
		return err
	}
	defer set.Close()
	if c.Test {
		p.warn(warnings)
		return testForwarder(ctx, p, cfg, c.To, set, c.JSON)
	}
	log := p.logger(cfg.Base)
	defer flushLog(log)
	for _, w := range warnings {
		log.Warn(w)
	}
	conn, url, err := dialStream(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer daemon.HangUp(conn)
	o := DaemonOptions(cfg, log).ForwardOptions(conn)
	o.Name, o.Routes = c.Name, set.Routes()
	o.Manage = o.Manage && cfg.NATS.URL != "" // guests of the embedded server make no streams: the daemon has made it
	pipeline, err := forward.New(o)
	if err != nil {
		return forwardError(err, cfg.Base)
	}
	log.Info("forwarding", "forwarder", c.Name, "nats", natsd.Redact(url), "outlets", len(o.Routes), "data", cfg.Base.DataDir)
	var watching sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	watching.Go(func() {
		set.Watch(ctx, taking(log, pipeline.Change))
	})
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

// forwardError says what to do about a forwarder that cannot begin.
func forwardError(err error, b config.Base) error {
	switch {
	case errors.Is(err, forward.ErrBusy):
		return exit.Config(err, "doorbell run forwards by itself what is configured; for a second forwarder choose another --name or DOORBELL_DATA_DIR")
	case errors.Is(err, forward.ErrOptions):
		return exit.Config(err, "")
	}
	return exit.IO(err, "look at "+b.DataDir+" and at the space on its disk")
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

// testForwarder sends an event that is marked as a test to every receiver, and an alert too where
// alerts go elsewhere.
func testForwarder(ctx context.Context, p *program, c *config.Config, kind string, set *receivers.Set, asJSON bool) error {
	if problem := streamProblem(ctx, c); problem != "" {
		p.warn([]string{problem + "; the receiver is tested all the same. Events need doorbell run, or NATS_URL"})
	}
	trials, bad := []trial{}, false
	for _, r := range set.Distinct() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		t := try(ctx, r, testAgency(c, kind, r.Filter))
		cancel()
		trials = append(trials, t)
		bad = bad || t.Outcome != "taken"
		if !asJSON {
			fmt.Fprintln(p.stdout, printable(t.text()))
		}
	}
	if people := map[string]string{"slack": c.Forward.SlackPeople, "teams": c.Forward.TeamsPeople}; !bad && people[kind] != "" &&
		people[kind] != config.FullPeople && !asJSON {
		fmt.Fprintf(p.stdout, "Of a person the message shows the first name and an initial; with DOORBELL_%s_PEOPLE=full it shows e-mail and phone too, "+
			"and links to write and call.\n", strings.ToUpper(kind))
	}
	if asJSON {
		if err := p.printJSON(trials); err != nil {
			return err
		}
	}
	if bad {
		return exit.Failed(errors.New("not every receiver accepted the test"), "doorbell config shows what is in effect")
	}
	return nil
}

// testAgency is one whose events go along a route, so that people see its language and its name;
// for programs, which may not look at the mark of a test, it is none that exists.
func testAgency(c *config.Config, kind string, f forward.Filter) string {
	named := f.Agencies
	if named == nil {
		named = slices.DeleteFunc(config.NamedIn(c.Forward.Language.PerAgency, c.Forward.AgencyNames.PerAgency), func(agency string) bool {
			return slices.Contains(f.Except, agency)
		})
	}
	if kind == "webhook" || len(named) == 0 {
		return forward.TestAgency
	}
	return named[0]
}

// try sends a contact request, or an alert where nothing else comes.
func try(ctx context.Context, r forward.Route, agency string) trial {
	t := trial{
		Forwarder: r.Forwarder, Destination: r.Receiver.Traits().Destination, Agencies: r.Filter.Agencies, Except: r.Filter.Except,
		Kind: "contact request", Outcome: "taken",
	}
	alert := !r.Filter.Takes(forward.Leads)
	if alert {
		t.Kind = "alert"
	}
	if err := forward.SendTest(ctx, r.Receiver, agency, alert); err != nil {
		t.Outcome, t.Reason = receivers.Outcome(err)
	}
	return t
}

func (t trial) text() string {
	switch head := t.Forwarder + " (" + (forward.Filter{Agencies: t.Agencies, Except: t.Except}).Whose() + ")"; t.Outcome {
	case "taken":
		return head + " accepted a test " + t.Kind
	case "refused":
		return head + " rejected a test " + t.Kind + ": " + t.Reason
	default:
		return head + " failed to take a test " + t.Kind + ": " + t.Reason
	}
}

// streamProblem says what is wrong with the way from the stream, empty for nothing.
func streamProblem(ctx context.Context, c *config.Config) string {
	conn, err := connectStream(ctx, c)
	if err != nil {
		return err.Error()
	}
	defer daemon.HangUp(conn)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	js, err := conn.JetStream()
	if err == nil {
		_, err = js.Stream(ctx, c.Base.Stream())
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "the NATS server at " + conn.ConnectedUrlRedacted() + " has no stream " + c.Base.Stream()
	}
	if err != nil {
		return "stream " + c.Base.Stream() + ": " + stream.Explain(conn, err).Error()
	}
	return ""
}

// receivers are those that are configured of a kind, and what is odd about them.
func (p *program) receivers(kind, name string) (c *config.Config, set *receivers.Set, warnings []string, err error) {
	if c, err = config.Read(p.environ, config.GroupForward); err == nil {
		set, err = receivers.OpenKind(c, kind, name, release)
	}
	warnings = slices.DeleteFunc(slices.Clone(c.Warnings), func(w string) bool { // what is said of other receivers
		return slices.ContainsFunc(receivers.Kinds, func(k string) bool { return k != kind && strings.HasPrefix(w, "DOORBELL_"+strings.ToUpper(k)+"_") })
	})
	if err == nil && len(set.Routes()) == 0 {
		err = exit.Config(fmt.Errorf("%s is not set", receivers.Needed[kind]), "doorbell forward "+kind+" --help says what else there is")
	}
	return c, set, warnings, err
}
