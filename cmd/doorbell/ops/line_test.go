package ops

import (
	"encoding/json"
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/schemas"
)

func TestEveryEventLineSaysMoreThanItsType(t *testing.T) {
	for _, eventType := range events.Types {
		data, _ := schemas.Example(string(eventType))
		what, parts := Tell(events.Event{Type: eventType, AgencyID: "A100", Data: data}, false)
		if what == "" || what == string(eventType) || len(parts) == 0 || parts[0] == "" {
			t.Errorf("%s is printed as %q, %q", eventType, what, parts)
		}
	}
}

func TestTheLineOfAWatchIsASentenceWithoutCodes(t *testing.T) {
	for _, tt := range []struct {
		of         events.Type
		data, want string
	}{
		{
			events.TypeAccessHalted, `"scope":"agency","operation":"insertions","status":403,` +
				`"probableReason":"key_rejected","resume":"doorbell resume A100"`,
			"the API refuses the key|operation insertions|scope agency|doorbell resume A100",
		},
		{
			events.TypeAccessResumed, `"scope":"contact_requests","cause":"operator"`,
			"polling resumed|scope contact requests",
		},
		{
			events.TypeWatchRecovered, `"operation":"insertions","ends":"stale"`,
			"the API answers again|operation insertions",
		},
		{
			events.TypeWatchGapDetected, `"reason":"window_full","reached":1000`,
			"more contact requests arrived at once than the API shows|reached 1000",
		},
		{
			events.TypeWatchChangeHeld, `"missing":8,"known":9,"approve":"doorbell approve A100"`,
			"many insertions disappeared at once|known 9|missing 8|doorbell approve A100",
		},
	} {
		_, got := Tell(events.Event{Type: tt.of, Data: []byte("{" + tt.data + "}")}, false)
		if strings.Join(got, "|") != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.of, tt.data, got, tt.want)
		}
	}
}

func TestALineIsOneLineAndNotLongWhateverWasSent(t *testing.T) {
	long := strings.Repeat("very\\u202e\\n ", 10_000)
	data := `{"agencyId":"A100","score":"` + long + `","insertion":{"title":"` + long + `"},"contact":{"firstName":"` + long + `","message":"` + long + `"},` +
		`"changes":[{"path":"/` + long + `","before":"` + long + `"}]}`
	text := Line(events.Event{Type: events.TypeContactRequestCreated, AgencyID: "A100", Data: []byte(data)}, true, 0)
	if len([]rune(text)) > 500 || strings.ContainsAny(text, "\n\u202e") {
		t.Errorf("%d characters: %.100q", len(text), text)
	}
}

func TestALineNamesAPersonOnlyWhereItMay(t *testing.T) {
	for data, want := range map[string]string{
		`{"contact":{"firstName":"Nora","lastName":"Beispiel"},"truncated":true}`:             "Nora Beispiel",
		`{"contact":{"firstName":"Nora","lastName":"Beispiel","message":"Guten Tag"}}`:        "Nora Beispiel: Guten Tag",
		`{"contact":{"fullName":"Nora","message":"Hallo"},"insertion":{"locality":"Zürich"}}`: "Nora, Zürich: Hallo",
		`{"contact":{},"truncated":true}`:                                                     "",
		`{"contact":{},"truncated":true,"erased":true}`:                                       "erased",
	} {
		e := events.Event{Type: events.TypeContactRequestCreated, Data: []byte(data)}
		if _, got := Tell(e, true); strings.Join(got, "|") != want {
			t.Errorf("%s is printed as %q, want %q", data, got, want)
		}
		if text := Line(e, false, 0); strings.Contains(text, "Nora") || strings.Contains(text, "Hallo") {
			t.Errorf("a line without people names a person: %q", text)
		}
	}
}

