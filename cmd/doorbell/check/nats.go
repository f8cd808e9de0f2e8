package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/options"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
)

// nats looks at where events would go. It makes no stream and changes none.
func (c *checker) nats(ctx context.Context) {
	listen := c.Config.Base.NATSListen
	switch {
	case c.daemon != nil:
		c.natsOfDaemon()
	case c.Config.NATS.URL != "":
		c.external(ctx)
	case listen == "off":
		c.report.ok(SectionNATS, "embedded, in process only: no program can connect (DOORBELL_NATS_LISTEN=off)")
	default: // the address is tried as run tries it
		c.listens(SectionNATS, "embedded, at "+listen, daemon.TryNATS(listen))
	}
}

// page tries the address of the page, as run does.
func (c *checker) page() {
	switch b := c.Config.Base; {
	case c.report.DaemonRunning:
	case b.HasHTTP():
		c.listens(SectionPage, "at "+b.HTTPListen, daemon.TryHTTP(b.HTTPListen))
	default:
		c.report.ok(SectionPage, "none, and no health and metrics (DOORBELL_HTTP_LISTEN=off)")
	}
}

func (c *checker) listens(section, what string, err error) {
	if err != nil {
		c.report.refuse(section, err)
		return
	}
	c.report.ok(section, "%s, which is free", what)
}

// natsOfDaemon reports why a running daemon does not publish.
func (c *checker) natsOfDaemon() {
	n := c.daemon.NATS
	problem := n.Problem
	if !n.Connected {
		problem = cmp.Or(problem, "it has no connection to NATS")
	}
	if problem != "" {
		c.report.fail(SectionNATS, "the daemon does not publish: "+problem,
			"see `doorbell status`; what happens meanwhile waits in the store")
		return
	}
	c.report.ok(SectionNATS, "the daemon is connected to NATS, stream %s", n.Stream)
}

func (c *checker) external(ctx context.Context) {
	url := natsd.Redact(c.Config.NATS.URL)
	nc, err := daemon.Connect(options.NATS(c.Config.NATS), slog.New(slog.DiscardHandler))
	if err != nil {
		c.report.refuse(SectionNATS,
			exit.Config(fmt.Errorf("NATS: %w", err), "check NATS_URL and the other NATS_ variables"))
		return
	}
	defer nc.Close()
	switch connected := options.Connected(ctx, nc.Conn); {
	case connected:
		c.report.ok(SectionNATS, "external, %s answers: version %s", url, nc.ConnectedServerVersion())
		c.stream(ctx, nc)
	case errors.Is(nc.LastError(), nats.ErrAuthorization): // other errors may quote what is configured
		c.report.fail(SectionNATS, url+" refuses our credentials",
			"check NATS_CREDS, NATS_NKEY, NATS_USER, NATS_PASSWORD and NATS_TOKEN")
	default:
		c.report.fail(SectionNATS, fmt.Sprintf("%s does not answer within %s", url, options.Patience),
			"check NATS_URL, the network, NATS_CA, NATS_CERT and NATS_KEY; run would wait for it and keep events in the store")
	}
}

// stream compares the stream with what it should be.
func (c *checker) stream(ctx context.Context, nc stream.Conn) {
	b := c.Config.Base
	f, err := relay.Check(ctx, relay.Options{
		Conn: nc, Prefix: b.SubjectPrefix, Stream: b.Stream(), MaxAge: b.Retention,
		MaxBytes: int64(b.StreamMax), Manage: b.StreamManage == "auto",
	})
	switch name := "stream " + b.Stream(); {
	case errors.Is(err, relay.ErrNoStream):
		c.report.fail(SectionNATS, name+" is missing, and DOORBELL_STREAM_MANAGE=off forbids doorbell to make it",
			"make it, or set DOORBELL_STREAM_MANAGE=auto")
	case errors.Is(err, relay.ErrStreamUnfit):
		c.report.fail(SectionNATS, err.Error(), "change that stream, or choose another "+
			"DOORBELL_SUBJECT_PREFIX; doorbell changes no stream of an external server")
	case err != nil:
		c.report.fail(SectionNATS, "the stream cannot be examined: "+stream.Explain(nc, err).Error(),
			"until this works, run keeps events in the store")
	case f.Missing:
		c.report.ok(SectionNATS, "%s is missing; run makes it", name)
	case len(f.Different) > 0:
		c.report.warn(SectionNATS, name+" can be used, but differs: "+strings.Join(f.Different, "; "),
			"change it if this is not meant; doorbell does not")
	default:
		c.report.ok(SectionNATS, "%s is as it should be", name)
	}
}
