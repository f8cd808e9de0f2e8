package poller

import (
	"log/slog"
	"net/url"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Options of New. Zero values mean the defaults that stand beside them.
type Options struct {
	Store    *store.Store
	API      listings.Options // Gate is set by the poller
	Agencies []AgencyKeys     // whom to watch
	Logger   *slog.Logger     // default: none
	Metrics  *Metrics         // default: new ones

	Announce          bool          // BASELINE=emit: what was there before is announced, marked as baseline
	RequestsPerSecond float64       // 5; ceiling over everything
	PollInterval      time.Duration // 30 s; least time between two regular polls of one insertion
	MaxStaleness      time.Duration // 0: four rounds of polls at the ceiling; no insertion waits longer, as far as the ceiling allows
	WalkInterval      time.Duration // 2 min; wished time between walks of an agency
	RetryMax          time.Duration // 5 min; longest back-off
	HoldFor           time.Duration // 30 min; how long an implausible change is not believed
	Retention         time.Duration // 0: for ever; how long the stream knows what it was given
	Filter            url.Values    // the API's own filters
	IgnoreInsertion   []string      // RFC 6901 pointers left out of digests
	IgnoreContact     []string
	IDFields          []string // candidates for the id of a contact request; default listings.IDFields
}

// AgencyKeys names an agency, the key that opens it, and what of a person its events say.
type AgencyKeys struct {
	ID     string
	Key    listings.Key
	People events.People
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	if o.RequestsPerSecond <= 0 {
		o.RequestsPerSecond = 5
	}
	if o.PollInterval <= 0 {
		o.PollInterval = 30 * time.Second
	}
	o.MaxStaleness = max(o.MaxStaleness, 0)
	if o.MaxStaleness > 0 { // an interval that is not well below it would use up the time in which the poll can be made
		o.PollInterval = min(o.PollInterval, o.MaxStaleness/10*9+o.MaxStaleness%10*9/10)
	}
	if o.WalkInterval <= 0 {
		o.WalkInterval = 2 * time.Minute
	}
	if o.RetryMax <= 0 {
		o.RetryMax = 5 * time.Minute
	}
	if o.HoldFor <= 0 {
		o.HoldFor = 30 * time.Minute
	}
	if len(o.IDFields) == 0 {
		o.IDFields = listings.IDFields
	}
	return o
}
