package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/events/forward"
	"doorbell/events/natsd"
)

// ForwardCmd is `doorbell forward`.
type ForwardCmd struct {
	To   string `arg:"" enum:"slack,email,webhook" placeholder:"slack|email|webhook" help:"Where to: slack, email or webhook."`
	Name string `placeholder:"NAME" help:"Name of the forwarder, by which it goes on where it stopped. Default slack, email or webhook."`
	Test bool   `help:"Send one event that is marked as a test, say what the outlet answers, and end."`
	JSON bool   `name:"json" help:"Print the outcome of --test as JSON."`
}

// Help is printed by --help below the flags.
func (ForwardCmd) Help() string {
	return "doorbell run does the same for every outlet that is configured. Alone, a forwarder reads the stream of any NATS (NATS_URL, or the " +
		"server of a daemon on this machine), and needs neither the API nor its key. It sends what is recorded from its first start on, and " +
		"goes on where it stopped: what it has done stands in DOORBELL_DATA_DIR.\n\n" +
		"Needs one of DOORBELL_SLACK_URL, DOORBELL_EMAIL_TO (with DOORBELL_EMAIL_SMTP and DOORBELL_EMAIL_FROM) or DOORBELL_WEBHOOK_URL.\n\n" +
		"Example:\n  DOORBELL_SLACK_URL_FILE=/etc/doorbell/slack_url doorbell forward slack --test"
}

// Validate refuses names that cannot be.
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

// Run forwards.
func (c *ForwardCmd) Run(ctx context.Context, p *program) error { return cmdForward(ctx, p, c) }

// cmdForward brings events to one kind of outlet until it is stopped.
func cmdForward(ctx context.Context, p *program, c *ForwardCmd) error {
	config, err := readConfig(p.environ, groupForward)
	if err != nil {
		return err
	}
	f, err := config.forwarder(c.To, c.Name)
	if err != nil {
		return err
	}
	if len(f.Routes) == 0 {
		return notConfigured(c.To)
	}
	defer f.close()
	if c.Test {
		p.warn(config.warningsFor(c.To))
		return testForwarder(ctx, p, config, f, c.JSON)
	}
	log := p.logger(config.Base)
	defer lastWords(log)
	for _, w := range config.warningsFor(c.To) {
		log.Warn(w)
	}
	conn, url, err := dialStream(ctx, config, log)
	if err != nil {
		return err
	}
	defer daemon.HangUp(conn)
	o := config.daemonOptions(log).ForwardOptions(daemon.Forwarder(f), conn)
	o.Manage = o.Manage && config.NATS.URL != "" // guests of the embedded server make no streams: the daemon has made it
	pipeline, err := forward.New(o)
	if err != nil {
		return forwardError(err, config.Base)
	}
	log.Info("forwarding", "forwarder", f.Name, "nats", natsd.Redact(url), "outlets", len(f.Routes), "data", config.Base.DataDir)
	if err := pipeline.Run(ctx); err != nil {
		return failed(err, "start it again; it goes on where it stopped")
	}
	return nil
}

// forwardError says what to do about a forwarder that cannot begin.
func forwardError(err error, b Base) error {
	switch {
	case errors.Is(err, forward.ErrBusy):
		return configError(err, "doorbell run forwards by itself what is configured; for a second forwarder choose another --name or DOORBELL_DATA_DIR")
	case errors.Is(err, forward.ErrOptions):
		return configError(err, "")
	}
	return ioError(err, "look at "+b.DataDir+" and at the space on its disk")
}

// dialStream connects to the NATS that holds the stream, which need not be there yet, and says where that is.
func dialStream(ctx context.Context, c *Config, log *slog.Logger) (conn *nats.Conn, url string, err error) {
	dial, err := c.streamServer(ctx)
	if err != nil {
		return nil, "", err
	}
	conn, err = natsd.Connect(dial, log.With("part", "nats"))
	if err != nil {
		return nil, "", configError(err, "check the NATS_* settings")
	}
	return conn, dial.URL, nil
}

// trial is what came of a test event.
type trial struct {
	Forwarder   string `json:"forwarder"`
	Destination string `json:"destination"`
	// Agencies are whose events go there, Except whose do not; neither: those of all.
	Agencies []string `json:"agencies,omitempty"`
	Except   []string `json:"except,omitempty"`
	Kind     string   `json:"kind"`
	Outcome  string   `json:"outcome"` // taken, later, refused, off
	Reason   string   `json:"reason,omitempty"`
}

