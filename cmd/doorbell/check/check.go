// Package check reports whether `doorbell run` would work with this configuration, here and now:
// whether its key opens each agency, what one response shows, NATS and its stream, and the disk.
// Each finding is one line, with what to do about it. A check sends one request for each agency and
// a few more, beside a running daemon at most one a second, and changes nothing.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/time/rate"

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

// Run checks everything. The configuration has the groups Poll and Forward. It returns an error
// only when the context ends.
func Run(ctx context.Context, cfg *config.Config, version string) (*Report, error) {
	c := newChecker(cfg, version)
	c.configuration(version)
	if err := c.findDaemon(ctx); err != nil {
		c.report.refuse(SectionDisk, err)
	}
	if c.report.ExitCode == exit.CodeUnavailable {
		return c.report, ctx.Err()
	}
	c.disk()
	c.nats(ctx)
	if err := c.connect(); err != nil {
		c.report.refuse(sectionConfig, err)
	} else if agency, list := c.access(ctx); list != nil {
		c.responses(ctx, agency, list)
		c.round()
	}
	return c.report, ctx.Err()
}

// Key requests the list of every configured agency once, with the key of the configuration, and
// nothing else. It uses neither the store nor the daemon: the key in use, its halts and its polls
// stay as they are.
func Key(ctx context.Context, cfg *config.Config, version string) (*Report, error) {
	c := newChecker(cfg, version)
	_, err := options.Client(cfg.Base).Status(ctx)
	c.report.DaemonRunning = !errors.Is(err, ops.ErrNoAnswer)
	if err := c.connect(); err != nil {
		return nil, err
	}
	c.access(ctx)
	return c.report, ctx.Err()
}

// Refused is the report of a configuration that has errors.
func Refused(err error) *Report {
	r := &Report{}
	r.refuse(sectionConfig, err)
	return r
}

// checker writes what it finds into its report. It is the gate of its requests.
type checker struct {
	config     *config.Config
	poll       poller.Options
	client     *listings.Client
	report     *Report
	halts      map[string]*store.Halt    // by agency: of all of it or of its contact requests
	places     map[string]listings.Place // by agency: where its list was before
	insertions int                       // of all agencies
	limit      *rate.Limiter
	request    listings.Request // that was begun last
}

func newChecker(cfg *config.Config, version string) *checker {
	return &checker{
		config: cfg, poll: options.Poller(cfg, version), report: &Report{},
		halts: map[string]*store.Halt{}, places: map[string]listings.Place{},
	}
}

// configuration reports what is configured, and a table of routes that run would refuse.
func (c *checker) configuration(version string) {
	c.report.ok(sectionConfig, "%s at %s", ops.Counted(len(c.config.Agencies), "agency"),
		c.config.Poll.BaseURL)
	set, err := receivers.Open(c.config, version)
	if err != nil {
		c.report.refuse(sectionConfig, err)
		return
	}
	defer set.Close()
	c.report.ok(sectionConfig,
		"%s, not tested here: doorbell routes ls lists them, doorbell forward --test sends a test",
		ops.Counted(len(set.Distinct()), "receiver"))
}

// findDaemon asks the daemon over its socket, or reads what a stopped one remembers.
func (c *checker) findDaemon(ctx context.Context) error {
	s, err := options.Client(c.config.Base).Status(ctx)
	if errors.Is(err, ops.ErrNoAnswer) {
		return c.readStore()
	}
	if err != nil {
		return exit.Unavailable(fmt.Errorf("the daemon does not report its state: %w", err),
			"check its log")
	}
	c.report.DaemonRunning = true
	c.report.ok(SectionDisk, "a daemon is running here; doorbell status shows its state")
	if s.NATS.Problem != "" || !s.NATS.Connected {
		c.report.fail(SectionNATS,
			"the daemon is not publishing: "+cmp.Or(s.NATS.Problem, "it has no connection"),
			"see doorbell status")
	}
	for _, a := range s.Watch.Agencies {
		if path, known := a.Places[listings.OperationInsertions]; known {
			c.places[a.AgencyID] = listings.Place{Known: true, Path: path}
		}
		for _, h := range a.Halts {
			if h.Scope != events.ScopeInsertion {
				c.halts[a.AgencyID] = &store.Halt{
					Scope: h.Scope, Status: h.Status, ProbableReason: h.ProbableReason,
					Advice: h.Advice,
				}
			}
		}
	}
	return nil
}

func (c *checker) readStore() error {
	dir := c.config.Base.DataDir
	kept, err := store.OpenReadOnly(store.Options{Dir: dir, BaseURL: c.config.Poll.BaseURL})
	if err == nil {
		defer kept.Close()
		err = kept.View(func(tx *store.Tx) error {
			for _, k := range c.poll.Agencies {
				access := poller.RememberedAccess(tx, k)
				c.places[k.ID], c.halts[k.ID] = access.Place, access.Halt
			}
			return nil
		})
	}
	if errors.As(err, new(*store.LockedError)) {
		return exit.Held(err)
	}
	if errors.Is(err, fs.ErrNotExist) { // the first start makes it
		return nil
	}
	return exit.Store(err, dir)
}
