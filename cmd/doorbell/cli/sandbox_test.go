package cli

import (
	"cmp"
	"encoding/json"
	"errors"
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
	"doorbell/poller/sandbox"
	"doorbell/schemas"
	"doorbell/schemas/schematest"
)

// askWith requests a list of insertions from the sandbox, and returns the status.
func askWith(t *testing.T, url, key, agency string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/insertion-funnel/integration/"+agency+"/insertions", http.NoBody)
	must(t, err)
	r.Header.Set("Authorization", "ApiKey "+key)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	answer.Body.Close()
	return answer.StatusCode
}

func TestEveryScenarioIsListedAndBeginsWithTheFirstRequest(t *testing.T) {
	t.Parallel()
	help := doorbelltest.Run(t, nil, "sandbox", "--help").Stdout
	for _, s := range sandbox.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if strings.Count(help, "    "+s.Name+" ") != 1 || !strings.Contains(strings.Join(strings.Fields(help), " "), s.Description) {
				t.Error("the help does not list it exactly once")
			}
			c := doorbelltest.Launch(t, nil, "sandbox", "--scenario", s.Name, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
			found := c.Stdout.Await(t, `(?s)API is at (http://\S+), for agencies ([^.]+)\..*DOORBELL_API_KEY=(\S+).*Expected outcome.*curl (http://\S+)/truth`)
			if told := strings.Join(strings.Fields(c.Stdout.String()), " "); !strings.Contains(told, s.Description) || !strings.Contains(told, s.Outcome) || strings.Contains(told, "begins.") {
				t.Errorf("it told:\n%s", told)
			}
			answer, err := http.Get(found[4] + "/truth")
			must(t, err)
			var truth sandbox.Truth
			must(t, errors.Join(json.NewDecoder(answer.Body).Decode(&truth), answer.Body.Close()))
			if got := strings.Join(truth.Agencies, ", "); got != found[2] || len(truth.Insertions) == 0 {
				t.Errorf("agencies %s, %d insertions", got, len(truth.Insertions))
			}
			if s.Name == "slow-and-flaky" { // whose first answer may be any
				return
			}
			if status := askWith(t, found[1], found[3], s.Agencies[0]); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			c.Stdout.Await(t, "scenario "+s.Name+" begins")
		})
	}
}

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
		status := askWith(t, found[1], found[2], "A100")
		if answer.StatusCode != http.StatusOK || status != cmp.Or(want[line[2]], http.StatusOK) {
			t.Errorf("%s: %d, and the response to the list is then %d", line[0], answer.StatusCode, status)
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
