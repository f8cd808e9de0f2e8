// Package check reports whether `doorbell run` would work with this configuration, here and now:
// whether its key opens each agency, what one response shows, NATS and its stream, and the disk.
// Each finding is one line, with what to do about it. A check sends one request for each agency and
// a few more, beside a running daemon at most one a second, and changes nothing.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Options configure a check. All are required.
type Options struct {
	Config   *config.Config // with the groups Poll and Forward
	Version  string         // of doorbell
	Progress io.Writer      // gets a line before a long wait
}

// Run checks everything. It returns an error only when the context ends.
func Run(ctx context.Context, o Options) (*Report, error) {
	c := newChecker(o)
	c.configuration()
	if c.findDaemon(ctx) {
		c.disk()
		c.nats(ctx)
		c.page()
		c.api(ctx)
	}
	return c.report, ctx.Err()
}

// Refused is the report of a configuration that has errors.
func Refused(err error) *Report {
	r := newReport()
	r.refuse(sectionConfig, err)
	return r
}

// checker writes what it finds into its report.
type checker struct {
	Options
	report *Report
	daemon *ops.Status               // the state of a running one
	halts  map[string]halt           // by agency: scopes that run does not request
	places map[string]listings.Place // by agency: where its list stood before
}

func newChecker(o Options) *checker {
	return &checker{Options: o, report: newReport(), halts: map[string]halt{}, places: map[string]listings.Place{}}
}

// halt is why an agency, or all its contact requests, are not requested.
type halt struct {
	scope          events.Scope
	status         int
	reason, advice string
}

// configuration reports what is configured, and a table of routes that run would refuse.
func (c *checker) configuration() {
	keys := map[string]bool{}
	for _, a := range c.Config.Agencies {
		keys[a.Key.Fingerprint()] = true
	}
	with := fmt.Sprintf("%d keys", len(keys))
	if len(keys) == 1 {
		with = "key " + c.Config.Agencies[0].Key.Fingerprint()
	}
	c.report.ok(sectionConfig, "%s at %s, with %s",
		ops.Counted(len(c.Config.Agencies), "agency"), c.Config.Poll.BaseURL, with)
	for _, w := range c.Config.Warnings {
		c.report.warn(sectionConfig, w, "")
	}
	set, err := receivers.Open(c.Config, c.Version)
	switch {
	case err != nil:
		c.report.refuse(sectionConfig, err)
		return
	case set.IsEmpty():
		c.report.ok(sectionConfig, "no receiver: events go to NATS alone")
	default:
		c.report.ok(sectionConfig, "%s, not tried here: doorbell routes ls lists them, doorbell forward --test sends a test",
			ops.Counted(len(set.Distinct()), "receiver"))
	}
	set.Close()
}

// findDaemon asks the daemon over its socket, or reads the store if none runs. It reports whether
// anything else can be checked.
func (c *checker) findDaemon(ctx context.Context) bool {
	s, err := options.Client(c.Config.Base).Status(ctx)
	switch {
	case errors.Is(err, ops.ErrNoAnswer):
		return c.readStore()
	case err != nil:
		c.report.fail(sectionDaemon, "the daemon does not report its state: "+err.Error(), "look at its log")
		return false
	}
	c.daemon, c.report.DaemonRunning = &s, true
	c.report.ok(sectionDaemon, "running since %s; `doorbell status` shows how it does", s.Started.Format(time.RFC3339))
	for _, a := range s.Watch.Agencies {
		if path, known := a.Places[listings.OperationInsertions]; known {
			c.places[a.AgencyID] = listings.Place{Known: true, Path: path}
		}
		for _, h := range a.Halts {
			if h.Scope != events.ScopeInsertion {
				c.halts[a.AgencyID] = halt{h.Scope, h.Status, h.ProbableReason, h.Advice}
			}
		}
	}
	return true
}

// readStore reads what a stopped daemon remembers.
func (c *checker) readStore() bool {
	dir := c.Config.Base.DataDir
	kept, err := store.OpenReadOnly(store.Options{Dir: dir, BaseURL: c.Config.Poll.BaseURL})
	if err == nil {
		defer kept.Close()
		err = kept.View(func(tx *store.Tx) error {
			for _, k := range options.Poller(c.Config, c.Version).Agencies {
				access := poller.RememberedAccess(tx, k)
				c.places[k.ID] = access.Place
				if h := access.Halt; h != nil {
					c.halts[k.ID] = halt{h.Scope, h.Status, h.ProbableReason, h.Advice}
				}
			}
			return nil
		})
	}
	if errors.As(err, new(*store.LockedError)) {
		c.report.refuse(sectionDaemon, exit.Unavailable(
			fmt.Errorf("the daemon holds the store and does not answer: %w", err), exit.AdviceOnHolder))
		return false
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.report.refuse(SectionDisk, exit.Store(err, dir))
	}
	return true
}
