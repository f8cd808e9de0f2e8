package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/email"
	"doorbell/events/forward/slack"
	"doorbell/events/forward/webhook"
)

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

// slackRoutes has leads and alerts apart, for they may go to two channels. One outlet serves both where they go to one: it is it that
// keeps the pace.
func slackRoutes(c *Config, _ string) ([]forward.Route, error) {
	f := c.Forward
	outlets := map[string]forward.Outlet{}
	var routes []forward.Route
	add := func(kind forward.Kind, named []string, of func(string) string) error {
		if !f.SlackTypes.have(kind) { // a test would say that it works
			return nil
		}
		for _, s := range sharesOf(named, of, f.SlackAgencies) {
			if outlets[s.value] == nil {
				o, err := slack.New(slack.Options{
					URL: s.value, People: slack.People(f.SlackPeople), AllowPlaintext: c.Base.AllowPlaintext, Zone: zurich(), UserAgent: "doorbell/" + version(),
				})
				if err != nil {
					return err
				}
				outlets[s.value] = guard(o)
			}
			filter := s.filter(f.SlackTypes, f.SlackMinScore)
			filter.Only = kind
			routes = append(routes, forward.Route{Outlet: outlets[s.value], Filter: filter})
		}
		return nil
	}
	alerts := func(agency string) string {
		if v := f.SlackAlertsURL.revealed(agency); v != "" {
			return v
		}
		return f.SlackURL.revealed(agency)
	}
	err := add(forward.Leads, f.SlackURL.order, f.SlackURL.revealed)
	if err == nil {
		err = add(forward.Alerts, union(f.SlackURL.order, f.SlackAlertsURL.order), alerts)
	}
	return routes, err
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

func emailRoutes(c *Config, name string) ([]forward.Route, error) {
	f := c.Forward
	var routes []forward.Route
	for _, s := range sharesOf(f.EmailTo.order, f.EmailTo.revealed, f.EmailAgencies) {
		o, err := email.New(email.Options{
			SMTP: string(f.EmailSMTP), Password: f.EmailPassword.Reveal(), From: string(f.EmailFrom), To: recipients(s.value),
			OpenImmo: f.EmailOpenimmo, AllowPlaintext: c.Base.AllowPlaintext, Name: name,
		})
		if err != nil {
			return nil, err
		}
		routes = append(routes, forward.Route{Outlet: guard(o), Filter: s.filter(f.EmailTypes, f.EmailMinScore)})
	}
	return routes, nil
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
		o, err := webhook.New(webhook.Options{URL: s.value.url, Secrets: s.value.secrets, AllowPlaintext: c.Base.AllowPlaintext, Version: version()})
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
			err = &forward.Never{Reason: fmt.Sprintf("it cannot be told: a fault of doorbell, %T", p)} // the value may quote a person
		}
		g.note(err)
	}()
	return g.Outlet.Send(ctx, d)
}

// note remembers since when nothing is taken. A delivery that is refused for good says that somebody is there.
func (g *guarded) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil || errors.As(err, new(*forward.Never)) {
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
