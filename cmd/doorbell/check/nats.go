package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/people"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
)

// nats looks at where events would go. It makes no stream and changes none.
func (c *checker) nats(ctx context.Context) {
	switch {
	case c.daemon != nil:
		c.natsOfDaemon()
	case c.Config.NATS.URL == "":
		c.embedded()
	default:
		c.external(ctx)
	}
}

func (c *checker) natsOfDaemon() {
	n := c.daemon.NATS
	kind := "external"
	if n.Embedded {
		kind = "embedded"
	}
	failed := slices.IndexFunc(c.daemon.Relay, func(r ops.RelayStatus) bool { return r.Problem != "" })
	switch {
	case n.Problem != "":
		c.report.fail(SectionNATS, "the daemon publishes nothing: "+n.Problem, "see `doorbell status`; what happens meanwhile waits in the store")
	case !n.Connected:
		c.report.fail(SectionNATS, "the daemon has no connection to its "+kind+" NATS", "look at its log; what happens meanwhile waits in the store")
	case failed >= 0:
		c.report.fail(SectionNATS, "the daemon does not publish the events of "+c.daemon.Relay[failed].AgencyID+": "+c.daemon.Relay[failed].Problem,
			"see `doorbell status`; what happens meanwhile waits in the store")
	default:
		c.report.ok(SectionNATS, "the daemon is connected to its %s NATS, stream %s", kind, n.Stream)
	}
}

// embedded tries the address of the server, as run does before it makes anything.
func (c *checker) embedded() {
	address := c.Config.Base.NATSListen
	if address == "off" {
		c.report.ok(SectionNATS, "embedded, in process only: no program can connect (DOORBELL_NATS_LISTEN=off)")
		return
	}
	if err := daemon.TryNATS(address); err != nil {
		c.report.refuse(SectionNATS, err)
		return
	}
	c.report.ok(SectionNATS, "embedded, at %s, which is free; no NATS URL is set", address)
}

func (c *checker) external(ctx context.Context) {
	url := natsd.Redact(string(c.Config.NATS.URL))
	nc, err := daemon.Connect(options.NATS(c.Config.NATS), slog.New(slog.DiscardHandler))
	if err != nil {
		c.report.refuse(SectionNATS, exit.Config(fmt.Errorf("NATS: %w", err), "check NATS_URL and the other NATS_ variables"))
		return
	}
	defer nc.Close()
	if !options.Connected(ctx, nc.Conn) {
		c.unconnected(nc, url)
		return
	}
	c.report.ok(SectionNATS, "external, %s answers: version %s", url, nc.ConnectedServerVersion())
	c.stream(ctx, nc)
}

// unconnected says in our words why: the library's may quote what it was given.
func (c *checker) unconnected(nc stream.Conn, url string) {
	if errors.Is(nc.LastError(), nats.ErrAuthorization) {
		c.report.fail(SectionNATS, url+" refuses our credentials", "check NATS_CREDS, NATS_NKEY, NATS_USER, NATS_PASSWORD and NATS_TOKEN")
		return
	}
	c.report.fail(SectionNATS, fmt.Sprintf("%s does not answer within %s", url, options.Patience),
		"check NATS_URL, the network, NATS_CA, NATS_CERT and NATS_KEY; run would wait for it and keep events in the store")
}

// stream compares the stream with what it should be.
func (c *checker) stream(ctx context.Context, nc stream.Conn) {
	b := c.Config.Base
	f, err := relay.Check(ctx, relay.Options{
		Conn: nc, Prefix: b.SubjectPrefix, Stream: b.Stream(), MaxAge: b.Retention, MaxBytes: int64(b.StreamMax),
		Manage: b.StreamManage == "auto",
	})
	different := strings.Join(f.Different, "; ")
	switch {
	case errors.Is(err, relay.ErrNoStream):
		c.report.fail(SectionNATS, fmt.Sprintf("stream %s is missing, and DOORBELL_STREAM_MANAGE=off forbids doorbell to make it", b.Stream()), "make it, or set DOORBELL_STREAM_MANAGE=auto")
	case errors.Is(err, relay.ErrStreamUnfit):
		if different != "" {
			different = ". All differences: " + different
		}
		c.report.fail(SectionNATS, err.Error()+different, "change that stream, or choose another DOORBELL_SUBJECT_PREFIX; doorbell changes no stream of an external server")
	case err != nil:
		c.report.fail(SectionNATS, "the stream cannot be looked at: "+stream.Explain(nc, err).Error(), "until this works, run keeps events in the store")
	case f.Missing:
		c.report.ok(SectionNATS, "stream %s is missing; run makes it", b.Stream())
	case len(f.Different) > 0:
		c.report.warn(SectionNATS, fmt.Sprintf("stream %s can be used, but differs: %s", b.Stream(), different), "change it if this is not meant; doorbell does not")
	default:
		c.report.ok(SectionNATS, "stream %s is as it should be", b.Stream())
	}
	if err == nil {
		c.mayErase(ctx, nc)
	}
}

// mayErase says where people cannot be erased from the streams.
func (c *checker) mayErase(ctx context.Context, nc stream.Conn) {
	b := c.Config.Base
	places := people.Places{Conn: nc, Prefix: b.SubjectPrefix, Stream: b.Stream()}
	if err := places.MayErase(ctx); err != nil {
		c.report.warn(SectionNATS, err.Error(), "`doorbell forget` needs it")
	}
}