func TestALineIsAsWideAsTheTerminalAndEndsWithTheInsertion(t *testing.T) {
	e := events.Event{
		Type: events.TypeContactRequestCreated, AgencyID: "A100", Reference: "seefeld#1203#H2#0032",
		Data: []byte(`{"score":7.5,"insertion":{"title":"Bright flat with 4 rooms","locality":"Bern"},` +
			`"contact":{"fullName":"Nora Beispiel","message":"<p>Guten Abend,<br>ist ein <b>Parkplatz</b> dabei &amp; ab wann?</p>"}}`),
	}
	const head = "00:00:00  A100   New lead           Nora Beispiel, Bern: "
	want := head + "Guten Abend, ist ein Parkplatz dabei & ab wann?  “Bright flat with 4 rooms”  score 7.5  seefeld#1203#H2#0032"
	if got := Line(e, true, 0); got != want {
		t.Errorf("in a file:\n%s, want\n%s", got, want)
	}
	if got, want := Line(e, true, 80), head+"Gue…  seefeld#1203#H2#0032"; len([]rune(got)) > 80 || got != want && !strings.HasPrefix(got, head) {
		t.Errorf("on a terminal: %s", got)
	}
	for width := 1; width < 80; width++ {
		if got := Line(e, true, width); len([]rune(got)) > max(width, 70) {
			t.Errorf("%d columns: %s", width, got)
		}
	}
}

func TestAChangeIsWrittenAsPeopleWriteIt(t *testing.T) {
	for change, want := range map[string]string{
		`{"path":"/prices/rent/gross","before":2950,"after":12891}`:     "rent gross 2'950 → 12'891",
		`{"path":"/yearBuilt","before":1999,"after":2001}`:              "year built 1999 → 2001",
		`{"path":"/rankType","before":"STANDARD","after":"TOP"}`:        "rank type STANDARD → TOP",
		`{"path":"/availableFrom","after":"2027-12-01"}`:                "available from (none) → 2027-12-01",
		`{"path":"/prices/buy/price","before":1250000,"after":1200000}`: "buy price 1'250'000 → 1'200'000",
		`{"path":"/x","before":{"a":1},"after":"a\u202eb"}`:             `x {"a":1} → ` + "a\ufffdb",
	} {
		e := events.Event{Type: events.TypeInsertionChanged, Data: []byte(`{"changes":[` + change + `]}`)}
		if _, got := Tell(e, false); strings.Join(got, "|") != want {
			t.Errorf("%s: %q, want %q", change, got, want)
		}
	}
}

func TestAMaskedEventHoldsNobodyAndStaysValid(t *testing.T) {
	for _, eventType := range schemas.Types() {
		data, _ := schemas.Example(eventType)
		e, ok := Masked(events.Event{Type: events.Type(eventType), AgencyID: "A100", Data: data})
		if !ok || !json.Valid(e.Data) {
			t.Fatalf("%s cannot be masked", eventType)
		}
		for _, person := range []string{"nora", "Nora", "example.org", "079", "Guten Tag", "SAT_MORNING"} {
			if strings.Contains(string(e.Data), person) {
				t.Errorf("%s names %q", eventType, person)
			}
		}
		if strings.Contains(string(data), `"firstName":`) && !strings.Contains(string(e.Data), `"firstName":"***"`) {
			t.Errorf("%s does not show which members of the person exist: %s", eventType, e.Data)
		}
		if !strings.Contains(string(e.Data), `"agencyId":"A100"`) {
			t.Errorf("%s does not name its agency", eventType)
		}
	}
}

func TestUnknownMembersAreMaskedAndOnlyObjectsAreShown(t *testing.T) {
	for data, want := range map[string]string{
		`{"agencyId":"A100","newMember":"Nora","contact":["Nora"]}`: `{"agencyId":"A100","contact":"***","newMember":"***"}`,

		``: "", `null`: "", `"Nora"`: "", `["Nora"]`: "", `{"agencyId":`: "",
	} {
		e := events.Event{Type: events.TypeContactRequestCreated, Data: []byte(data)}
		if masked, ok := Masked(e); ok != (want != "") || string(masked.Data) != want || string(e.Data) != data {
			t.Errorf("%s is shown as %s", data, masked.Data)
		}
	}
}
