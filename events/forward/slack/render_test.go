package slack_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/slack"
)

var update = flag.Bool("update", false, "write the payloads in testdata anew")

// example is the pinned event of a type.
func example(t testing.TB, kind events.Type) events.Event {
	t.Helper()
	file := filepath.Join("..", "..", "..", "schemas", "examples", string(kind)+".v1")
	payload, err := os.ReadFile(file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	headers, err := os.ReadFile(file + ".headers.json")
	if err != nil {
		t.Fatal(err)
	}
	var short bytes.Buffer
	if err := json.Compact(&short, payload); err != nil {
		t.Fatal(err)
	}
	e, err := events.Decode(headerOf(t, headers), short.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func headerOf(t testing.TB, headers []byte) map[string][]string {
	t.Helper()
	var flat map[string]string
	if err := json.Unmarshal(headers, &flat); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for name, value := range flat {
		all[name] = []string{value}
	}
	return all
}

// with is the example of a type after a change of its payload.
func with[P events.Payload](t testing.TB, kind events.Type, change func(P)) events.Event {
	t.Helper()
	p, err := example(t, kind).Payload()
	if err != nil {
		t.Fatal(err)
	}
	change(p.(P))
	e, err := events.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return e.Stamp(1, time.Date(2026, 11, 20, 9, 42, 0, 0, time.UTC), "store")
}

func request(t testing.TB, change func(*events.ContactRequestCreated)) events.Event {
	return with(t, events.TypeContactRequestCreated, change)
}

// kind is a delivery of which a payload is pinned in testdata.
type kind struct {
	name   string
	people slack.People
	forward.Delivery
}

// kinds is one delivery of every kind: each type alone, for both amounts of people where there are some, lists, bundles, tests
// and replays.
func kinds(t testing.TB) []kind {
	var all []kind
	add := func(name string, p slack.People, list ...events.Event) {
		all = append(all, kind{name, p, forward.Delivery{Events: list}})
	}
	for _, k := range events.Types {
		add(string(k), slack.Short, example(t, k))
		if strings.HasPrefix(string(k), "contact_request.") {
			add(string(k)+".full", slack.Full, example(t, k))
		}
	}
	add("list", slack.Short, requests(t)...)
	add("list.full", slack.Full, requests(t)...)
	add("list.mixed", slack.Short, example(t, events.TypeInsertionAppeared), example(t, events.TypeContactRequestCreated),
		example(t, events.TypeInsertionChanged), example(t, events.TypeContactRequestRedacted), example(t, events.TypeInsertionDisappeared))
	add("alerts.one_key", slack.Short, halts(t, 200)...)
	add("alerts.mixed", slack.Short, append(halts(t, 3), example(t, events.TypeWatchStale), example(t, events.TypeWatchChangeHeld),
		example(t, events.TypeAccessResumed))...)
	created := example(t, events.TypeContactRequestCreated)
	all = append(all,
		kind{"test", slack.Full, forward.Delivery{Events: []events.Event{created}, Test: true}},
		kind{"test.alert", slack.Short, forward.Delivery{Events: []events.Event{example(t, events.TypeAccessHalted)}, Test: true}})
	add("replay", slack.Short, created.WithOrigin(events.OriginReplay))
	add("baseline", slack.Short, created.WithOrigin(events.OriginBaseline))
	add("hostile", slack.Full, request(t, spoil))
	add("bare", slack.Short, request(t, func(p *events.ContactRequestCreated) {
		p.Contact, p.Insertion, p.Score, p.CreatedAt = events.Contact{}, events.InsertionSummary{}, nil, time.Time{}
	}))
	return all
}

func requests(t testing.TB) []events.Event {
	names := []string{"Nora Beispiel", "Max Muster", "Léa Exemple", "Ueli Müller", "Anna Rossi", "Tom Baker", "Zoë Keller"}
	var list []events.Event
	for i, n := range names {
		list = append(list, request(t, func(p *events.ContactRequestCreated) {
			p.ContactRequestID = fmt.Sprint(i)
			p.Contact.FirstName, p.Contact.LastName, _ = strings.Cut(n, " ")
			p.CreatedAt = p.CreatedAt.Add(time.Duration(i) * 7 * time.Minute)
			if i%3 == 1 {
				p.PropertyReferenceID, p.Insertion.Title = "seefeld#1203#H2#0306", "2.5-Zimmerwohnung mit Balkon"
				p.Score = nil
			}
			if i == 4 {
				p.AgencyID = "B200"
			}
		}))
	}
	return list
}

func halts(t testing.TB, n int) []events.Event {
	var list []events.Event
	for i := range n {
		list = append(list, with(t, events.TypeAccessHalted, func(p *events.AccessHalted) {
			p.AgencyID = fmt.Sprintf("A%d", 100+i)
			p.Advice = strings.ReplaceAll(p.Advice, "A100", p.AgencyID)
			p.Resume = "doorbell resume " + p.AgencyID
		}))
	}
	return list
}

// spoil puts into every text what a stranger might try.
func spoil(p *events.ContactRequestCreated) {
	const evil = "<!channel> <@U123> <#C123> *bold* _it_ ~no~ `code` ```\u202e<https://evil.example|Login>\u202c & &lt;!here&gt; @here #general"
	p.Contact.FirstName, p.Contact.LastName, p.Contact.Company = "<!channel>", evil, evil
	p.Contact.Email, p.Contact.Phone = "a@b.ch>|<!here>", "+41<!here>"
	p.Contact.Message = "<!everyone>\n" + evil + "\x00\x1b[31m\r\n\u2066end"
	p.Insertion.Title, p.Insertion.Street, p.Insertion.Locality = evil, evil, evil
	p.Insertion.URL = "https://portal.example/a|<!here>?x=1&y=<>"
	p.Insertion.Price.Currency, p.Insertion.Price.Interval = "<!here>", "<@U1>"
	p.Score = json.RawMessage(`"<!here>"`)
	p.PropertyReferenceID = "<!channel>#*1*"
}

// indented is a payload as people read it.
func indented(t testing.TB, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), '\n')
}

func TestEveryKindOfMessageLooksAsItIsPinned(t *testing.T) {
	var names []string
	for _, k := range kinds(t) {
		names = append(names, k.name+".json")
		file := filepath.Join("testdata", k.name+".json")
		got := indented(t, render(t, k))
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not %s (%v); look at the difference, then run: go test ./events/forward/slack -update", k.name, file, err)
		}
	}
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && !slices.Contains(names, e.Name()) {
			t.Errorf("testdata/%s is of no kind", e.Name())
		}
	}
}

func render(t testing.TB, k kind) []byte {
	t.Helper()
	body, err := slack.Render(k.people, k.Delivery)
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	return body
}
