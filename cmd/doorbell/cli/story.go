package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/schemas"
)

// storyAge, the age at which messages expire, is that of run.
const storyAge = 30 * 24 * time.Hour

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
	Subject  string `json:"subject"`
}

// publishStory creates the stream in the user's NATS, publishes one event of every type as run
// would, and returns.
func (c *SandboxCmd) publishStory(ctx context.Context, p *program) error {
	story, err := story(c.Prefix)
	if err != nil {
		return err
	}
	conn, err := p.connectTo(ctx, natsd.Dial{URL: c.NATS})
	if err != nil {
		return err
	}
	js, err := conn.JetStream()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	o := relay.Options{
		Prefix: c.Prefix,
		Stream: strings.ToUpper(strings.ReplaceAll(c.Prefix, ".", "_")), MaxAge: storyAge,
	}
	if _, err = js.Stream(ctx, o.Stream); err == nil {
		return exit.Failed(
			fmt.Errorf("this NATS already has a stream %s, which may hold real events", o.Stream),
			"use another prefix, like --prefix sandbox, or another server; nothing was published")
	}
	if _, err = stream.Ensure(ctx, js, o.StreamConfig(), stream.Rights{Manage: true}); err != nil {
		return exit.Failed(stream.Explain(conn, err),
			"is JetStream enabled on this server? Nothing was published")
	}
	done := publishedStory{
		NATS: natsd.Redact(conn.ConnectedUrl()), Stream: o.Stream,
		Subjects: events.StreamSubjects(c.Prefix),
	}
	text := fmt.Sprintf("Stream %s, subjects %s, at %s:\n", done.Stream, done.Subjects, done.NATS)
	for _, m := range story {
		ack, err := js.PublishMsg(ctx, m)
		if err != nil {
			return exit.Failed(stream.Explain(conn, err),
				"the examples are incomplete; remove the stream before you try again")
		}
		done.Events = append(done.Events,
			publishedEvent{ack.Sequence, m.Header.Get("ce-id"), m.Subject})
		text += fmt.Sprintf("  %3d  %s  %s\n", ack.Sequence, m.Header.Get("ce-id"), m.Subject)
	}
	return p.result(c.JSON, done, text+"Published "+ops.Counted(len(story), "event")+
		", one of every type. Remove them with: nats stream rm "+o.Stream)
}

// story is the example that the contract gives for every type, in the order of the log that the
// examples come from.
func story(prefix string) (list []*nats.Msg, err error) {
	for _, t := range schemas.Types() {
		payload, _ := schemas.Example(t)
		head, _ := schemas.ExampleHeader(t)
		var texts map[string]string
		var data bytes.Buffer
		if err := errors.Join(json.Unmarshal(head, &texts),
			json.Compact(&data, payload)); err != nil {
			return nil, fmt.Errorf("example of %s: %w", t, err)
		}
		m := &nats.Msg{
			Subject: events.Subject(prefix, texts["ce-partitionkey"], events.Type(t)),
			Header:  nats.Header{}, Data: data.Bytes(),
		}
		for name, text := range texts {
			m.Header[name] = []string{text}
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *nats.Msg) int {
		return cmp.Compare(a.Header.Get("ce-sequence"), b.Header.Get("ce-sequence"))
	})
	return list, nil
}
