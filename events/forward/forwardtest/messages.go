package forwardtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// This file has deliveries for the tests of receivers that write messages for people.

// Sample is a delivery of which the message is pinned.
type Sample struct {
	Name string
	Full bool // the whole person is shown
	forward.Delivery
}

// Example is the pinned event of a type.
func Example(t testing.TB, kind events.Type) events.Event {
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

// With is the example of a type after a change of its payload.
func With[P events.Payload](t testing.TB, kind events.Type, change func(P)) events.Event {
	t.Helper()
	p, err := Example(t, kind).Payload()
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

// Request is the contact request of the examples after a change.
func Request(t testing.TB, change func(*events.ContactRequestCreated)) events.Event {
	return With(t, events.TypeContactRequestCreated, change)
}

// Samples are one delivery of every kind: each type alone, for both amounts of people where there
// are some, lists, bundles, tests and replays.
func Samples(t testing.TB) []Sample {
	var all []Sample
	add := func(name string, full bool, list ...events.Event) {
		all = append(all, Sample{name, full, forward.Delivery{Events: list}})
	}
	for _, k := range events.Types {
		add(string(k), false, Example(t, k))
		if strings.HasPrefix(string(k), "contact_request.") {
			add(string(k)+".full", true, Example(t, k))
		}
	}
	add("list", false, Requests(t)...)
	add("list.full", true, Requests(t)...)
	add("list.mixed", false, Example(t, events.TypeInsertionAppeared), Example(t, events.TypeContactRequestCreated),
		Example(t, events.TypeInsertionChanged), Example(t, events.TypeContactRequestRedacted), Example(t, events.TypeInsertionDisappeared))
	add("alerts.one_key", false, Halts(t, 200)...)
	add("alerts.mixed", false, append(Halts(t, 3), Example(t, events.TypeWatchStale), Example(t, events.TypeWatchChangeHeld),
		Example(t, events.TypeAccessResumed))...)
	created := Example(t, events.TypeContactRequestCreated)
	all = append(all,
		Sample{"test", true, forward.Delivery{Events: []events.Event{created}, Test: true}},
		Sample{"test.alert", false, forward.Delivery{Events: []events.Event{Example(t, events.TypeAccessHalted)}, Test: true}})
	add("replay", false, created.WithOrigin(events.OriginReplay))
	add("hostile", true, Request(t, Spoil))
	add("bare", false, Request(t, func(p *events.ContactRequestCreated) {
		p.Contact, p.Insertion, p.Score, p.CreatedAt = events.Contact{}, events.InsertionSummary{}, nil, time.Time{}
	}))
	return all
}

// Requests are those of seven people, about two insertions of two agencies.
func Requests(t testing.TB) []events.Event {
	names := []string{"Nora Beispiel", "Max Muster", "Léa Exemple", "Ueli Müller", "Anna Rossi", "Tom Baker", "Zoë Keller"}
	var list []events.Event
	for i, n := range names {
		list = append(list, Request(t, func(p *events.ContactRequestCreated) {
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

// Halts are n agencies of one key that is refused.
func Halts(t testing.TB, n int) []events.Event {
	var list []events.Event
	for i := range n {
		list = append(list, With(t, events.TypeAccessHalted, func(p *events.AccessHalted) {
			p.AgencyID = fmt.Sprintf("A%d", 100+i)
			p.Advice = strings.ReplaceAll(p.Advice, "A100", p.AgencyID)
			p.Resume = "doorbell resume " + p.AgencyID
		}))
	}
	return list
}

// Spoil puts into every text what a stranger might try.
func Spoil(p *events.ContactRequestCreated) {
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

// Worst are texts that need the most room, each in its way.
var Worst = []string{"&", "<!channel>", "\"\\", "é\u0301\u0301\u0301\u0301", "家", "👩‍👩‍👧‍👦", "\u202e\x00\u200b", "a\n\n\n", "x y ", "\xff\xfe", "`*_~", strings.Repeat("n", 99) + " "}

// WorstRequests are n contact requests with a text everywhere, about one insertion or about n.
func WorstRequests(t testing.TB, text string, n int, same bool) []events.Event {
	e := Request(t, func(p *events.ContactRequestCreated) {
		p.PropertyReferenceID, p.AgencyID = text, text
		p.Contact = events.Contact{
			Salutation: text, FirstName: text, LastName: text, FullName: text, Company: text, Email: text, Phone: text,
			PhoneRaw: text, Message: text, PreferredContact: text, Portal: text,
		}
		p.Insertion = events.InsertionSummary{
			Title: text, Street: text, PostalCode: text, Locality: text, Rooms: "3", LivingSpace: "4", URL: text,
			Price: &events.Price{Amount: "1", Currency: text, Interval: text},
		}
		p.Score, _ = json.Marshal(text)
	})
	var list []events.Event
	for i := range n {
		if !same {
			e.Reference = fmt.Sprint(i, text)
		}
		list = append(list, e)
	}
	return list
}

// WorstAlerts are 2n alerts with a text everywhere.
func WorstAlerts(t testing.TB, text string, n int) []events.Event {
	var list []events.Event
	for i := range n {
		list = append(list, With(t, events.TypeAccessHalted, func(p *events.AccessHalted) {
			p.AgencyID, p.PropertyReferenceID, p.Advice, p.Resume = fmt.Sprint(i, text), text, text, fmt.Sprint(i, text)
			p.Key.Fingerprint = fmt.Sprint(i%12, text)
		}), With(t, events.TypeWatchSchemaDrifted, func(p *events.WatchSchemaDrifted) {
			p.Expected, p.Found, p.PropertyReferenceID = text, text, text
		}))
	}
	return list
}

// Fill puts a text in the place of every string of a payload; now and then the old one stays, so
// that times can be read.
func Fill(data []byte, text string, i int) []byte {
	var value any
	if json.Unmarshal(data, &value) != nil {
		return data
	}
	count := i
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
				return v
			}
			if count++; count%3 == 0 {
				return v
			}
			return text
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		case []any:
			for k := range v {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	filled, err := json.Marshal(walk(value))
	if err != nil {
		return data
	}
	return filled
}
