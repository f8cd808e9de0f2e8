package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

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
