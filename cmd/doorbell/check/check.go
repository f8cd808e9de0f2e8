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
	"slices"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
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
	c := &checker{Options: o, report: newReport(), halts: map[string]halt{}, places: map[string]listings.Place{}}
	c.configuration()
	c.receivers()
	if c.findDaemon(ctx) {
		c.disk()
		c.nats(ctx)
		c.page()
		c.api(ctx)
	}
	c.report.conclude()
	return c.report, ctx.Err()
}

// Refused is the report of a configuration that has errors.
func Refused(err error) *Report {
	r := newReport()
	r.refuse(sectionConfig, err)
	r.conclude()
	return r
}

// checker writes what it finds into its report.
type checker struct {
	Options
	report *Report
	daemon *ops.Status               // of the running daemon; nil: none runs
	halts  map[string]halt           // by agency: scopes that run does not request
	places map[string]listings.Place // by agency: where its list stood before
}

// halt is why an agency, or all its contact requests, are not requested.
type halt struct {
	scope          events.Scope
	status         int
	reason, advice string
}

func (c *checker) configuration() {
	keys := map[string]bool{}
	for _, a := range c.Config.Agencies {
		keys[a.Key.Fingerprint()] = true
	}
	with := fmt.Sprintf("%d keys", len(keys))
	if len(keys) == 1 {
		with = "key " + c.Config.Agencies[0].Key.Fingerprint()
	}
	c.report.ok(sectionConfig, "%s at %s, with %s", ops.Counted(len(c.Config.Agencies), "agency"), c.Config.Poll.BaseURL.Masked(), with)
	for _, w := range c.Config.Warnings {
		c.report.warn(sectionConfig, w, "")
	}
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
	if s.Watch.BaseURL != string(c.Config.Poll.BaseURL) {
		c.report.warn(sectionDaemon, "it watches another API: "+config.Address(s.Watch.BaseURL).Masked(), "was the configuration changed after its start?")
	}
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
	kept, err := store.OpenReadOnly(store.Options{Dir: dir, BaseURL: string(c.Config.Poll.BaseURL)})
	var locked *store.LockedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case errors.As(err, &locked):
		c.report.refuse(sectionDaemon, exit.Unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), exit.AdviceOnHolder))
		return false
	case err != nil:
		c.report.refuse(SectionDisk, exit.Store(err, dir))
		return true
	}
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
	if err != nil {
		c.report.refuse(SectionDisk, exit.Store(err, dir))
	}
	return true
}

// page tries the address of the page, as run does.
func (c *checker) page() {
	switch b := c.Config.Base; {
	case c.daemon != nil:
	case !b.HasHTTP():
		c.report.ok(SectionPage, "none, and no health and metrics (DOORBELL_HTTP_LISTEN=off)")
	default:
		if err := daemon.TryHTTP(b.HTTPListen); err != nil {
			c.report.refuse(SectionPage, err)
			return
		}
		c.report.ok(SectionPage, "at %s, which is free", b.HTTPListen)
	}
}

// sections are in the order of a reader. What takes the least time is checked first.
var sections = []string{
	sectionConfig, sectionDaemon, SectionAPI, SectionResponses, sectionBudget, SectionNATS, sectionReceivers, SectionPage, SectionDisk,
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Lines, func(a, b Line) int {
		return slices.Index(sections, a.Section) - slices.Index(sections, b.Section)
	})
}
