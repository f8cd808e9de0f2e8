// Package receivers builds the table of routes from the configuration, and opens a receiver for
// each address in it ([Open]). The lines of the routes file come first, those that the settings
// make come last. Lines with the same address share one receiver, because the receiver keeps the
// pace that its service allows. The routes file is reread while it is in use ([Set.Watch]).
package receivers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/email"
	"doorbell/events/forward/message"
	"doorbell/events/forward/slack"
	"doorbell/events/forward/teams"
	"doorbell/events/forward/webhook"
)

// Kinds are the kinds of receivers. There is one forwarder for each.
var Kinds = []string{"slack", "teams", "email", "webhook"}

// Needed is the setting that configures a kind, for kinds of which the table names no receiver.
var Needed = map[string]string{
	"slack":   "DOORBELL_SLACK_URL",
	"teams":   "DOORBELL_TEAMS_URL",
	"email":   "DOORBELL_EMAIL_TO",
	"webhook": "DOORBELL_WEBHOOK_URL",
}

// Set is the receivers of a configuration.
type Set struct {
	c       *config.Config
	only    string // the one kind to open; empty: all kinds
	name    string // of the forwarder of that kind; empty: the kind is its name
	version string

	text   string // of the routes file, as last accepted
	lines  []Line
	routes []forward.Route
	opened map[Address]forward.Receiver
}

// Open reads the table of a configuration. Requests name version, which is doorbell's, and the
// instance. The error is a *config.Error.
func Open(c *config.Config, version string) (*Set, error) { return OpenKind(c, "", "", version) }

