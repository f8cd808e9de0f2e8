package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/webhook"
	"doorbell/events/helptest"
)

var lastNovember = time.Date(2026, 11, 20, 9, 41, 43, 0, time.UTC)

func parsed(t helptest.Test, text string) *webhook.Template {
	p, err := webhook.ParseTemplate(text)
	must(t, err)
	return p
}

// leadOf is a contact request with a contact and a title.
func leadOf(t helptest.Test, c events.Contact, title string) events.Event {
	e, err := events.New(&events.ContactRequestCreated{
		Common:              events.Common{AgencyID: "A100", ObservedAt: lastNovember},
		PropertyReferenceID: "seefeld#1203#H2#0305", ContactRequestID: "7", Identity: events.IdentityID, Contact: c,
		Insertion: events.InsertionSummary{Title: title, Price: &events.Price{Amount: "2450.50"}},
		Score:     json.RawMessage("72.50"), Record: json.RawMessage(`{"n":9007199254740993,"none":null,"list":["a",true]}`),
	})
	must(t, err)
	return e.Stamp(1842, lastNovember, "store")
}

// posted sends an event with a template and returns what arrived.
func posted(t *testing.T, text string, e events.Event) (http.Header, string) {
	t.Helper()
	r := receive(t, taken)
	must(t, open(t, webhook.Options{URL: r.URL, Template: parsed(t, text)}).Send(t.Context(), one(e)))
	return r.header, string(r.body)
}

func TestALeafIsTextOrKeepsItsTypeOrIsDropped(t *testing.T) {
	e := leadOf(t, events.Contact{FirstName: "Nora", Message: "a\"b\\\n{{.contact}}"}, "Loft <3>")
	for leaf, want := range map[string]string{
		`"{{.contact.firstName}}"`:                                 `{"m":"Nora"}`,
		`"{{.contact.message}}"`:                                   `{"m":"a\"b\\\n{{.contact}}"}`,
		`"Dear {{.contact.firstName}}!"`:                           `{"m":"Dear Nora!"}`,
		`"{{.contact.email}}"`:                                     `{}`,
		`"mail: {{.contact.email}}"`:                               `{}`,
		`"{{cut 3 .contact.email}}"`:                               `{}`,
		`"{{cut 4 .insertion.title}}"`:                             `{"m":"Lof…"}`,
		`"{{printf \"%s\" .contact.email}}"`:                       `{}`,
		`"{{.no.such.thing}}"`:                                     `{}`,
		`"{{json .no.such.thing}}"`:                                `{}`,
		`"{{.record.none}}"`:                                       `{}`,
		`"{{with .contact.email}}{{.}}{{end}}"`:                    `{"m":""}`,
		`"{{or .contact.email .contact.firstName}}"`:               `{"m":"Nora"}`,
		`"{{range .record.list}}{{.}};{{end}}"`:                    `{"m":"a;true;"}`,
		`"{{.score}}"`:                                             `{"m":"72.50"}`,
		`"{{json .score}}"`:                                        `{"m":72.50}`,
		`"{{.score | json}}"`:                                      `{"m":72.50}`,
		`"{{json .score}} points"`:                                 `{"m":"72.50 points"}`,
		`"{{json .record}}"`:                                       `{"m":{"list":["a",true],"n":9007199254740993}}`,
		`"{{.record.list}}"`:                                       `{"m":"[\"a\",true]"}`,
		`"{{json .contact.firstName}}"`:                            `{"m":"Nora"}`,
		`"{{.event.id}} {{.event.type}} {{.event.agency}}"`:        `{"m":"` + e.ID + ` contact_request.created A100"}`,
		`"{{.event.time}} {{.event.reference}}"`:                   `{"m":"2026-11-20T09:41:43Z seefeld#1203#H2#0305"}`,
		`"{{json .event.test}}"`:                                   `{"m":false}`,
		`"{{json .event.sequence}}"`:                               `{"m":1842}`,
		`"{{replace \"<\" \"‹\" .insertion.title}}"`:               `{"m":"Loft ‹3>"}`,
		`"{{.insertion.title}}"`:                                   `{"m":"Loft <3>"}`,
		`7`:                                                        `{"m":7}`,
		`9007199254740993.10`:                                      `{"m":9007199254740993.10}`,
		`null`:                                                     `{"m":null}`,
		`{}`:                                                       `{"m":{}}`,
		`["{{.contact.email}}","{{.contact.firstName}}",1]`:        `{"m":["Nora",1]}`,
		`[{"value":"{{.contact.email}}"}]`:                         `{}`,
		`{"a":{"b":"{{.contact.email}}"},"c":"{{.event.origin}}"}`: `{"m":{"c":"live"}}`,
	} {
		header, got := posted(t, `{"body":{"m":`+leaf+`,"still":"here"}}`, e)
		want = strings.Replace(strings.TrimSuffix(want, "}")+`,"still":"here"}`, "{,", "{", 1)
		if got != want {
			t.Errorf("%s gives %s, want %s", leaf, got, want)
		}
		if header.Get("Content-Type") != "application/json" || header.Get("webhook-id") != e.ID || header.Get("ce-id") != "" {
			t.Errorf("the header is %v", header)
		}
	}
}

