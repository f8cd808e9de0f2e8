package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/options"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
)

// nats looks at where events would go, and at the address of the page. It makes no stream and
// changes none.
func (c *checker) nats(ctx context.Context) {
	b := c.config.Base
	if c.config.NATS.URL != "" {
		c.external(ctx)
	} else if b.NATSListen != "off" && !c.report.DaemonRunning {
		c.isFree(SectionNATS, b.NATSListen, daemon.TryNATS(b.NATSListen))
	}
	if b.HasHTTP() && !c.report.DaemonRunning {
		c.isFree(SectionPage, b.HTTPListen, daemon.TryHTTP(b.HTTPListen))
	}
}

func (c *checker) isFree(section, address string, err error) {
	if err != nil {
		c.report.refuse(section, err)
		return
	}
	c.report.ok(section, "%s: %s is free", section, address)
}

func (c *checker) external(ctx context.Context) {
	url := natsd.Redact(c.config.NATS.URL)
	nc, err := daemon.Connect(options.NATS(c.config.NATS), slog.New(slog.DiscardHandler))
	if err != nil {
		c.report.refuse(SectionNATS,
			exit.Config(fmt.Errorf("NATS: %w", err), "check NATS_URL and the other NATS_ variables"))
		return
	}
	defer nc.Close()
	if options.Connected(ctx, nc.Conn) {
		c.report.ok(SectionNATS, "external, %s answers: version %s", url,
			nc.ConnectedServerVersion())
		c.stream(ctx, nc)
		return
	}
	text := fmt.Sprintf("%s does not answer within %s", url, options.Patience)
	// other errors may quote what is configured
	if errors.Is(nc.LastError(), nats.ErrAuthorization) {
		text = url + " refuses our credentials"
	}
	c.report.fail(SectionNATS, text,
		"check NATS_URL, the network, and the other NATS_ variables; run would wait for it and keep events in the store")
}

// stream compares the stream with what it should be, and changes nothing.
func (c *checker) stream(ctx context.Context, nc stream.Conn) {
	b := c.config.Base
	want := relay.Options{
		Prefix: b.SubjectPrefix, Stream: b.Stream(), MaxAge: b.Retention,
		MaxBytes: int64(b.StreamMax),
	}.StreamConfig()
	ctx, cancel := context.WithTimeout(ctx, options.Patience)
	defer cancel()
	var found stream.Found
	js, err := nc.JetStream()
	if err == nil {
		found, err = stream.Ensure(ctx, js, want, stream.Rights{})
	}
	missing, other := errors.Is(err, stream.ErrMissing), ""
	if missing {
		other, err = js.StreamNameBySubject(ctx, want.Subjects[0])
	}
	switch name := "stream " + b.Stream(); {
	case missing && b.StreamManage != "auto":
		c.report.fail(SectionNATS,
			name+" is missing, and DOORBELL_STREAM_MANAGE=off forbids doorbell to create it",
			"create it, or set DOORBELL_STREAM_MANAGE=auto")
	case missing && other != "":
		c.report.fail(SectionNATS,
			fmt.Sprintf("%s is missing: stream %s already holds %s", name, other, want.Subjects[0]),
			"change that stream, or choose another DOORBELL_SUBJECT_PREFIX")
	case missing && errors.Is(err, jetstream.ErrStreamNotFound):
		c.report.ok(SectionNATS, "%s is missing; run creates it", name)
	case errors.Is(err, stream.ErrUnfit):
		c.report.fail(SectionNATS, err.Error(), "change that stream, or choose another "+
			"DOORBELL_SUBJECT_PREFIX; doorbell never changes a stream on an external server")
	case err != nil:
		c.report.fail(SectionNATS, "the stream cannot be examined: "+stream.Explain(nc, err).Error(),
			"until this works, run keeps events in the store")
	case len(found.Different) > 0:
		c.report.warn(SectionNATS,
			name+" can be used, but differs: "+strings.Join(found.Different, "; "),
			"change it if this is not intended; doorbell does not")
	default:
		c.report.ok(SectionNATS, "%s is as it should be", name)
	}
}
