package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/store"
)

// CheckCmd is `doorbell check`.
type CheckCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (CheckCmd) Help() string {
	return "Reads the configuration of run, asks the API once for every agency and at most seven times more, looks at NATS, disk and clock, " +
		"and changes nothing. Beside a running daemon it sends no requests and shows what the daemon knows.\n\nExit codes: 0 run would work (warnings allowed), 78 it would end with 78, 74 with 74, 1 something else would not work, " +
		"69 the daemon holds the store and does not answer.\n\nExample:\n  doorbell check"
}

// Run says whether `doorbell run` would work, with this configuration, here and now. It leaves nothing behind.
func (cmd *CheckCmd) Run(ctx context.Context, p *program) error {
	config, err := readConfig(p.environ, groupPoll, groupForward)
	c := &checker{
		p: p, config: config, report: &checkReport{Lines: []checkLine{}, Agencies: []checkedAgency{}}, keys: map[string]poller.Access{},
	}
	if err != nil && !cmd.JSON {
		p.warn(config.Warnings)
		return err
	}
	if err != nil {
		c.report.refuse(sectionConfig, err)
	} else if err := c.look(ctx); err != nil {
		return failed(errors.New("interrupted"), "")
	}
	c.report.conclude()
	if cmd.JSON {
		return firstError(p.printJSON(c.report), c.report.err())
	}
	return firstError(c.report.writeText(p.stdout), c.report.err())
}

// checker looks at everything that run needs, and writes what it finds into its report.
type checker struct {
	p       *program
	config  *Config
	report  *checkReport
	daemon  ops.Status               // if one runs
	storeID string                   // if there is a store
	keys    map[string]poller.Access // by agency: which key run would show
	notes   []*notes

	o       poller.Options
	client  *listings.Client
	left    int           // requests for the agency that is asked about
	every   time.Duration // between two requests
	next    time.Time
	size    int // of a page of insertions that the API took; -1: it was left to the API; 0: nothing is known
	took    []time.Duration
	answers checkedAnswers
}

func (c *checker) look(ctx context.Context) error {
	for _, k := range c.config.pollerOptions().Agencies {
		c.keys[k.ID] = poller.Access{Key: k.Key, Next: k.Next}
	}
	c.configuration()
	c.outlets()
	if !c.findDaemon(ctx) {
		return nil
	}
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
	var sorted []checkLine
	for _, section := range []string{sectionConfig, sectionDaemon, sectionAPI, sectionAnswers, sectionBudget, sectionNATS, sectionOutlets, sectionPage, sectionDisk} {
		for _, l := range c.report.Lines {
			if l.Section == section {
				sorted = append(sorted, l)
			}
		}
	}
	c.report.Lines = sorted
}

func (c *checker) configuration() {
	keys := map[string]bool{}
	for _, a := range c.config.Agencies {
		keys[a.Key.Fingerprint()] = true
	}
	text := fmt.Sprintf("%s at %s", agenciesText(len(c.config.Agencies)), c.config.Poll.BaseURL.masked())
	if len(keys) == 1 {
		text += ", with one key, " + c.config.Agencies[0].Key.Fingerprint()
	} else {
		text += fmt.Sprintf(", with %d keys", len(keys))
	}
	c.report.ok(sectionConfig, "%s%s", text, c.keySources())
	for _, w := range c.config.Warnings {
		c.report.warn(sectionConfig, w, "")
	}
}

// keySources names the variables that keys are read from: there a refused one is replaced.
func (c *checker) keySources() string {
	var names []string
	for _, s := range c.config.Settings {
		if !strings.HasPrefix(s.Name, "DOORBELL_API_KEY") || s.Source == sourceDefault {
			continue
		}
		name := s.Name
		if path, is := strings.CutPrefix(s.Source, sourceFile); is {
			name += " (file " + path + ")"
		}
		names = append(names, name)
	}
	return " from " + strings.Join(names, " and ")
}

func agenciesText(n int) string {
	if n == 1 {
		return "one agency"
	}
	return fmt.Sprintf("%d agencies", n)
}

// findDaemon asks the socket, and the store if nobody answers there. It returns false if there is no use in looking on.
func (c *checker) findDaemon(ctx context.Context) bool {
	b := c.config.Base
	s, err := b.client().Status(ctx)
	if err == nil {
		c.daemon, c.report.DaemonRunning, c.storeID = s, true, s.StoreID
		c.report.ok(sectionDaemon, "one runs since %s and holds the store; this is about it, a second one would be refused",
			s.Started.Format(time.RFC3339))
		if s.Watch.BaseURL != string(c.config.Poll.BaseURL) {
			c.report.warn(sectionDaemon, "it watches another API: "+Address(s.Watch.BaseURL).masked(), "was the configuration changed after its start?")
		}
		return true
	}
	if !errors.Is(err, ops.ErrNoAnswer) {
		c.report.fail(sectionDaemon, "the daemon answers, but does not say how it is: "+err.Error(), "look at its log")
		return false
	}
	return c.readStore()
}

// readStore reads what a stopped daemon remembers, if there is anything. It looks at the file first as run does.
func (c *checker) readStore() bool {
	b := c.config.Base
	path := filepath.Join(b.DataDir, daemon.StoreFile)
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		var damage *store.DamagedError
		if err := soundFile(path); errors.As(err, &damage) {
			c.report.refuse(sectionDisk, storeError(err, b.DataDir))
			return true
		}
	}
	kept, err := store.OpenReadOnly(store.Options{Dir: b.DataDir, BaseURL: string(c.config.Poll.BaseURL)})
	var locked *store.LockedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case errors.As(err, &locked):
		c.report.refuse(sectionDaemon, unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), adviceOnHolder))
		return false
	case err != nil:
		c.report.refuse(sectionDisk, storeError(err, b.DataDir))
		return true
	}
	defer kept.Close()
	c.storeID = kept.ID()
	err = kept.View(func(tx *store.Tx) (err error) {
		for _, k := range c.config.pollerOptions().Agencies {
			if c.keys[k.ID], err = poller.RememberedAccess(tx, k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.report.refuse(sectionDisk, storeError(err, b.DataDir))
	}
	return true
}

// page says where status page, health and metrics would be, or are.
func (c *checker) page() {
	b := c.config.Base
	switch {
	case c.report.DaemonRunning:
		if c.daemon.Page != "" {
			c.report.ok(sectionPage, "the daemon's is at %s", c.daemon.Page)
		}
	case !b.hasHTTP():
		c.report.ok(sectionPage, "none, and no health and metrics (DOORBELL_HTTP_LISTEN=off)")
	default:
		if err := daemon.TryHTTP(b.HTTPListen); err != nil {
			c.report.refuse(sectionPage, err)
			return
		}
		c.report.ok(sectionPage, "at %s, which is free%s", b.HTTPListen, b.forWhom())
	}
}

// hasHTTP says whether an address for HTTP is configured.
func (b Base) hasHTTP() bool { return b.HTTPListen != "" && b.HTTPListen != "off" }

// forWhom says who may see the page and do something.
func (b Base) forWhom() string {
	host, _, _ := net.SplitHostPort(b.HTTPListen)
	switch {
	case !b.HTTPToken.IsZero():
		return "; to do something takes DOORBELL_HTTP_TOKEN"
	case loopback(host):
		return "; for this machine, to look at (no DOORBELL_HTTP_TOKEN is set)"
	}
	return "; other machines are shown health, metrics and schemas only (no DOORBELL_HTTP_TOKEN is set)"
}