// OpenKind opens only the receivers of one kind, for the forwarder with that name.
func OpenKind(c *config.Config, kind, name, version string) (*Set, error) {
	s := &Set{
		c: c, only: kind, name: name, version: c.Base.Agent(version),
		opened: map[Address]forward.Receiver{},
	}
	if err := s.Reread(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Reread puts the table into force that its file holds now. After an error the one before stays.
func (s *Set) Reread() error { return s.use(s.read()) }

// reading is the text of the routes file, empty if there is none, or why it cannot be read.
type reading struct{ text, trouble string }

func (s *Set) read() (now reading) {
	if s.c.Forward.RoutesFile != "" {
		now.text, now.trouble = config.ReadFile(s.c.Forward.RoutesFile)
	}
	return now
}

// use puts the table of a reading into force.
func (s *Set) use(now reading) error {
	if now.trouble == "" {
		err := s.take(now.text)
		if err == nil || errors.As(err, new(*config.Error)) {
			return err
		}
		now.trouble = "is refused: " + err.Error()
	}
	return &config.Error{Problems: []config.Problem{{
		Name: "DOORBELL_ROUTES_FILE",
		Text: "names " + s.c.Forward.RoutesFile + ", which " + now.trouble,
	}}}
}

// IsEmpty reports whether no receiver is configured, and no routes file that could add one.
func (s *Set) IsEmpty() bool { return len(s.routes) == 0 && s.c.Forward.RoutesFile == "" }

// Lines returns the table: the lines of the file, then those of the settings.
func (s *Set) Lines() []Line { return s.lines }

// Routes returns the lines with their receivers opened.
func (s *Set) Routes() []forward.Route { return s.routes }

// Matching returns the lines that send an event somewhere: for each kind the first that fits.
func (s *Set) Matching(e events.Event) (lines []Line) {
	taken := map[string]bool{}
	for _, l := range s.lines {
		if !l.Filter.Fits(e) {
			continue
		}
		own := l
		own.To = slices.DeleteFunc(slices.Clone(l.To), func(a Address) bool { return taken[a.Kind] })
		for _, a := range own.To {
			taken[a.Kind] = true
		}
		if len(own.To) > 0 {
			lines = append(lines, own)
		}
	}
	return lines
}

// Distinct returns the first route to each receiver.
func (s *Set) Distinct() (routes []forward.Route) {
	for _, r := range s.routes {
		if !slices.ContainsFunc(routes, func(other forward.Route) bool { return other.Receiver == r.Receiver }) {
			routes = append(routes, r)
		}
	}
	return routes
}

// Close releases the connections of the receivers.
func (s *Set) Close() {
	for _, r := range s.opened {
		if o, ok := r.(interface{ Close() }); ok {
			o.Close()
		}
	}
}

// take parses a table and puts it into force, either all of it or nothing.
func (s *Set) take(text string) error {
	var lines []Line
	if s.c.Forward.RoutesFile != "" {
		var err error
		if lines, err = s.parse(text); err != nil {
			return err
		}
	}
	lines = append(lines, s.settings()...)
	webhooks := map[string]Address{}
	var routes []forward.Route
	for n, l := range lines {
		for _, a := range l.To {
			if a.Kind == "webhook" {
				if other, known := webhooks[a.Value]; known && other != a {
					return l.unusable(a, "one address has two secrets or two templates; "+
						"use a different address for one of them (another query is enough)")
				}
				webhooks[a.Value] = a
			}
			if s.only != "" && s.only != a.Kind {
				continue
			}
			o, err := s.open(a)
			// the constructor is stricter than the configuration; its error quotes nothing
			if err != nil {
				return l.unusable(a, err.Error())
			}
			routes = append(routes, forward.Route{
				Receiver: o, Filter: l.Filter, Line: n + 1, Forwarder: cmp.Or(s.name, a.Kind),
			})
		}
	}
	s.text, s.lines, s.routes = text, lines, routes
	return nil
}

// unusable says why an address of a line cannot be used.
func (l Line) unusable(a Address, why string) error {
	if l.Number > 0 {
		return &mistake{l.Number, 1, "", "a receiver cannot be used: " + why}
	}
	return &config.Error{Problems: []config.Problem{{
		Name: Needed[a.Kind],
		Text: "and related settings cannot be used: " + why,
	}}}
}

// open opens a receiver, or returns the one that is already open.
func (s *Set) open(a Address) (o forward.Receiver, err error) {
	if o = s.opened[a]; o != nil {
		return o, nil
	}
	f, plaintext := s.c.Forward, s.c.Base.AllowPlaintext
	switch a.Kind {
	case "slack":
		o, err = slack.New(s.hook(a), messages(s.c, f.SlackPeople))
	case "teams":
		o, err = teams.New(s.hook(a), messages(s.c, f.TeamsPeople))
	case "email":
		m := mailTo(s.c, a.Value)
		m.OpenImmo, m.Name = f.EmailOpenimmo, cmp.Or(s.name, a.Kind)
		o, err = email.New(m)
	case "webhook":
		o, err = webhook.New(webhook.Options{
			URL: a.Value, Secrets: a.secrets, Template: s.c.Templates[a.template],
			AllowPlaintext: plaintext, Version: s.version,
		})
	default: // never another kind in its place: a webhook gets the whole person
		err = errors.New("no receiver is known for " + a.Kind)
	}
	if err == nil {
		s.opened[a] = o
	}
	return o, err
}

// mailTo returns the options of every mail to an address.
func mailTo(c *config.Config, address string) email.Options {
	f := c.Forward
	return email.Options{
		SMTP: f.EmailSMTP, Password: f.EmailPassword.Reveal(), From: f.EmailFrom, To: address,
		AllowPlaintext: c.Base.AllowPlaintext, Message: messages(c, config.FullPeople),
	}
}

// hook is the address of a chat.
func (s *Set) hook(a Address) forward.Hook {
	return forward.Hook{
		URL: a.Value, AllowPlaintext: s.c.Base.AllowPlaintext,
		UserAgent: "doorbell/" + s.version,
	}
}

// messages says who reads, and how much of a person they see.
func messages(c *config.Config, people string) message.Options {
	f := c.Forward
	return message.Options{
		Language: f.Language.Language, Name: f.AgencyNames.Revealed, Location: zurich(),
		Instance: c.Base.Instance,
		Short:    people != config.FullPeople,
	}
}

// Watch rereads the routes file until ctx ends. When the file has changed it logs that and calls
// changed, with the new routes or with the reason why they are not used.
func (s *Set) Watch(ctx context.Context, log *slog.Logger,
	changed func(routes []forward.Route, problem string),
) {
	if s.c.Forward.RoutesFile == "" {
		return
	}
	_ = config.Watch(ctx, nil, reading{text: s.text}, s.read, func(now reading) error {
		if err := s.use(now); err != nil {
			log.Error("the changed table of routes is refused; the previous one stays in force",
				"err", err.Error())
			changed(nil, err.Error())
			return nil
		}
		log.Info("the table of routes was read again", "outlets", len(s.routes))
		changed(s.routes, "")
		return nil
	})
}

// settings returns the lines that the settings make.
func (s *Set) settings() (lines []Line) {
	f := s.c.Forward
	add := func(kind, setting string, named []string, of func(string) string, types []string) {
		for _, share := range sharesOf(named, of) {
			l := Line{
				Setting: setting,
				Filter:  forward.Filter{Types: types, Agencies: share.agencies, Except: share.except},
			}
			for _, value := range split(kind, share.value) {
				a := Address{Kind: kind, Value: value}
				if kind == "webhook" {
					parts := strings.Split(value, "\x00")
					a.Value, a.secrets, a.template = parts[0], parts[1], parts[2]
					if t := s.c.Templates[a.template]; t != nil && len(t.Types) > 0 {
						l.Filter.Types = t.Types
					}
				}
				l.To = append(l.To, a)
			}
			lines = append(lines, l)
		}
	}
	leads := []string{string(events.TypeContactRequestCreated)}
	// Alerts of an agency without an address for them go where its leads go. By mail they go first
	// to the address for all agencies, if there is one: the people who answer leads can do nothing
	// about a key. Without one, an alert at the wrong person is better than one that is not sent.
	mailAlerts := func(agency string) string {
		return cmp.Or(f.EmailAlertsTo.Revealed(agency), f.EmailTo.Revealed(config.AnyAgency),
			f.EmailTo.Revealed(agency))
	}
	// An agency with its own secret or template has its own share.
	webhookOf := func(agency string) string {
		if f.WebhookURL.Of(agency).IsZero() {
			return ""
		}
		return strings.Join([]string{
			f.WebhookURL.Revealed(agency), f.WebhookSecret.Revealed(agency),
			f.WebhookTemplateFile.Revealed(agency),
		}, "\x00")
	}
	chat := func(kind, setting string, url, alertsURL config.PerAgency) {
		add(kind, setting+"_URL", url.Named, url.Revealed, leads)
		add(kind, setting+"_ALERTS_URL", config.NamedIn(url, alertsURL), func(agency string) string {
			return cmp.Or(alertsURL.Revealed(agency), url.Revealed(agency))
		}, alerts())
	}
	chat("slack", "DOORBELL_SLACK", f.SlackURL, f.SlackAlertsURL)
	chat("teams", "DOORBELL_TEAMS", f.TeamsURL, f.TeamsAlertsURL)
	add("email", "DOORBELL_EMAIL_TO", f.EmailTo.Named, f.EmailTo.Revealed, leads)
	add("email", "DOORBELL_EMAIL_ALERTS_TO",
		config.NamedIn(f.EmailTo, f.EmailAlertsTo), mailAlerts, alerts())
	add("webhook", "DOORBELL_WEBHOOK_URL",
		config.NamedIn(f.WebhookURL, f.WebhookSecret, f.WebhookTemplateFile), webhookOf,
		[]string{">"})
	return lines
}

// split returns the addresses of a value. Each is a receiver of its own, so that no address waits
// for the mailbox of another.
func split(kind, value string) []string {
	if kind == "email" {
		return config.Recipients(value)
	}
	return []string{value}
}

// alerts returns the types of access and watch except watch.baselined: messages that need no action
// teach people to ignore the rest.
func alerts() []string {
	types := []string{"access.>"}
	for _, t := range events.Types {
		if strings.HasPrefix(string(t), "watch.") && t != events.TypeWatchBaselined {
			types = append(types, string(t))
		}
	}
	return types
}

// share is the agencies that have one value in common: either a list of them, or all except those
// in other shares.
type share struct {
	value            string
	agencies, except []string
}

// sharesOf returns the shares of the agencies that have a value of their own, and that of all
// others. An empty value makes no share.
func sharesOf(named []string, of func(agency string) string) (shares []share) {
	rest := share{value: of(config.AnyAgency)}
	for _, agency := range named {
		v := of(agency)
		if v == rest.value {
			continue
		}
		rest.except = append(rest.except, agency)
		at := slices.IndexFunc(shares, func(s share) bool { return s.value == v })
		if at < 0 {
			at, shares = len(shares), append(shares, share{value: v})
		}
		shares[at].agencies = append(shares[at].agencies, agency)
	}
	shares = append(shares, rest)
	return slices.DeleteFunc(shares, func(s share) bool { return s.value == "" })
}

// zurich is the time zone of the readers. It is embedded in the binary.
func zurich() *time.Location { return message.Zone("Europe/Zurich") }

// Outcome puts a receiver's error into words. Only *forward.Retry and *forward.Refused are quoted:
// any other error may contain an address.
func Outcome(err error) (word, reason string) {
	var later *forward.Retry
	var never *forward.Refused
	switch {
	case errors.As(err, &never):
		return "refused", never.Reason
	case errors.As(err, &later):
		return "later", later.Reason
	}
	return "later", "the receiver failed"
}
