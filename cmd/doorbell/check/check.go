// Package check says whether `doorbell run` would work, with this configuration, here and now: the access of each agency, how the API
// answers, NATS, the receivers, the disk. It sends a few requests within the budget, none beside a running daemon, and leaves nothing
// behind.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Options are what a check needs to know.
type Options struct {
	Config   *config.Config // with the groups Poll and Forward
	Version  string         // of doorbell
	Progress io.Writer      // hears what takes long
}

// Run looks at everything. The error is that of the context.
func Run(ctx context.Context, o Options) (*Report, error) {
	c := &checker{Options: o, o: options.Poller(o.Config, o.Version), report: newReport(), keys: map[string]poller.Access{}}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	c.report.conclude()
	return c.report, nil
}

// Refused is the report where the configuration was refused.
func Refused(err error) *Report {
	r := newReport()
	r.refuse(sectionConfig, err)
	r.conclude()
	return r
}

func newReport() *Report { return &Report{Lines: []checkLine{}, Agencies: []checkedAgency{}} }

// checker looks at everything that run needs, and writes what it finds into its report.
type checker struct {
	Options
	report  *Report
	daemon  ops.Status               // if one runs
	storeID string                   // if there is a store
	keys    map[string]poller.Access // by agency: which key run would show
	notes   []*notes

	o        poller.Options
	client   *listings.Client
	left     int // requests for the agency that is asked about
	spacing  *spacing
	size     int  // of a page of insertions that the API took; -1: it was left to the API; 0: nothing is known
	answered bool // the API gave a good answer
}

func (c *checker) run(ctx context.Context) error {
	for _, k := range c.o.Agencies {
		c.keys[k.ID] = poller.Access{Key: k.Key}
	}
	c.configuration()
	c.receivers()
	if !c.findDaemon(ctx) {
		return nil
	}
	c.receiversOfDaemon()
	c.disk()
	c.nats(ctx)
	c.page()
	if err := c.api(ctx); err != nil {
		return err
	}
	c.inOrder()
	return ctx.Err()
}

// inOrder puts the sections into the order of a reader: what is quick is looked at first, but is not what matters most.
func (c *checker) inOrder() {
	order := []string{sectionConfig, sectionDaemon, SectionAPI, SectionAnswers, sectionBudget, SectionNATS, sectionReceivers, SectionPage, SectionDisk}
	slices.SortStableFunc(c.report.Lines, func(a, b checkLine) int {
		return slices.Index(order, a.Section) - slices.Index(order, b.Section)
	})
}

func (c *checker) configuration() {
	keys := map[string]bool{}
	for _, a := range c.Config.Agencies {
		keys[a.Key.Fingerprint()] = true
	}
	text := fmt.Sprintf("%s at %s", ops.Counted(len(c.Config.Agencies), "agency"), c.Config.Poll.BaseURL.Masked())
	if len(keys) == 1 {
		text += ", with one key, " + c.Config.Agencies[0].Key.Fingerprint()
	} else {
		text += fmt.Sprintf(", with %d keys", len(keys))
	}
	c.report.ok(sectionConfig, "%s%s", text, c.keySources())
	for _, w := range c.Config.Warnings {
		c.report.warn(sectionConfig, w, "")
	}
}

// keySources names the variables that keys are read from: there a refused one is replaced.
func (c *checker) keySources() string {
	var names []string
	for _, s := range c.Config.Settings {
		if !strings.HasPrefix(s.Name, "DOORBELL_API_KEY") || s.Source == config.SourceDefault {
			continue
		}
		name := s.Name
		if path, is := strings.CutPrefix(s.Source, config.SourceFile); is {
			name += " (file " + path + ")"
		}
		names = append(names, name)
	}
	return " from " + strings.Join(names, " and ")
}

// findDaemon asks the socket, and the store if nobody answers there. It returns false if there is no use in looking on.
func (c *checker) findDaemon(ctx context.Context) bool {
	b := c.Config.Base
	s, err := options.Client(b).Status(ctx)
	if err == nil {
		c.daemon, c.report.DaemonRunning, c.storeID = s, true, s.StoreID
		c.report.ok(sectionDaemon, "running since %s; this report is about it, a second one would be refused",
			s.Started.Format(time.RFC3339))
		if s.Watch.BaseURL != string(c.Config.Poll.BaseURL) {
			c.report.warn(sectionDaemon, "it watches another API: "+config.Address(s.Watch.BaseURL).Masked(), "was the configuration changed after its start?")
		}
		return true
	}
	if !errors.Is(err, ops.ErrNoAnswer) {
		c.report.DaemonRunning = true
		c.report.fail(sectionDaemon, "the daemon answers, but does not say how it is: "+err.Error(), "look at its log")
		return false
	}
	return c.readStore()
}

// readStore reads what a stopped daemon remembers, if there is anything.
func (c *checker) readStore() bool {
	b := c.Config.Base
	kept, err := store.OpenReadOnly(store.Options{Dir: b.DataDir, BaseURL: string(c.Config.Poll.BaseURL)})
	var locked *store.LockedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case errors.As(err, &locked):
		c.report.refuse(sectionDaemon, exit.Unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), exit.AdviceOnHolder))
		return false
	case err != nil:
		c.report.refuse(SectionDisk, exit.Store(err, b.DataDir))
		return true
	}
	defer kept.Close()
	c.storeID = kept.ID()
	err = kept.View(func(tx *store.Tx) error {
		for _, k := range c.o.Agencies {
			c.keys[k.ID] = poller.RememberedAccess(tx, k)
		}
		return nil
	})
	if err != nil {
		c.report.refuse(SectionDisk, exit.Store(err, b.DataDir))
	}
	return true
}

// page says where status page, health and metrics would be, or are.
func (c *checker) page() {
	b := c.Config.Base
	switch {
	case c.report.DaemonRunning:
		if c.daemon.Page != "" {
			c.report.ok(SectionPage, "the daemon's is at %s", c.daemon.Page)
		}
	case !b.HasHTTP():
		c.report.ok(SectionPage, "none, and no health and metrics (DOORBELL_HTTP_LISTEN=off)")
	default:
		if err := daemon.TryHTTP(b.HTTPListen); err != nil {
			c.report.refuse(SectionPage, err)
			return
		}
		c.report.ok(SectionPage, "at %s, which is free%s", b.HTTPListen, forWhom(b))
	}
}

// forWhom says who may see the page and do something.
func forWhom(b config.Base) string {
	host, _, _ := net.SplitHostPort(b.HTTPListen)
	switch {
	case !b.HTTPToken.IsZero():
		return "; actions need DOORBELL_HTTP_TOKEN"
	case config.Loopback(host):
		return "; read-only, for this machine alone (DOORBELL_HTTP_TOKEN is not set)"
	}
	return "; other machines see health, metrics and schemas only (DOORBELL_HTTP_TOKEN is not set)"
}