func TestAnEventThatCannotBeRenderedIsRefusedAlone(t *testing.T) {
	r := receive(t, taken)
	w := open(t, webhook.Options{URL: r.URL, Template: parsed(t, `{"body":{"m":"{{index .contact.message 99}}"}}`)})
	err := w.Send(t.Context(), one(leadOf(t, events.Contact{Message: person}, "")))
	var refused *forward.Refused
	if !errors.As(err, &refused) || !refused.Certain || refused.Reason != "the webhook template cannot be rendered at body.m" {
		t.Errorf("it is %v", err)
	}
	w = open(t, webhook.Options{URL: r.URL, Template: parsed(t, `{"body":{"m":"{{.contact.email}}"}}`)})
	if err := w.Send(t.Context(), one(leadOf(t, events.Contact{}, ""))); !errors.As(err, &refused) || !refused.Certain {
		t.Errorf("a document with nothing in it: %v", err)
	}
	if r.count > 0 {
		t.Error("it was sent")
	}
	if err := w.Send(t.Context(), one(leadOf(t, events.Contact{Email: person}, ""))); err != nil || r.count != 1 {
		t.Errorf("the next one: %v", err)
	}
}

func TestATemplateListsFurtherStatusesThatMeanDone(t *testing.T) {
	for status, want := range map[int]string{200: "done", 409: "done", 413: "certainly never", 422: "never", 401: "waits", 500: "later"} {
		r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		w := open(t, webhook.Options{URL: r.URL, Template: parsed(t, `{"body":"x","done":[409]}`)})
		if got := outcome(w.Send(t.Context(), one(lead(t)))); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}

func TestMethodTypeAndHeadersComeFromTheTemplate(t *testing.T) {
	var method string
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		method, r.header = q.Method, q.Header
		r.body, _ = io.ReadAll(q.Body)
	}))
	defer server.Close()
	w := open(t, webhook.Options{URL: server.URL, Secrets: secrets[0], Template: parsed(t, `{
		"method": "PUT", "content_type": "text/plain; charset=utf-8", "body": "Grüezi {{.contact.firstName}}",
		"headers": {"authorization": "Bearer sentinel", "Title": "{{.contact.firstName}}", "X-None": "{{.contact.phone}}", "X-Empty": "{{with .contact.phone}}{{.}}{{end}}"}}`)})
	for name, want := range map[string]string{
		"Nora": "Nora", "Zoë": "=?utf-8?b?Wm/Dqw==?=", "A\r\nBcc: x": "A Bcc: x", "=?utf-8?B?Cg==?=": "= ?utf-8?B?Cg== ?=", "\x00\x7fa\u0085": "a",
	} {
		must(t, w.Send(t.Context(), one(leadOf(t, events.Contact{FirstName: name}, ""))))
		if method != http.MethodPut || r.header.Get("Content-Type") != "text/plain; charset=utf-8" || r.header.Get("Authorization") != "Bearer sentinel" ||
			r.header["X-None"] != nil || r.header["X-Empty"] != nil || r.header["Bcc"] != nil || r.header.Get("Webhook-Signature") == "" {
			t.Errorf("%s %v", method, r.header)
		}
		if got := strings.Join(strings.Fields(r.header.Get("Title")), " "); got != want {
			t.Errorf("the title of %q is %q", name, got)
		}
		if !strings.HasPrefix(string(r.body), "Grüezi ") {
			t.Errorf("the body is %q", r.body)
		}
	}
}

