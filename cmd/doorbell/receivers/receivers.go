// Package receivers makes, from the configuration, what brings events to people: the receivers of each kind, and the routes by which the
// events of an agency reach the receiver of its address ([All]). Agencies with the same address share one receiver, for it is the receiver
// that keeps the pace a service allows.
package receivers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/events/forward"
	"doorbell/events/forward/email"
	"doorbell/events/forward/slack"
	"doorbell/events/forward/webhook"
)

// Kind is a kind of receiver. There is one forwarder for each.
type Kind struct {
	Name   string
	Needed string // the variable without which there is none
	routes func(c *config.Config, name, version string) ([]forward.Route, error)
}

// Kinds are all kinds of receivers.
var Kinds = []Kind{
	{"slack", "DOORBELL_SLACK_URL", slackRoutes},
	{"email", "DOORBELL_EMAIL_TO", emailRoutes},
	{"webhook", "DOORBELL_WEBHOOK_URL", webhookRoutes},
}

// IsKind says whether a kind has this name.
func IsKind(name string) bool {
	return slices.ContainsFunc(Kinds, func(k Kind) bool { return k.Name == name })
}

// All are the forwarders that are configured. Version is that of doorbell, which requests name. The error is a *config.Error.
func All(c *config.Config, version string) ([]daemon.Forwarder, error) {
	var all []daemon.Forwarder
	for _, k := range Kinds {
		f, err := New(c, k.Name, k.Name, version)
		if err != nil {
			return nil, err
		}
		if len(f.Routes) > 0 {
			all = append(all, f)
		}
	}
	return all, nil
}

// New makes the receivers of a kind, for a forwarder of a name. It has no routes where none is configured.
func New(c *config.Config, kind, name, version string) (daemon.Forwarder, error) {
	f := daemon.Forwarder{Name: name}
	for _, k := range Kinds {
		if k.Name != kind {
			continue
		}
		routes, err := k.routes(c, name, version)
		if err != nil { // what a constructor minds and the reading of the configuration does not; it quotes nothing
			return f, &config.Error{Problems: []config.Problem{{Name: k.Needed, Text: "and its like cannot be used: " + err.Error()}}}
		}
		f.Routes = routes
	}
	return f, nil
}

// share is the agencies that have one value in common: those that are named, or all but those that are named elsewhere.
type share[T comparable] struct {
	value            T
	agencies, except []string
}