// testForwarder sends an event that is marked as a test to every outlet, and an alert too where alerts go elsewhere.
func testForwarder(ctx context.Context, p *program, c *Config, f forwarder, asJSON bool) error {
	if problem := streamProblem(ctx, c); problem != "" {
		p.warn([]string{problem + "; the outlet is tested all the same. Events need doorbell run, or NATS_URL"})
	}
	trials := make([]trial, 0, len(f.Routes))
	bad := false
	for _, r := range f.distinct() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		t := try(ctx, f.Name, r)
		cancel()
		trials = append(trials, t)
		bad = bad || t.Outcome != "taken"
		if !asJSON {
			fmt.Fprintln(p.stdout, printable(t.text()))
		}
	}
	if asJSON {
		if err := p.printJSON(trials); err != nil {
			return err
		}
	}
	if bad {
		return failed(errors.New("not every outlet has taken the test"), "doorbell config shows what is in effect")
	}
	return nil
}

// distinct has each outlet once, the first route to it.
func (f forwarder) distinct() (routes []forward.Route) {
	for _, r := range f.Routes {
		if !slices.ContainsFunc(routes, func(other forward.Route) bool { return other.Outlet == r.Outlet }) {
			routes = append(routes, r)
		}
	}
	return routes
}

// try sends a contact request, or an alert where nothing else comes.
func try(ctx context.Context, name string, r forward.Route) trial {
	t := trial{
		Forwarder: name, Destination: r.Outlet.Traits().Destination, Agencies: r.Filter.Agencies, Except: r.Filter.Except,
		Kind: "contact request", Outcome: "taken",
	}
	alert := r.Filter.Only == forward.Alerts || !slices.ContainsFunc(r.Filter.Types, func(t string) bool { return !alertPattern(t) })
	if alert {
		t.Kind = "alert"
	}
	if err := forward.SendTest(ctx, r.Outlet, alert); err != nil {
		t.Outcome, t.Reason = outcomeOf(err)
	}
	return t
}

// alertPattern says whether a type or pattern means alerts alone.
func alertPattern(pattern string) bool {
	return strings.HasPrefix(pattern, "access.") || strings.HasPrefix(pattern, "watch.")
}

// outcomeOf puts an outlet's error into words. What is none of the errors that outlets promise may hold an address: it is not quoted.
func outcomeOf(err error) (word, reason string) {
	var (
		later *forward.Later
		never *forward.Never
		off   *forward.Off
	)
	switch {
	case errors.As(err, &never):
		return "refused", never.Reason
	case errors.As(err, &off):
		return "off", off.Reason
	case errors.As(err, &later) && later.After > 0:
		return "later", later.Reason + "; not again before " + later.After.Round(time.Second).String()
	case errors.As(err, &later):
		return "later", later.Reason
	case errors.Is(err, context.Canceled):
		return "later", "stopped"
	case errors.Is(err, context.DeadlineExceeded):
		return "later", "no answer in time"
	}
	return "later", "the outlet failed"
}

func (t trial) text() string {
	switch head := t.Forwarder + ": " + t.Destination + t.whose(); t.Outcome {
	case "taken":
		return head + " has taken a test " + t.Kind
	case "off":
		return head + " wants nothing any more: " + t.Reason
	case "refused":
		return head + " refuses a test " + t.Kind + ": " + t.Reason
	default:
		return head + " does not take a test " + t.Kind + " now: " + t.Reason
	}
}

// whose tells destinations apart for those who know agencies and not hashes.
func (t trial) whose() string {
	switch {
	case len(t.Agencies) > 0:
		return " (" + someOf(t.Agencies) + ")"
	case len(t.Except) > 0:
		return " (all but " + someOf(t.Except) + ")"
	}
	return ""
}

// someOf has the first five, and how many there are more.
func someOf(agencies []string) string {
	const most = 5
	if len(agencies) <= most {
		return strings.Join(agencies, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(agencies[:most], ", "), len(agencies)-most)
}

// streamProblem says what is wrong with the way from the stream, empty for nothing.
func streamProblem(ctx context.Context, c *Config) string {
	conn, err := connectStream(ctx, c)
	if err != nil {
		return err.Error()
	}
	defer daemon.HangUp(conn)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.Stream(ctx, c.Base.Stream)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "the NATS server at " + conn.ConnectedUrlRedacted() + " has no stream " + c.Base.Stream
	}
	if err != nil {
		return "stream " + c.Base.Stream + ": " + err.Error()
	}
	return ""
}
