// Package options translates the configuration into the options of each package, and connects to
// the daemon of the data directory and to NATS.
package options

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
	"doorbell/poller"
	"doorbell/poller/listings"
)

// Poller says in the poller's words what is configured.
func Poller(c *config.Config, version string) poller.Options {
	p := c.Poll
	o := poller.Options{
		API: listings.Options{
			BaseURL: p.BaseURL, Timeout: p.RequestTimeout, Version: c.Base.Agent(version),
			TimeZone: p.Zone(), CAs: c.CAs,
			InsertionsPath:      strings.Join(p.RecordsPath.Of("insertion"), ""), // one or none
			ContactRequestsPath: strings.Join(p.RecordsPath.Of("contact_request"), ""),
			IDFields:            p.ContactIDFields,
			IgnoreInsertions:    p.IgnoreFields.Of("insertion"),
		},
		Announce: p.Baseline == "emit", RequestsPerSecond: p.RequestsPerSecond,
		PollInterval: p.PollInterval, MaxStaleness: time.Duration(p.MaxStaleness),
		WalkInterval: p.WalkInterval, RetryMax: p.RetryMax, HoldFor: p.HoldFor, Filter: p.Filter(),
		IgnoreContact: p.IgnoreFields.Of("contact_request"),
	}
	for _, a := range c.Agencies {
		o.Agencies = append(o.Agencies, poller.AgencyKeys{
			ID: a.ID, Key: listings.NewKey(a.Key.Reveal()), People: p.People.People(a.ID),
		})
	}
	return o
}

// NATS says in the words of natsd how to reach an external server.
func NATS(n config.NATS) natsd.Dial {
	d := natsd.Dial{
		URL: n.URL, Creds: n.Creds, NKey: n.Nkey, User: n.User, Password: n.Password.Reveal(),
		Token: n.Token.Reveal(), CA: n.CA, Cert: n.Cert, Key: n.Key, Domain: n.JSDomain,
		APIPrefix: n.JSApiPrefix,
	}
	if d.URL == "" { // the embedded server has a JetStream of its own
		d.Domain, d.APIPrefix = "", ""
	}
	return d
}

// Client asks the daemon in the data directory, if one runs.
func Client(b config.Base) *ops.Client {
	return ops.NewClient(filepath.Join(b.DataDir, daemon.SocketFile))
}

// Patience is how long a command waits for NATS.
const Patience = 3 * time.Second

// Connected waits for a connection that was made just now.
func Connected(ctx context.Context, nc *nats.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	connected := nc.StatusChanged(nats.CONNECTED)
	if !nc.IsConnected() {
		select {
		case <-connected:
		case <-ctx.Done():
		}
	}
	return nc.IsConnected()
}
