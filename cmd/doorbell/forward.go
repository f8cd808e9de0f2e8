package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/events/forward"
	"doorbell/events/forward/email"
	"doorbell/events/forward/slack"
	"doorbell/events/forward/webhook"
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
		"goes on where it stopped: its progress is kept in DOORBELL_DATA_DIR.\n\n" +
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

// Run brings events to one kind of outlet until it is stopped.
func (c *ForwardCmd) Run(ctx context.Context, p *program) error {
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
	if _, isSlack := f.Routes[0].Outlet.(*guarded).Outlet.(*slack.Outlet); isSlack && c.Forward.SlackPeople == string(slack.Short) && !asJSON {
		fmt.Fprintln(p.stdout, "Of a person Slack shows the first name and an initial; with DOORBELL_SLACK_PEOPLE=full it shows e-mail and phone too, and links to write and call.")
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
		later *forward.Retry
		never *forward.Permanent
		off   *forward.Gone
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
	switch head := t.Forwarder + " (" + (forward.Filter{Agencies: t.Agencies, Except: t.Except}).Whose() + ")"; t.Outcome {
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

// forwarder is one that is configured: an outlet of a kind for each address.
type forwarder struct {
	Name   string
	Routes []forward.Route
}

// outletKind is what can be brought to a place outside. There is one forwarder for each kind.
type outletKind struct {
	name   string
	needed string // the variable without which there is none
	routes func(c *Config, name string) ([]forward.Route, error)
}

var outletKinds = []outletKind{
	{"slack", "DOORBELL_SLACK_URL", slackRoutes},
	{"email", "DOORBELL_EMAIL_TO", emailRoutes},
	{"webhook", "DOORBELL_WEBHOOK_URL", webhookRoutes},
}

// kindNames are the names of all kinds.
func kindNames() []string {
	var names []string
	for _, k := range outletKinds {
		names = append(names, k.name)
	}
	return names
}

// forwarders are those that are configured.
func (c *Config) forwarders() ([]forwarder, error) {
	var all []forwarder
	for _, k := range outletKinds {
		f, err := c.forwarder(k.name, k.name)
		if err != nil {
			return nil, err
		}
		if len(f.Routes) > 0 {
			all = append(all, f)
		}
	}
	return all, nil
}

// forwarder makes the outlets of a kind. It has no routes where none is configured.
func (c *Config) forwarder(kind, name string) (forwarder, error) {
	f := forwarder{Name: name}
	for _, k := range outletKinds {
		if k.name != kind {
			continue
		}
		routes, err := k.routes(c, name)
		if err != nil { // what a constructor minds and the reading of the configuration does not
			return f, configError(err, "look at DOORBELL_"+strings.ToUpper(kind)+"_*")
		}
		f.Routes = routes
	}
	return f, nil
}

// notConfigured says what a kind of outlet needs.
func notConfigured(kind string) error {
	for _, k := range outletKinds {
		if k.name == kind {
			return configError(fmt.Errorf("%s is not set", k.needed), "doorbell forward "+kind+" --help says what else there is")
		}
	}
	return configError(fmt.Errorf("there is no outlet %s", kind), "")
}

// share is the agencies that have one value in common: those that are named, or all but those that are named elsewhere.
type share[T comparable] struct {
	value            T
	agencies, except []string
}

// sharesOf tells agencies apart by their value. The zero value is none. Where only is given, nobody else counts.
func sharesOf[T comparable](named []string, of func(agency string) T, only []string) []share[T] {
	var none T
	rest := share[T]{value: of(anyAgency)}
	var shares []share[T]
	for _, agency := range named {
		v := of(agency)
		if v == rest.value {
			continue
		}
		rest.except = append(rest.except, agency)
		if v == none || only != nil && !slices.Contains(only, agency) {
			continue
		}
		at := slices.IndexFunc(shares, func(s share[T]) bool { return s.value == v })
		if at < 0 {
			at = len(shares)
			shares = append(shares, share[T]{value: v})
		}
		shares[at].agencies = append(shares[at].agencies, agency)
	}
	if rest.value == none {
		return shares
	}
	if only != nil {
		for _, agency := range only {
			if !slices.Contains(rest.except, agency) {
				rest.agencies = append(rest.agencies, agency)
			}
		}
		rest.except = nil
		if rest.agencies == nil {
			return shares
		}
	}
	return append(shares, rest)
}

// filter is what a share gets.
func (s share[T]) filter(types EventTypes, least Score) forward.Filter {
	return forward.Filter{Types: types, Agencies: s.agencies, Except: s.except, MinScore: least.least}
}

// revealed is the value of an agency, for those who send it.
func (p PerAgency) revealed(agency string) string { return p.of(agency).Reveal() }

// twoPlaces is a kind of outlet of which leads and alerts may go to two places.
type twoPlaces struct {
	types         EventTypes
	least         Score
	only          []string // agencies; nil: all
	leads, alerts PerAgency
	// otherwise is where alerts of an agency go that has no place for them.
	otherwise func(agency string) string
	open      func(value string) (forward.Outlet, error)
}

// routes has leads and alerts apart. One outlet serves both where they go to one place: it is it that keeps the pace.
func (p twoPlaces) routes() ([]forward.Route, error) {
	outlets := map[string]forward.Outlet{}
	var routes []forward.Route
	add := func(kind forward.Kind, named []string, of func(string) string) error {
		if !p.types.have(kind) { // a test would say that it works
			return nil
		}
		for _, s := range sharesOf(named, of, p.only) {
			if outlets[s.value] == nil {
				o, err := p.open(s.value)
				if err != nil {
					return err
				}
				outlets[s.value] = guard(o)
			}
			filter := s.filter(p.types, p.least)
			filter.Only = kind
			routes = append(routes, forward.Route{Outlet: outlets[s.value], Filter: filter})
		}
		return nil
	}
	err := add(forward.Leads, p.leads.order, p.leads.revealed)
	if err == nil {
		err = add(forward.Alerts, union(p.leads.order, p.alerts.order), func(agency string) string {
			return cmp.Or(p.alerts.revealed(agency), p.otherwise(agency))
		})
	}
	return routes, err
}

func slackRoutes(c *Config, _ string) ([]forward.Route, error) {
	f := c.Forward
	return twoPlaces{
		types: f.SlackTypes, least: f.SlackMinScore, only: f.SlackAgencies,
		leads: f.SlackURL.PerAgency, alerts: f.SlackAlertsURL.PerAgency, otherwise: f.SlackURL.revealed,
		open: func(value string) (forward.Outlet, error) {
			return slack.New(slack.Options{
				URL: value, People: slack.People(f.SlackPeople), AllowPlaintext: c.Base.AllowPlaintext, Zone: zurich(), UserAgent: "doorbell/" + release,
				Language: f.Language.language, AgencyName: f.AgencyNames.revealed,
			})
		},
	}.routes()
}

// zurich is where the readers are. Its zone is built in.
func zurich() *time.Location {
	l, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		return time.UTC
	}
	return l
}

// union are the agencies of both, each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// emailRoutes sends the alerts of all agencies to one place where nothing else is said: those who answer leads can do nothing about
// a key. Better to the wrong person than to nobody, where there is no such place.
func emailRoutes(c *Config, name string) ([]forward.Route, error) {
	f := c.Forward
	var operators []string
	for _, v := range f.EmailAlertsTo.all() {
		operators = append(operators, v.Reveal())
	}
	return twoPlaces{
		types: f.EmailTypes.mailed(), least: f.EmailMinScore, only: f.EmailAgencies,
		leads: f.EmailTo.PerAgency, alerts: f.EmailAlertsTo.PerAgency,
		otherwise: func(agency string) string { return cmp.Or(f.EmailTo.revealed(anyAgency), f.EmailTo.revealed(agency)) },
		open: func(value string) (forward.Outlet, error) {
			return email.New(email.Options{
				SMTP: string(f.EmailSMTP), Password: f.EmailPassword.Reveal(), From: string(f.EmailFrom), To: recipients(value),
				OpenImmo: f.EmailOpenimmo, Operators: slices.Contains(operators, value), AllowPlaintext: c.Base.AllowPlaintext, Name: name,
				Language: f.Language.language, AgencyName: f.AgencyNames.revealed,
			})
		},
	}.routes()
}

func webhookRoutes(c *Config, _ string) ([]forward.Route, error) {
	f := c.Forward
	type target struct{ url, secrets string }
	of := func(agency string) target {
		if f.WebhookURL.of(agency).IsZero() {
			return target{}
		}
		return target{f.WebhookURL.revealed(agency), f.WebhookSecret.revealed(agency)}
	}
	var routes []forward.Route
	for _, s := range sharesOf(union(f.WebhookURL.order, f.WebhookSecret.order), of, f.WebhookAgencies) {
		o, err := webhook.New(webhook.Options{URL: s.value.url, Secrets: s.value.secrets, AllowPlaintext: c.Base.AllowPlaintext, Version: release})
		if err != nil {
			return nil, err
		}
		routes = append(routes, forward.Route{Outlet: guard(o), Filter: s.filter(f.WebhookTypes, f.WebhookMinScore)})
	}
	return routes, nil
}

// guarded is an outlet that ends nothing but a delivery when it fails in a way that nobody thought of, and that knows since when it
// takes nothing.
type guarded struct {
	forward.Outlet

	say func(reason string) // hears why nothing is taken, once for each reason; may be nil

	mu      sync.Mutex
	failing time.Time
	said    string
}

func guard(o forward.Outlet) *guarded { return &guarded{Outlet: o} }

// Send passes on what the outlet says. A panic would be there again at the next try: the delivery becomes a dead letter.
func (g *guarded) Send(ctx context.Context, d forward.Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &forward.Permanent{Reason: fmt.Sprintf("it cannot be told: a fault of doorbell, %T", p)} // the value may quote a person
		}
		g.note(err)
	}()
	return g.Outlet.Send(ctx, d)
}

