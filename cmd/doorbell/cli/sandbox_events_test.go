package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/schemas"
	"doorbell/schemas/schematest"
)

// TestTheStoryShowsAConsumerEveryType reads the story from a server of somebody else's, as a consumer would: each message is
// an example of the contract, and the stream is one that a relay would take.
func TestTheStoryShowsAConsumerEveryType(t *testing.T) {
	t.Parallel()
	url := doorbelltest.StartNATS(t, -1)
	got := doorbelltest.Run(t, []string{"NATS_URL=nats://127.0.0.1:1"}, "sandbox", "--events", "--nats", url)
	if got.Code != exit.Done {
		t.Fatalf("%+v", got)
	}
	all, err := doorbelltest.ReadStream(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, m := range all {
		e, err := events.Decode(m.Header, m.Data)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, string(e.Type))
		schematest.Validate(t, string(e.Type), m.Data)
		if m.Subject != events.Subject("listings", e.AgencyID, e.Type) || m.Header.Get("Nats-Msg-Id") != e.ID {
			t.Errorf("%s: subject %s, id %s", e.Type, m.Subject, m.Header.Get("Nats-Msg-Id"))
		}
		head, _ := schemas.ExampleHeader(string(e.Type))
		var want map[string]string
		if err := json.Unmarshal(head, &want); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if m.Header.Get(name) != text {
				t.Errorf("%s: header %s is %q, in the contract %q", e.Type, name, m.Header.Get(name), text)
			}
		}
		if strings.Count(got.Stdout, m.Subject) < 1 || !strings.Contains(got.Stdout, e.ID) {
			t.Errorf("%s is not printed", e.Type)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b doorbelltest.Message) int {
		return strings.Compare(a.Header.Get("ce-sequence"), b.Header.Get("ce-sequence"))
	}) {
		t.Error("the events are not in the order of their log")
	}
	if slices.Sort(types); !slices.Equal(types, schemas.Types()) {
		t.Errorf("the stream holds %q", types)
	}
	nc, js := doorbelltest.Connected(t, url)
	want := relay.Options{Prefix: "listings", Stream: "LISTINGS", MaxAge: storyAge}.StreamConfig()
	found, err := stream.Ensure(t.Context(), js, want, stream.Rights{})
	if err != nil || len(found.Different) > 0 {
		t.Errorf("a relay finds %+v, %v", found, err)
	}

	again := doorbelltest.Run(t, nil, "sandbox", "--events", "--nats", url)
	if again.Code != exit.CodeFailed || !strings.Contains(again.Stderr, "has a stream LISTINGS already") || again.Stdout != "" {
		t.Errorf("%+v", again)
	}
	other := doorbelltest.Run(t, nil, "sandbox", "--events", "--nats", url, "--prefix", "try.out", "--json")
	var told publishedStory
	if err := json.Unmarshal([]byte(other.Stdout), &told); err != nil || told.Stream != "TRY_OUT" {
		t.Errorf("%v: %+v", err, other)
	}
	for _, name := range []string{"LISTINGS", "TRY_OUT"} {
		if all, err := doorbelltest.ReadStreamNamed(t.Context(), nc, name); err != nil || len(all) != len(types) {
			t.Errorf("%s holds %d messages: %v", name, len(all), err)
		}
	}
}

func TestTheStoryNeedsANATSThatResponds(t *testing.T) {
	t.Parallel()
	got := doorbelltest.Run(t, nil, "sandbox", "--events", "--nats", "nats://guest:"+doorbelltest.Sentinel+"@127.0.0.1:1")
	if got.Code != exit.CodeFailed || strings.Contains(got.Stderr, doorbelltest.Sentinel) {
		t.Errorf("%+v", got)
	}
}
