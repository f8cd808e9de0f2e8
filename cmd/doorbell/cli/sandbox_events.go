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
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/schemas"

	"github.com/nats-io/nats.go"
)

// defaultPrefix and storyAge, the age at which messages expire, are those of run.
const (
	defaultPrefix = "listings"
	storyAge      = 30 * 24 * time.Hour
)

// publishedStory is what `sandbox --events --json` prints.
type publishedStory struct {
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

// publishStory creates the stream in the user's NATS, publishes one event of every type as run
// would, and returns.
func (c *SandboxCmd) publishStory(ctx context.Context, p *program) error {
	story, err := story()
	if err != nil {
		return exit.Failed(err, "")
	}
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
	if _, err = js.Stream(ctx, o.Stream); err == nil {
		return exit.Failed(fmt.Errorf("this NATS has a stream %s already, which may hold real events", o.Stream),
			"give another prefix, like --prefix sandbox, or another server; nothing was published")
	}
	if _, err = stream.Ensure(ctx, js, o.StreamConfig(), stream.Rights{Manage: true}); err != nil {
		return exit.Failed(stream.Explain(conn, err), "is JetStream enabled on this server? Nothing was published")
	}
	published := publishedStory{NATS: natsd.Redact(conn.ConnectedUrl()), Stream: o.Stream, Subjects: events.StreamSubjects(c.Prefix)}
	out := p.stdout
	if c.JSON {
		out = io.Discard
	}
	fmt.Fprintf(out, "Stream %s, subjects %s, at %s:\n", published.Stream, published.Subjects, published.NATS)
	for _, e := range story {
		m := &nats.Msg{Subject: events.Subject(c.Prefix, e.AgencyID, e.Type), Header: e.Header(), Data: e.Data}
		ack, err := js.PublishMsg(ctx, m)
		if err != nil {
			return exit.Failed(stream.Explain(conn, err), "the story is incomplete; remove the stream before you try again")
		}
		published.Events = append(published.Events, publishedEvent{ack.Sequence, e.ID, string(e.Type), m.Subject})
		fmt.Fprintf(out, "  %3d  %s  %s\n", ack.Sequence, e.ID, m.Subject)
	}
	if c.JSON {
		return p.printJSON(published)
	}
	_, err = fmt.Fprintf(out, "Published %s, one of every type. Remove them with: nats stream rm %s\n", ops.Counted(len(story), "event"), o.Stream)
	return err
}

// dial connects to the NATS of --nats, else to that of NATS_URL. Settings of a doorbell do not count.
func (c *SandboxCmd) dial(ctx context.Context, p *program) (stream.Conn, error) {
	environ := slices.DeleteFunc(slices.Clone(p.environ), func(e string) bool { return strings.HasPrefix(e, "DOORBELL_") })
	if c.NATS != "" {
		environ = append(environ, "NATS_URL="+c.NATS)
	}
	cfg, err := config.Read(environ)
	if err == nil && options.NATS(cfg.NATS).URL == "" {
		err = exit.Usage("--events: needs a NATS", "give --nats URL, or set NATS_URL")
	}
	if err != nil {
		return stream.Conn{}, err
	}
	return connectStream(ctx, cfg)
}

// story is the example that the contract gives for every type, in the order of the log that the
// examples come from.
func story() (list []events.Event, err error) {
	for _, t := range schemas.Types() {
		payload, _ := schemas.Example(t)
		head, _ := schemas.ExampleHeader(t)
		var texts map[string]string
		var data bytes.Buffer
		err := errors.Join(json.Unmarshal(head, &texts), json.Compact(&data, payload))
		header := map[string][]string{}
		for name, text := range texts {
			header[name] = []string{text}
		}
		e, wrong := events.Decode(header, data.Bytes())
		if err = errors.Join(err, wrong); err != nil {
			return nil, fmt.Errorf("example of %s: %w", t, err)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b events.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return list, nil
}