// note remembers since when nothing is taken. A delivery that is refused for good says that somebody is there.
func (g *guarded) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil || errors.As(err, new(*forward.Permanent)) {
		g.failing, g.said = time.Time{}, ""
		return
	}
	if g.failing.IsZero() {
		g.failing = time.Now()
	}
	if _, reason := outcomeOf(err); g.say != nil && reason != g.said {
		g.said = reason
		g.say(reason)
	}
}

// FailingSince is when the outlet took something last, as far as it fails now; else zero.
func (g *guarded) FailingSince() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failing
}

// Close gives back what the outlet has kept open.
func (g *guarded) Close() {
	if c, ok := g.Outlet.(interface{ Close() }); ok {
		c.Close()
	}
}

// close gives back what the outlets have kept open.
func (f forwarder) close() {
	for _, r := range f.Routes {
		if g, ok := r.Outlet.(*guarded); ok {
			g.Close()
		}
	}
}

// listen hears of every outlet why it takes nothing.
func (f forwarder) listen(say func(reason string)) {
	for _, r := range f.Routes {
		if g, ok := r.Outlet.(*guarded); ok {
			g.say = say
		}
	}
}

// warningsFor leaves out what is said of other outlets.
func (c *Config) warningsFor(kind string) []string {
	return slices.DeleteFunc(slices.Clone(c.Warnings), func(w string) bool {
		return slices.ContainsFunc(kindNames(), func(other string) bool {
			return other != kind && strings.HasPrefix(w, "DOORBELL_"+strings.ToUpper(other)+"_")
		})
	})
}