// sharesOf tells agencies apart by their value. The zero value is none. Where only is given, nobody else counts.
func sharesOf[T comparable](named []string, of func(agency string) T, only []string) []share[T] {
	var none T
	rest := share[T]{value: of(config.AnyAgency)}
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
func (s share[T]) filter(types config.EventTypes, least config.Score) forward.Filter {
	return forward.Filter{Types: types, Agencies: s.agencies, Except: s.except, MinScore: least.Least}
}

// twoPlaces is a kind of receiver of which leads and alerts may go to two places.
type twoPlaces struct {
	types         config.EventTypes
	least         config.Score
	only          []string // agencies; nil: all
	leads, alerts config.PerAgency
	// otherwise is where alerts of an agency go that has no place for them.
	otherwise func(agency string) string
	// split is the addresses of a value: each is a receiver of its own, so that none waits for
	// the mailbox of another.
	split func(value string) []string
	open  func(address string) (forward.Receiver, error)
}

// routes has leads and alerts apart. One receiver serves both where they go to one place: it is it that keeps the pace.
func (p twoPlaces) routes() ([]forward.Route, error) {
	receivers := map[string]forward.Receiver{}
	var routes []forward.Route
	add := func(kind forward.Kind, named []string, of func(string) string) error {
		if !p.types.Have(kind) { // a test would say that it works
			return nil
		}
		for _, s := range sharesOf(named, of, p.only) {
			filter := s.filter(p.types, p.least)
			filter.Only = kind
			for _, address := range p.split(s.value) {
				if receivers[address] == nil {
					o, err := p.open(address)
					if err != nil {
						return err
					}
					receivers[address] = o
				}
				routes = append(routes, forward.Route{Receiver: receivers[address], Filter: filter})
			}
		}
		return nil
	}
	err := add(forward.Leads, p.leads.Named, p.leads.Revealed)
	if err == nil {
		err = add(forward.Alerts, config.NamedIn(p.leads, p.alerts), func(agency string) string {
			return cmp.Or(p.alerts.Revealed(agency), p.otherwise(agency))
		})
	}
	return routes, err
}

func slackRoutes(c *config.Config, _, version string) ([]forward.Route, error) {
	f := c.Forward
	return twoPlaces{
		types: f.SlackTypes, least: f.SlackMinScore, only: f.SlackAgencies,
		leads: f.SlackURL.PerAgency, alerts: f.SlackAlertsURL.PerAgency, otherwise: f.SlackURL.Revealed,
		split: func(value string) []string { return []string{value} },
		open: func(value string) (forward.Receiver, error) {
			return slack.New(slack.Options{
				URL: value, People: slack.People(f.SlackPeople), AllowPlaintext: c.Base.AllowPlaintext, Zone: zurich(), UserAgent: "doorbell/" + version,
				Language: f.Language.Language, AgencyName: f.AgencyNames.Revealed,
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

// emailRoutes sends the alerts of all agencies to one place where nothing else is said: those who answer leads can do nothing about
// a key. Better to the wrong person than to nobody, where there is no such place.
func emailRoutes(c *config.Config, name, _ string) ([]forward.Route, error) {
	f := c.Forward
	var operators []string
	for _, v := range f.EmailAlertsTo.All() {
		operators = append(operators, config.Recipients(v.Reveal())...)
	}
	return twoPlaces{
		types: f.EmailTypes.Mailed(), least: f.EmailMinScore, only: f.EmailAgencies,
		leads: f.EmailTo.PerAgency, alerts: f.EmailAlertsTo.PerAgency,
		otherwise: func(agency string) string {
			return cmp.Or(f.EmailTo.Revealed(config.AnyAgency), f.EmailTo.Revealed(agency))
		},
		split: config.Recipients,
		open: func(address string) (forward.Receiver, error) {
			return email.New(email.Options{
				SMTP: string(f.EmailSMTP), Password: f.EmailPassword.Reveal(), From: string(f.EmailFrom), To: []string{address},
				OpenImmo: f.EmailOpenimmo, Operators: slices.Contains(operators, address), AllowPlaintext: c.Base.AllowPlaintext, Name: name, Location: zurich(),
				Language: f.Language.Language, AgencyName: f.AgencyNames.Revealed,
			})
		},
	}.routes()
}

func webhookRoutes(c *config.Config, _, version string) ([]forward.Route, error) {
	f := c.Forward
	type target struct{ url, secrets string }
	of := func(agency string) target {
		if f.WebhookURL.Of(agency).IsZero() {
			return target{}
		}
		return target{f.WebhookURL.Revealed(agency), f.WebhookSecret.Revealed(agency)}
	}
	var routes []forward.Route
	for _, s := range sharesOf(config.NamedIn(f.WebhookURL.PerAgency, f.WebhookSecret.PerAgency), of, f.WebhookAgencies) {
		o, err := webhook.New(webhook.Options{URL: s.value.url, Secrets: s.value.secrets, AllowPlaintext: c.Base.AllowPlaintext, Version: version})
		if err != nil {
			return nil, err
		}
		routes = append(routes, forward.Route{Receiver: o, Filter: s.filter(f.WebhookTypes, f.WebhookMinScore)})
	}
	return routes, nil
}

// Outcome puts a receiver's error into words. What is none of the errors that receivers promise may hold an address: it is not quoted.
func Outcome(err error) (word, reason string) {
	var (
		later *forward.Retry
		never *forward.Refused
	)
	switch {
	case errors.As(err, &never):
		return "refused", never.Reason
	case errors.As(err, &later) && later.After > 0:
		return "later", later.Reason + "; not again before " + later.After.Round(time.Second).String()
	case errors.As(err, &later):
		return "later", later.Reason
	case errors.Is(err, context.Canceled):
		return "later", "stopped"
	case errors.Is(err, context.DeadlineExceeded):
		return "later", "no answer in time"
	}
	return "later", "the receiver failed"
}
