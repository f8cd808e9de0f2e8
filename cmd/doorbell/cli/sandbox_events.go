package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/schemas"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// defaultPrefix is that of run.
const defaultPrefix = "listings"

// storyAge is how long the stream keeps messages: as that of run does.
const storyAge = 30 * 24 * time.Hour

// published is what `sandbox --events --json` prints.
type published struct {
	NATS     string           `json:"nats"`
	Stream   string           `json:"stream"`
	Subjects string           `json:"subjects"`
	Events   []publishedEvent `json:"events"`
}

type publishedEvent struct {
	Sequence uint64 `json:"sequence"` // in the stream
	ID       string `json:"id"`
	Type     string `json:"type"`
	Subject  string `json:"subject"`
}

// publishStory publishes one event of every type to a NATS server, as a relay would, and ends.
func (c *SandboxCmd) publishStory(ctx context.Context, p *program) error {
	conn, err := c.dial(ctx, p)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := conn.JetStream()
	if err != nil {
		return exit.Failed(err, "")
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	o := relay.Options{Prefix: c.Prefix, Stream: strings.ToUpper(strings.ReplaceAll(c.Prefix, ".", "_")), MaxAge: storyAge}
	_, err = js.Stream(ctx, o.Stream)
	switch {
	case err == nil:
		return exit.Failed(fmt.Errorf("this NATS has a stream %s already, which may hold real events", o.Stream),
			"give another prefix, like --prefix sandbox, or another server; nothing was published")
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return exit.Failed(stream.Explain(conn, err), "is JetStream enabled on this server?")
	}
	made, err := stream.Ensure(ctx, js, o.StreamConfig(), stream.Rights{Manage: true})
	switch {
	case err != nil:
		return exit.Failed(stream.Explain(conn, err), "nothing was published")
	case !made.Made:
		return exit.Failed(fmt.Errorf("the stream %s was made by another program just now", o.Stream), "nothing was published")
	}
	done := published{NATS: natsd.Redact(conn.ConnectedUrl()), Stream: o.Stream, Subjects: events.StreamSubjects(c.Prefix)}
	out := p.stdout
	if c.JSON {
		out = io.Discard
	}
	fmt.Fprintf(out, "Stream %s, subjects %s, at %s:\n", done.Stream, done.Subjects, done.NATS)
	story, err := story()
	if err != nil {
		return exit.Failed(err, "")
	}
	for _, e := range story {
		m := &nats.Msg{Subject: events.Subject(c.Prefix, e.AgencyID, e.Type), Header: e.Header(), Data: e.Data}
		ack, err := js.PublishMsg(ctx, m)
		if err != nil {
			return exit.Failed(stream.Explain(conn, err), "the story is not complete; remove the stream before you try again")
		}
		done.Events = append(done.Events, publishedEvent{ack.Sequence, e.ID, string(e.Type), m.Subject})
		fmt.Fprintf(out, "  %3d  %s  %s\n", ack.Sequence, e.ID, m.Subject)
	}
	if c.JSON {
		return p.printJSON(done)
	}
	_, err = fmt.Fprintf(out, "Published %s, one of every type. Remove them with: nats stream rm %s\n", ops.Counted(len(story), "event"), o.Stream)
	return err
}

// dial connects to the NATS of --nats, otherwise to that of the environment.
func (c *SandboxCmd) dial(ctx context.Context, p *program) (conn stream.Conn, err error) {
	environ := slices.DeleteFunc(slices.Clone(p.environ), func(e string) bool {
		return strings.HasPrefix(e, "DOORBELL_") && !strings.HasPrefix(e, "DOORBELL_NATS_URL=")
	})
	cfg, err := config.Read(environ)
	if err != nil {
		return conn, err
	}
	d := options.NATS(cfg.NATS)
	if c.NATS != "" {
		d.URL = c.NATS
	}
	if d.URL == "" {
		return conn, exit.Usage("--events: needs a NATS", "give --nats URL, or set NATS_URL")
	}
	if conn, err = daemon.Connect(d, discardLog()); err != nil {
		return conn, exit.Usage(err.Error(), "")
	}
	if !options.Connected(ctx, conn.Conn) {
		defer conn.Close()
		return stream.Conn{}, exit.Failed(stream.Explain(conn, stream.ErrNotConnected), "is the URL right, and does the server run?")
	}
	return conn, nil
}

// story is the pinned example of every type, as it stands in the contract, in the order of the log
// that they come from.
func story() (list []events.Event, err error) {
	for _, t := range schemas.Types() {
		payload, _ := schemas.Example(t)
		head, _ := schemas.ExampleHeader(t)
		var texts map[string]string
		if err := json.Unmarshal(head, &texts); err != nil {
			return nil, fmt.Errorf("example of %s: %w", t, err)
		}
		header := map[string][]string{}
		for name, text := range texts {
			header[name] = []string{text}
		}
		var data bytes.Buffer
		if err := json.Compact(&data, payload); err != nil {
			return nil, fmt.Errorf("example of %s: %w", t, err)
		}
		e, err := events.Decode(header, data.Bytes())
		if err != nil {
			return nil, fmt.Errorf("example of %s: %w", t, err)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b events.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return list, nil
}
