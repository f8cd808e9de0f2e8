package forwardtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/schemas/schematest"
)

// This file has deliveries for the tests of receivers.

// Lead is a new contact request of a person whom no error may name. Agency and number make it one of
// its own.
func Lead(t testing.TB, agency string, number int) events.Event {
	return Request(t, func(p *events.ContactRequestCreated) {
		p.AgencyID, p.ContactRequestID = agency, fmt.Sprint(number)
		p.Contact.LastName, p.Contact.Email = person, "nora."+person+"@example.org"
	})
}

// Sample is a delivery of which the message is pinned.
type Sample struct {
	Name string
	Full bool // the whole person is shown
	forward.Delivery
}

// Example is the pinned event of a type.
func Example(t testing.TB, kind events.Type) events.Event {
	t.Helper()
	e, err := events.Decode(schematest.Example(t, string(kind)))
	must(t, err)
	return e
}

// With is the example of a type after a change of its payload.
func With[P events.Payload](t testing.TB, kind events.Type, change func(P)) events.Event {
	t.Helper()
	p, err := Example(t, kind).Payload()
	must(t, err)
	change(p.(P))
	e, err := events.New(p)
	must(t, err)
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
func WorstRequests(t testing.TB, text string, n int, same bool) (list []events.Event) {
	for i := range n {
		e := Everywhere(t, text, events.TypeContactRequestCreated).Events[0]
		if !same {
			e.Reference = fmt.Sprint(i, text)
		}
		list = append(list, e)
	}
	return list
}

// WorstAlerts are 2n alerts with a text everywhere.
func WorstAlerts(t testing.TB, text string, n int) (list []events.Event) {
	for i := range n {
		d := Everywhere(t, text, events.TypeAccessHalted, events.TypeWatchSchemaDrifted)
		d.Events[0].AgencyID = fmt.Sprint(i, text)
		list = append(list, d.Events...)
	}
	return list
}

// Hostile are texts that a person could write into a form to do harm.
var Hostile = []string{
	"Nora\r\nBcc: victim@example.org\r\n\r\nbody",
	"Nora\nSubject: another\n\n.\nQUIT",
	"<script>alert(1)</script><img src=x onerror=alert(1)>",
	`"><a href="javascript:alert(1)">click</a>`,
	"</title></style><style>*{display:none}</style>",
	"]]><evil/><!-- &amp; &lt; &#x0; -->",
	"=?utf-8?B?4oCuZXZpbA==?= =?utf-8?q?=0D=0ABcc=3A_x=40example=2Eorg?=",
	"\u202egnp.exe\u2066\u200b\ufeff\u00adhidden\U000e0041",
	"\x00\x01\x1b[31mred\x7f\u0085\u2028\ufffe\uffff",
	"\xff\xfe broken \xc3",
	"{{.Subject}}{{template \"x\"}} ${jndi:ldap://example.org} %s%n",
	strings.Repeat("long ", 5000),
	strings.Repeat("x", 90000),
	strings.Repeat("\n", 5000) + "end",
	"a@b.example, c@d.example",
	`"a b"@example.org`,
	"nora@example.org\r\nX-Evil: 1",
	"nora@[127.0.0.1]",
	"<nora@example.org>",
	"office@agency.example <nora@example.org>",
	"https://user:password@example.org/",
	"https://example.org/\" onclick=\"x",
	"javascript:alert(1)",
	"data:text/html,<script>alert(1)</script>",
	"+41 79 000 01 23;ext=1?body=x",
	"👨‍👩‍👧 Zoë Ñandú 山田 محمد",
	"\u0300\u0301\u0302" + strings.Repeat("\u0334", 5000),
	".", "..\r\n.\r\n", "", " ", "--", "-- \n", "#", "1e400",
}

// Everywhere is a delivery of events that have a text wherever a text can be.
func Everywhere(t testing.TB, text string, kinds ...events.Type) (d forward.Delivery) {
	for _, kind := range kinds {
		e := Example(t, kind)
		e.AgencyID, e.Reference, e.Data = text, text, Fill(e.Data, func(string) string { return text })
		d.Events = append(d.Events, e)
	}
	return d
}

// Fill replaces every string in a payload but the times.
func Fill(data []byte, by func(string) string) []byte {
	var value any
	if json.Unmarshal(data, &value) != nil {
		return data
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if _, err := time.Parse(time.RFC3339Nano, v); err != nil {
				return by(v)
			}
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
