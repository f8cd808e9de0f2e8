package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/ops/metrics"
	"doorbell/cmd/doorbell/ops/page"
)

// verbs are what can be asked of this daemon, at the socket and over HTTP.
func (a *app) verbs() ops.Verbs {
	return ops.Verbs{
		Status: a.status, Outlook: a.poller.Outlook, Resume: a.poller.Resume, Approve: a.poller.Approve,
		Poll: a.poller.PollNow, VerifyKeys: a.poller.VerifyKeys, Backup: a.store.Backup, StreamVerbs: a.streamVerbs(),
		Events: ops.Log{Store: a.store}.Events, CountEvents: ops.Log{Store: a.store}.CountEvents, Replay: a.replay,
		DropLetter: a.dropLetter,
	}
}

// hasHTTP says whether an address for HTTP is configured.
func (b Base) hasHTTP() bool { return b.HTTPListen != "" && b.HTTPListen != "off" }

// openHTTP takes the address. It is served by run.
func (a *app) openHTTP(context.Context) error {
	b := a.o.Base
	if !b.hasHTTP() {
		return nil
	}
	l, err := net.Listen("tcp", b.HTTPListen)
	if err != nil {
		return httpListenError(b.HTTPListen, err)
	}
	a.web = l
	a.o.Log.Info("status page", "url", a.httpURL())
	if at, ok := addressOf(l); b.HTTPToken.IsZero() && ok && !at.Addr().IsLoopback() {
		a.o.Log.Warn("other machines are shown health, metrics and schemas only: DOORBELL_HTTP_TOKEN is not set")
	}
	return nil
}

// tryHTTP says whether the address can be taken, and gives it back.
func (b Base) tryHTTP() error {
	if !b.hasHTTP() {
		return nil
	}
	l, err := net.Listen("tcp", b.HTTPListen)
	if err != nil {
		return httpListenError(b.HTTPListen, err)
	}
	return l.Close()
}

func httpListenError(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return configError(fmt.Errorf("DOORBELL_HTTP_LISTEN: %s is %w", address, errInUse),
			"set DOORBELL_HTTP_LISTEN to a free address, like 127.0.0.1:0 for any, or to off for no status page, health and metrics")
	}
	return configError(fmt.Errorf("DOORBELL_HTTP_LISTEN: %s: %w", address, err), "use 127.0.0.1:3667, or another address of this machine")
}

// httpURL is where the page is for who sits at this machine; empty without HTTP.
func (a *app) httpURL() string {
	if a.web == nil {
		return ""
	}
	at, ok := addressOf(a.web)
	if ok && at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	return "http://" + at.String() + "/"
}

func addressOf(l net.Listener) (netip.AddrPort, bool) {
	at, err := netip.ParseAddrPort(l.Addr().String())
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), err == nil
}

// serveHTTP answers at DOORBELL_HTTP_LISTEN.
func (a *app) serveHTTP(ctx context.Context) error {
	if a.web == nil {
		<-ctx.Done()
		return nil
	}
	token := a.o.Base.HTTPToken
	shown := page.Handler(page.Options{
		Status: a.status, Recent: a.follower.Recent, Subscribe: a.follower.Subscribe,
		ShowPeople: a.o.Base.ShowPeople, TokenConfigured: !token.IsZero(),
	})
	return ops.ServeHTTP(ctx, a.web, ops.HTTPOptions{
		Page: shown, Metrics: metrics.Handler(a.status), Schemas: ops.Schemas(),
		Health: a.health, Verbs: a.verbs(), Token: token.Reveal(), Log: a.o.Log.With("part", "http"),
	})
}

// portPatience is how long a port may be in use at the start: by a doorbell that is just ending, for instance. A supervisor does
// not try again what is refused as configuration.
const portPatience = 2 * time.Second

var errInUse = errors.New("in use by another program")

// checkPorts waits for ports in use, and refuses one that stays so before a fresh data directory is made, so that nothing is left
// behind. With an older one, who holds that says more.
func (a *app) checkPorts(ctx context.Context) error {
	try := func() error { return firstError(a.tryNATS(), a.o.Base.tryHTTP()) }
	err := try()
	if errors.Is(err, errInUse) {
		a.o.Log.Warn(err.Error() + "; it is tried again for " + portPatience.String())
	}
	for end := time.Now().Add(portPatience); errors.Is(err, errInUse) && time.Now().Before(end) && ctx.Err() == nil; err = try() {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	if _, none := os.Stat(filepath.Join(a.o.Base.DataDir, storeFile)); none == nil {
		return nil
	}
	return err
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
		if err := b.tryHTTP(); err != nil {
			c.report.refuse(sectionPage, err)
			return
		}
		c.report.ok(sectionPage, "at %s, which is free%s", b.HTTPListen, b.forWhom())
	}
}

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
