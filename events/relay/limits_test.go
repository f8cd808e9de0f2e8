package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

func TestAnEventTooLargeForTheServerIsShortenedAndHoldsNothingUp(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 1)
	b.log.append(contactRequest(t, "A100", 2, strings.Repeat("x", 2<<20)))
	b.log.append(contactRequest(t, "A100", 3, strings.Repeat("x", 1<<20-1100))) // fits alone, not with what the relay adds
	b.log.ring(t, "A100", 2)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	for i, m := range held(t, b.js, "listings.v1.A100.>") {
		var p struct {
			Truncated bool            `json:"truncated"`
			Record    json.RawMessage `json:"record"`
		}
		must(t, json.Unmarshal(m.Data, &p))
		if large := i == 1 || i == 2; p.Truncated != large || (p.Record == nil) != large {
			t.Errorf("event %d: truncated %v", i+1, p.Truncated)
		}
	}
}

func TestTheStreamOfTheEmbeddedServerFollowsTheConfiguration(t *testing.T) {
	b := newBell(t)
	b.o.MaxAge, b.o.MaxBytes = 48*time.Hour, 1<<30
	b.log.ring(t, "A100", 1)
	b.deliver()
	c := b.stream().CachedInfo().Config
	if d := stream.Differences(b.o.StreamConfig(), c); len(d) != 0 {
		t.Fatal(d)
	}
	if c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage || c.Duplicates != 48*time.Hour ||
		!c.AllowDirect || len(c.Subjects) != 1 || c.Subjects[0] != "listings.v1.>" || c.DenyDelete {
		t.Fatalf("%+v", c)
	}
	b.o.MaxAge, b.o.MaxBytes = 24*time.Hour, 1<<20
	b.deliver()
	if c := b.stream().CachedInfo().Config; c.MaxAge != 24*time.Hour || c.Duplicates != c.MaxAge || c.MaxBytes != 1<<20 {
		t.Fatalf("%+v", c)
	}
}

func TestTheHeartbeatIsWhatTheContractSays(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "C#300", 3)
	b.deliver()
	sub, err := b.nc.SubscribeSync("listings.heartbeat.*")
	must(t, err)
	must(t, b.relay().Heartbeat("C#300", "watching"))
	m, err := sub.NextMsg(time.Minute)
	must(t, err)
	var beat map[string]any
	must(t, json.Unmarshal(m.Data, &beat))
	at, err := time.Parse(time.RFC3339, fmt.Sprint(beat["at"]))
	if m.Subject != "listings.heartbeat.C=23300" || len(beat) != 4 || beat["agencyId"] != "C#300" ||
		beat["lastSequence"] != 3.0 || beat["state"] != "watching" || err != nil || time.Since(at) > time.Minute {
		t.Fatalf("%s %s", m.Subject, m.Data)
	}
}

func TestTailReadsWhatWasAskedFor(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 3)
	b.log.ring(t, "B200", 2)
	b.deliver()
	b.stray("listings.v1.A100.test")
	read := func(o TailOptions, n int) (got []string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o.Stream, o.Prefix = "LISTINGS", "listings"
		for e, err := range Tail(ctx, stream.Conn{Conn: b.nc}, o) {
			switch {
			case errors.Is(err, ErrForeign):
				got = append(got, "stray")
			case err != nil:
				t.Fatal(err)
			default:
				got = append(got, fmt.Sprintf("%s/%d", e.AgencyID, e.Sequence))
			}
			if len(got) == n {
				break
			}
		}
		return got
	}
	for _, c := range []struct {
		o    TailOptions
		want string
	}{
		{TailOptions{All: true}, "A100/1 A100/2 A100/3 B200/4 B200/5 stray"},
		{TailOptions{All: true, Agency: "B200"}, "B200/4 B200/5"},
		{TailOptions{All: true, Type: events.TypeContactRequestCreated}, "A100/1 A100/2 A100/3 B200/4 B200/5"},
		{TailOptions{Since: time.Now().Add(-time.Hour), Agency: "A100"}, "A100/1 A100/2 A100/3 stray"},
	} {
		if got := strings.Join(read(c.o, len(strings.Fields(c.want))), " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
}

func TestTailFollowsUntilTheStreamIsRecreated(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	b.log.ring(t, "A100", 3)
	b.deliver()
	got := make(chan string)
	go func() {
		for e, err := range Tail(t.Context(), stream.Conn{Conn: b.nc}, TailOptions{Stream: "LISTINGS", Prefix: "listings"}) {
			got <- fmt.Sprint(e.Sequence, " ", errors.Is(err, errRecreated))
		}
		close(got)
	}()
	eventually(t, "consumer", func() bool { return b.stream().CachedInfo().State.Consumers == 1 })
	b.log.ring(t, "A100", 1)
	b.deliver()
	if text := <-got; text != "4 false" {
		t.Errorf("after the third event it reads %s", text)
	}
	b.makeAnew()
	if text := <-got; text != "0 true" {
		t.Errorf("it ends with %s", text)
	}
	<-got
}

func TestAnotherStreamThatHoldsOurSubjectsGetsNothing(t *testing.T) {
	b := newBell(t)
	other := b.o.StreamConfig()
	other.Name = "OTHER"
	if _, err := b.js.CreateStream(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	b.log.ring(t, "A100", 1)
	r := b.relay()
	if err := r.RunOnce(t.Context()); err == nil || r.Status().Problem == "" {
		t.Fatalf("RunOnce: %v", err)
	}
	// And if it took the subjects after the check: the message names the stream that it is meant for.
	if err := r.offer(t.Context(), b.log.list("A100")[0]); reason(err) != reasonGone {
		t.Fatalf("publish: %v", err)
	}
	s, err := b.js.Stream(t.Context(), "OTHER")
	must(t, err)
	if n := s.CachedInfo().State.Msgs; n != 0 {
		t.Fatalf("the other stream holds %d messages", n)
	}
}
