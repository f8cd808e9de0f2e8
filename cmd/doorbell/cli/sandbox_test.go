package cli

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
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

func TestTheCommandsThatTheSandboxPrintsWork(t *testing.T) {
	t.Parallel()
	c := doorbelltest.Launch(t, nil, "sandbox", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--insertions", "0", "--changes-per-minute", "0")
	found := c.Stdout.Await(t, `(?s)API is at (http://\S+), for.*DOORBELL_API_KEY=(\S+).*Ctrl-C to stop it`)
	lines := regexp.MustCompile(`(?m)^  curl (http://[^/ ]+/(\S+)) -d '(.*)'$`).FindAllStringSubmatch(c.Stdout.String(), -1)
	if len(lines) != 6 || !strings.Contains(c.Stdout.String(), "until you run: ./doorbell resume A100\n") {
		t.Fatalf("%d commands are found in\n%s", len(lines), c.Stdout.String())
	}
	want := map[string]int{"keys/unlink": http.StatusForbidden}
	for _, line := range lines {
		answer, err := http.Post(line[1], "application/x-www-form-urlencoded", strings.NewReader(line[3]))
		must(t, err)
		answer.Body.Close()
		r, err := http.NewRequest(http.MethodGet, found[1]+"/insertion-funnel/integration/A100/insertions", http.NoBody)
		must(t, err)
		r.Header.Set("Authorization", "ApiKey "+found[2])
		list, err := http.DefaultClient.Do(r)
		must(t, err)
		list.Body.Close()
		if answer.StatusCode != http.StatusOK || list.StatusCode != cmp.Or(want[line[2]], http.StatusOK) {
			t.Errorf("%s: %d, and the response to the list is then %d", line[0], answer.StatusCode, list.StatusCode)
		}
	}
}

// TestTheStoryShowsAConsumerEveryType reads the story from an external server, as a consumer
// would: each message is an example of the contract, and the stream is one that a relay would take.
func TestTheStoryShowsAConsumerEveryType(t *testing.T) {
	t.Parallel()
	url := doorbelltest.StartNATS(t, -1)
	got := doorbelltest.Run(t, []string{"NATS_URL=nats://127.0.0.1:1"}, "sandbox", "--events", "--nats", url)
	all, err := doorbelltest.ReadStream(t.Context(), url)
	if got.Code != exit.Done || err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	var types, sequences []string
	for _, m := range all {
		types, sequences = append(types, m.Kind()), append(sequences, m.Header.Get("ce-sequence"))
		schematest.Validate(t, m.Kind(), m.Data)
		if m.Subject != events.Subject("listings", m.Body.AgencyID, events.Type(m.Kind())) || m.Header.Get("Nats-Msg-Id") != m.Header.Get("ce-id") {
			t.Errorf("%s: subject %s, id %s", m.Kind(), m.Subject, m.Header.Get("Nats-Msg-Id"))
		}
		head, _ := schemas.ExampleHeader(m.Kind())
		var want map[string]string
		must(t, json.Unmarshal(head, &want))
		for name, text := range want {
			if m.Header.Get(name) != text {
				t.Errorf("%s: header %s is %q, in the contract %q", m.Kind(), name, m.Header.Get(name), text)
			}
		}
		doorbelltest.Has(t, got.Stdout, m.Subject, m.Header.Get("ce-id"))
	}
	if !slices.IsSorted(sequences) {
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
	if again.Code != exit.CodeFailed || !strings.Contains(again.Stderr, "already has a stream LISTINGS") || again.Stdout != "" {
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
