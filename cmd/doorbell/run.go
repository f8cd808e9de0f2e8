package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/poller"
	"doorbell/poller/listings"
)

// cmdRun watches until it is stopped.
func cmdRun(ctx context.Context, p *program, flags *RunCmd) error {
	c, err := readConfig(p.environ, groupPoll, groupForward)
	if err != nil {
		return err
	}
	log := p.logger(c.Base)
	defer lastWords(log)
	for _, w := range c.Warnings {
		log.Warn(w)
	}
	forwarders, err := c.forwarders()
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	a, err := newApp(ctx, appOptions{
		Base: c.Base, NATS: c.NATS, Poller: c.pollerOptions(), Log: log, Notify: newNotifier(lookup(p.environ)),
		Keys: newKeyReader(p.environ, c, hup, log).run, Accept: *flags, Forwarders: forwarders,
	})
	if err != nil {
		return err
	}
	defer a.close()
	log.Info("watching", "agencies", len(c.Agencies), "api", string(c.Poll.BaseURL), "data", c.Base.DataDir)
	return a.run(ctx)
}

// pollerOptions says in the poller's words what is configured.
func (c *Config) pollerOptions() poller.Options {
	p := c.Poll
	o := poller.Options{
		API: listings.Options{
			BaseURL: string(p.BaseURL), Timeout: p.RequestTimeout, MaxBody: int64(p.MaxBody), Version: version(),
			TimeZone: p.Timezone.Location, AllowPlaintext: c.Base.AllowPlaintext,
		},
		Announce: p.Baseline == "emit", RequestsPerSecond: p.RequestsPerSecond, PollInterval: p.PollInterval, MaxStaleness: time.Duration(p.MaxStaleness),
		WalkInterval: p.WalkInterval, PageSize: int(p.PageSize), RetryMax: p.RetryMax, Confirm: p.ConfirmDisappeared,
		HoldFor: p.HoldFor, Filter: p.filter(), IgnoreInsertion: p.IgnoreFields.Insertion,
		IgnoreContact: p.IgnoreFields.ContactRequest, IDFields: p.ContactIDFields,
	}
	if path := p.RecordsPath.Insertion; len(path) > 0 {
		o.API.InsertionsPath = path[0]
	}
	if path := p.RecordsPath.ContactRequest; len(path) > 0 {
		o.API.ContactRequestsPath = path[0]
	}
	for _, a := range c.Agencies {
		o.Agencies = append(o.Agencies, poller.AgencyKeys{ID: a.ID, Key: listings.NewKey(a.Key.Reveal()), Next: listings.NewKey(a.Next.Reveal())})
	}
	return o
}

// dial says in the words of natsd how to reach an external server.
func (n NATS) dial() natsd.Dial {
	return natsd.Dial{
		URL: string(n.URL), Creds: n.Creds, NKey: n.Nkey, User: n.User, Password: n.Password.Reveal(), Token: n.Token.Reveal(),
		CA: n.CA, Cert: n.Cert, Key: n.Key, Name: natsd.Name(),
	}
}

func streamSubjects(b Base) string { return events.StreamSubjects(b.SubjectPrefix) }
