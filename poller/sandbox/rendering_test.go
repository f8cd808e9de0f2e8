package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type nestedPage struct {
	Content []struct {
		Insertion map[string]any `json:"insertion"`
	} `json:"content"`
	TotalElements *int `json:"totalElements"`
	TotalPages    *int `json:"totalPages"`
	Number        int  `json:"number"`
	Size          int  `json:"size"`
	First         bool `json:"first"`
	Last          bool `json:"last"`
	Empty         bool `json:"empty"`
}

func TestNestedPagesReachTheEnd(t *testing.T) {
	m := newModel(Options{})
	for n := range 45 {
		publish(t, m, "A100", fmt.Sprint("r", n))
	}
	h := New(m, Nested())
	seen := map[any]bool{}
	for number, size := range []int{20, 20, 5, 0} {
		target := insertionsPath("A100")
		if number > 0 { // the first page is the default
			target += fmt.Sprint("?page=", number)
		}
		p := decoded[nestedPage](t, ask(h, testKey, target))
		if len(p.Content) != size || *p.TotalElements != 45 || *p.TotalPages != 3 || p.Number != number ||
			p.First != (number == 0) || p.Last != (number >= 2) || p.Empty != (size == 0) {
			t.Errorf("page %d: %d records, %+v", number, len(p.Content), p)
		}
		for _, record := range p.Content {
			seen[record.Insertion["propertyReferenceId"]] = true
		}
	}
	if len(seen) != 45 {
		t.Errorf("%d references in all pages, want 45", len(seen))
	}
	if p := decoded[nestedPage](t, ask(h, testKey, insertionsPath("B200"))); !p.First || !p.Last || !p.Empty || *p.TotalPages != 0 {
		t.Errorf("no insertions: %+v", p)
	}
}

func TestTheOptionsOfARenderingAreObeyed(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r1", "r2", "r3")
	add(t, m, "A100", "r1", ContactRequest{})

	r := Flat()
	r.PageBase, r.PageSize, r.MaxPageSize, r.NoTotals, r.UpdatedAt = 0, 1, 2, true, true
	h := New(m, r)
	p := listed(t, h, "A100", "page=0&pageSize=10")
	if p.Total != nil || p.Page != 0 || !slices.Equal(p.references(), []string{"r3", "r2"}) || p.Results[0]["updatedAt"] == nil {
		t.Errorf("%+v", p)
	}
	if p := listed(t, h, "A100", ""); len(p.Results) != 1 {
		t.Errorf("%d records by default, want 1", len(p.Results))
	}

	r = Nested()
	r.NoTotals, r.PageBase = true, 1
	h = New(m, r)
	page := decoded[nestedPage](t, ask(h, testKey, insertionsPath("A100")+"?pageSize=2&page=2"))
	if page.TotalElements != nil || page.TotalPages != nil || page.First || !page.Last || len(page.Content) != 1 {
		t.Errorf("%+v", page)
	}
	if page := decoded[nestedPage](t, ask(h, testKey, insertionsPath("A100")+"?pageSize=1&page=2")); page.Last || page.First {
		t.Errorf("the second of three: %+v", page)
	}
	window := decoded[map[string]any](t, ask(h, testKey, contactRequestsPath("r1")))
	if _, ok := window["totalNumberOfItems"]; ok {
		t.Errorf("%v has a total", window)
	}
}

func sample() Insertion {
	return Insertion{
		Reference: "seefeld#1203#H2#0306", ID: 4001234570, OfferType: "RENT", RankType: "STANDARD",
		Address:         Address{Street: "Beispielstrasse 12", PostalCode: "8008", Locality: "Zürich"},
		Characteristics: Characteristics{NumberOfRooms: 2.5, LivingSpace: 61},
		Prices:          Prices{Currency: "CHF", Rent: Rent{Net: 1980, Extra: 210, Gross: 2190, Interval: "MONTH"}},
		Localization:    titled("2.5-Zimmerwohnung mit Balkon"),
		AvailableFrom:   "2027-01-01",
		CreatedAt:       time.Date(2026, 11, 20, 7, 55, 0, 0, time.UTC),
		Extra:           map[string]json.RawMessage{"views": json.RawMessage(`12345678901234567890`), "lister": json.RawMessage(`{}`)},
	}
}

const sampleRecord = `{"address":{"locality":"Zürich","postalCode":"8008","street":"Beispielstrasse 12"},"availableFrom":"2027-01-01",` +
	`"characteristics":{"livingSpace":61,"numberOfRooms":2.5},"createdAt":"%s","id":4001234570,"lister":{},` +
	`"localization":{"de":{"text":{"title":"2.5-Zimmerwohnung mit Balkon"}},"primary":"de"},"offerType":"RENT",` +
	`"prices":{"currency":"CHF","rent":{"extra":210,"gross":2190,"interval":"MONTH","net":1980}},` +
	`"propertyReferenceId":"seefeld#1203#H2#0306","rankType":"STANDARD","views":12345678901234567890}`

func inquiry() ContactRequest {
	return ContactRequest{
		ID: "7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11", CreatedAt: time.Date(2026, 11, 20, 9, 41, 7, 250e6, time.UTC), Score: 72.5,
		Salutation: "Frau", FirstName: "Nora", LastName: "Beispiel-zq7", Email: "nora.beispiel-zq7@example.org",
		Phone: "079 000 01 23", Language: "de", Message: "Guten Tag\r\n<b>\"Samstag\"</b> \\ \t🏠\u0001",
		ViewingTimes: []string{"SAT_MORNING"}, Status: "NEW",
	}
}