func TestAMistakeInATemplateIsReportedByPositionWithoutQuotingIt(t *testing.T) {
	for text, want := range map[string]string{
		``:                               "line 1: the document is incomplete",
		"{\n\"body\": {\"sentinel\": 1}": "line 2: the document is incomplete",
		"{\n\n\"body\": sentinel}":       "line 3: it is not JSON",
		"{\"body\": {}}\n{}":             "line 2: something follows",
		"\xffsentinel":                   "line 1: a character is not UTF-8",
		`{"sentinel": 1}`:                "write only body, headers",
		"{\n\"headers\": {\"Authorization\": 7}}":       "line 2: a value has the wrong type",
		`{"headers": {}}`:                               "at body: it is missing",
		`{"body": {"a": ["x", "{{.sentinel"]}}`:         "at body.a[1]: this is not a Go template",
		`{"body": {"a": "{{sentinel .x}}"}}`:            "at body.a: this is not a Go template",
		`{"body": {"sentinel: x": "{{end}}"}}`:          "at body.…: this is not",
		`{"body": 1, "method": "GET"}`:                  "at method: write POST",
		`{"body": 1, "done": [401]}`:                    "at done: write",
		`{"body": 1, "done": [500]}`:                    "at done: write",
		`{"body": 1, "headers": {"sentinel x": "y"}}`:   "at headers: a name is not",
		`{"body": 1, "headers": {"Host": "sentinel"}}`:  "at headers.Host: this header",
		`{"body": 1, "headers": {"webhook-id": "x"}}`:   "at headers.Webhook-Id: this header",
		`{"body": 1, "headers": {"X": "sentinel\r\n"}}`: "at headers.X: the value contains a control character",
		`{"body": 1, "headers": {"X": "{{sentinel"}}`:   "at headers.X: this is not a Go template",
		`{"body": 1, "content_type": "sentinel;;"}`:     "at content_type: write it like",
		`{"body": {}, "content_type": "text/plain"}`:    "at content_type: only a body that is one string",
	} {
		_, err := webhook.ParseTemplate(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%q is quoted: %v", text, err)
		}
	}
}

// shape is a JSON value with its texts taken out, and these.
func shape(v any) (form any, texts []string) {
	switch v := v.(type) {
	case string:
		return "", []string{v}
	case map[string]any:
		form := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			f, more := shape(v[name])
			form[name], texts = f, append(texts, more...)
		}
		return form, texts
	case []any:
		list := []any{}
		for _, each := range v {
			f, more := shape(each)
			list, texts = append(list, f), append(texts, more...)
		}
		return list, texts
	}
	return v, nil
}

const structured = `{"headers": {"Title": "{{.contact.firstName}}"}, "body": {"a": "{{.contact.firstName}}", "b": ["{{.contact.message}}", 7, null],
	"c": {"d": "[{{.insertion.title}}]", "e": {"f": "{{json .contact.lastName}}"}}}}`

// keepsStructure sends an event with hostile texts and compares what arrives with what was written.
func keepsStructure(t rapid.TB, r *receiver, w *webhook.Receiver, first, last, message, title string) {
	e := leadOf(t, events.Contact{FirstName: "x" + first, LastName: "x" + last, Message: "x" + message}, "x"+title)
	must(t, w.Send(context.Background(), one(e)))
	var got any
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatal(err, string(r.body))
	}
	p, _ := e.Payload()
	c := p.(*events.ContactRequestCreated) // the texts as events have them
	form, texts := shape(got)
	written, _ := json.Marshal(form)
	if string(written) != `{"a":"","b":["",7,null],"c":{"d":"","e":{"f":""}}}` {
		t.Errorf("the structure is %s", written)
	}
	if want := []string{c.Contact.FirstName, c.Contact.Message, "[" + c.Insertion.Title + "]", c.Contact.LastName}; !slices.Equal(texts, want) {
		t.Errorf("the texts are %q, want %q", texts, want)
	}
	if strings.ContainsFunc(r.header.Get("Title"), func(c rune) bool { return unicode.IsControl(c) || c > unicode.MaxASCII }) {
		t.Errorf("the title is %q", r.header.Get("Title"))
	}
}

var hostile = []string{
	`"}], "x": [{"`, "\r\nBcc: evil@example.org\r\n\r\n", `\`, `\u0022`, "{{.contact}}", "{{", "</script>", "<users/all>",
	"\x00\x1b[31m", "\u2028\u2029\u202e", "\xff\xfe", "<no value>", "null", "%!s(<nil>)", strings.Repeat("😀", 5000), "=?utf-8?B?DQo=?=",
}

func TestHostileTextKeepsTheStructure(t *testing.T) {
	r := receive(t, taken)
	w := open(t, webhook.Options{URL: r.URL, Template: parsed(t, structured)})
	for _, text := range hostile {
		keepsStructure(t, r, w, text[:min(len(text), 1000)], text, text, text)
	}
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom(hostile[:12]))
	rapid.Check(t, func(t *rapid.T) {
		keepsStructure(t, r, w, text.Draw(t, "first"), text.Draw(t, "last"), text.Draw(t, "message"), text.Draw(t, "title"))
	})
}

func FuzzParseTemplateNeverPanics(f *testing.F) {
	f.Add(structured)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = webhook.ParseTemplate(text) })
}