const message = `"Guten Tag\r\n<b>\"Samstag\"</b> \\ \t🏠\u0001"`

func TestBothRenderingsShowTheSameRecordsInTheirOwnShape(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	must(t, m.Publish("A100", sample()))
	add(t, m, "A100", sample().Reference, inquiry())
	for target, want := range map[string]map[string]string{
		insertionsPath("A100"): {
			"flat": `{"page":1,"pageSize":20,"results":[` + fmt.Sprintf(sampleRecord, "2026-11-20T08:55:00.000+01:00") + `],"total":1}`,
			"nested": `{"content":[{"insertion":` + fmt.Sprintf(sampleRecord, "2026-11-20T08:55:00+0100") + `}],` +
				`"empty":false,"first":true,"last":true,"number":0,"size":20,"totalElements":1,"totalPages":1}`,
		},
		contactRequestsPath(sample().Reference): {
			"flat": `[{"createdAt":"2026-11-20T10:41:07.250+01:00","email":"nora.beispiel-zq7@example.org","firstName":"Nora",` +
				`"id":"7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11","language":"de","lastName":"Beispiel-zq7","message":` + message +
				`,"phone":"079 000 01 23","salutation":"Frau","score":72.5,"status":"NEW","viewingTimes":["SAT_MORNING"]}]`,
			"nested": `{"items":[{"contact":{"email":"nora.beispiel-zq7@example.org","firstName":"Nora","language":"de",` +
				`"lastName":"Beispiel-zq7","message":` + message + `,"phoneNumbers":[{"number":"079 000 01 23","type":"MOBILE"}],` +
				`"salutation":"Frau"},"createdAt":"2026-11-20T10:41:07+0100","id":"7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11",` +
				`"propertyReferenceId":"seefeld#1203#H2#0306","score":72.5,"status":"NEW","viewingTimes":["SAT_MORNING"]}],` +
				`"numberOfItemsPerPage":%d,"totalNumberOfItems":1}`,
		},
	} {
		for _, r := range []Rendering{Flat(), Nested()} {
			want := strings.Replace(want[r.Name], "%d", fmt.Sprint(r.Window), 1)
			if got := ask(New(m, steady(r)), testKey, target).Body.String(); got != want {
				t.Errorf("%s %s:\n got %s\nwant %s", r.Name, target, got, want)
			}
		}
	}
}

func TestNoContactRequestsIsAnEmptyListInBothRenderings(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r")
	for name, want := range map[string]string{
		"flat": `[]`, "nested": `{"items":[],"numberOfItemsPerPage":25,"totalNumberOfItems":0}`,
	} {
		for _, r := range []Rendering{Flat(), Nested()} {
			if r.Name == name {
				if got := ask(New(m, steady(r)), testKey, contactRequestsPath("r")).Body.String(); got != want {
					t.Errorf("%s: %s", name, got)
				}
			}
		}
	}
}

func TestARedactedPersonIsNullInBothRenderings(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	publish(t, m, "A100", "r")
	id := add(t, m, "A100", "r", inquiry())
	must(t, m.Redact(id))
	person := []string{"salutation", "firstName", "lastName", "email", "language", "message"}
	flat := decoded[[]map[string]any](t, ask(New(m, Flat()), testKey, contactRequestsPath("r")))[0]
	nested := decoded[struct{ Items []map[string]any }](t, ask(New(m, Nested()), testKey, contactRequestsPath("r"))).Items[0]
	contact := nested["contact"].(map[string]any)
	for _, name := range person {
		for shape, record := range map[string]map[string]any{"flat": flat, "nested": contact} {
			if v, there := record[name]; !there || v != nil {
				t.Errorf("%s %s: %v, there %v", shape, name, v, there)
			}
		}
	}
	if phone, there := flat["phone"]; !there || phone != nil || len(contact["phoneNumbers"].([]any)) != 0 {
		t.Error("a phone number is left")
	}
	if flat["id"] != id || flat["score"] != 72.5 || flat["status"] != "NEW" {
		t.Errorf("%v: the rest of the record is not as before", flat)
	}
	if c, _ := m.Truth().ContactRequest(id); len(c.Versions) != 2 || c.Versions[0].Record.Redacted || !c.Versions[1].Record.Redacted {
		t.Errorf("%+v", c.Versions)
	}
}

func TestOrderAndWhiteSpaceDifferFromAnswerToAnswer(t *testing.T) {
	m := newModel(Options{})
	must(t, m.Publish("A100", sample()))
	bodies := func(r Rendering) (texts []string) {
		h := New(m, r)
		for range 20 {
			w := ask(h, testKey, insertionsPath("A100"))
			if w.Code != http.StatusOK {
				t.Fatal(w.Code)
			}
			texts = append(texts, w.Body.String())
		}
		return texts
	}
	distinct := func(texts []string) int {
		slices.Sort(texts)
		return len(slices.Compact(texts))
	}
	seeded := Flat()
	seeded.Seed = 7
	first := bodies(seeded)
	if !slices.Equal(first, bodies(seeded)) {
		t.Error("the same seed gives other answers")
	}
	var want any
	for i, text := range first {
		var got any
		must(t, json.Unmarshal([]byte(text), &got))
		if i > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("another meaning: %s", text)
		}
		want = got
	}
	if n := distinct(first); n < 15 {
		t.Errorf("%d different answers of 20", n)
	}
	if n := distinct(bodies(steady(Flat()))); n != 1 {
		t.Errorf("%d different steady answers", n)
	}
}
