package ops

import (
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/schemas"
)

// exampleLine is what a person sees of the example of a type, without time, agency, type and insertion.
func exampleLine(t *testing.T, eventType string) string {
	t.Helper()
	data, ok := schemas.Example(eventType)
	if !ok {
		t.Fatalf("%s has no example", eventType)
	}
	text := Line(events.Event{Type: events.Type(eventType), AgencyID: "A100", Data: data}, false)
	_, said, found := strings.Cut(text, eventType)
	if !found {
		t.Fatalf("%q does not name its type", text)
	}
	return strings.TrimSpace(said)
}

func TestEveryEventLineSaysMoreThanItsType(t *testing.T) {
	for _, eventType := range schemas.Types() {
		if exampleLine(t, eventType) == "" {
			t.Errorf("the line of %s says nothing", eventType)
		}
	}
}

func TestEveryTypeHasAName(t *testing.T) {
	for _, eventType := range events.Types {
		if told := Tell(events.Event{Type: eventType}, false); told.What == "" || told.What == string(eventType) {
			t.Errorf("%s is called %q", eventType, told.What)
		}
	}
}

func TestTheLineOfAnAccessSaysWhatHoldsNow(t *testing.T) {
	for eventType, want := range map[string]string{
		"access.halted": "the API refuses the key; polling stopped for everything of the agency; doorbell resume A100 or another key resumes it",
	} {
		if got := exampleLine(t, eventType); got != want {
			t.Errorf("%s: %q, want %q", eventType, got, want)
		}
	}
}

func TestTheLineOfAWatchIsASentenceWithoutCodes(t *testing.T) {
	for _, tt := range []struct {
		of         events.Type
		data, want string
	}{
		{events.TypeAccessResumed, `"scope":"contact_requests","cause":"operator"`, "polling resumed for all contact requests of the agency: an operator asked for it"},
		{events.TypeWatchRecovered, `"operation":"insertions","ends":"stale"`, "the list of insertions: the API answers again"},
		{events.TypeWatchRecovered, `"operation":"contact_requests","ends":"gap_detected"`, "contact requests: everything can be read again"},
		{events.TypeWatchRecovered, `"ends":"change_held"`, "the held change is settled"},
		{events.TypeWatchGapDetected, `"reason":"window_full","reached":1000`, "more contact requests arrived at once than the API shows; 1000 reached"},
		{events.TypeWatchChangeHeld, `"reason":"empty_list","missing":8,"known":8,"approve":"doorbell approve A100"`, "8 of 8 insertions are missing; doorbell approve A100 announces it now"},
		{events.TypeWatchChangeHeld, `"operation":"contact_requests","missing":3,"known":4,"approve":"doorbell approve A100"`, "the people of 3 of 4 contact requests are missing; doorbell approve A100 announces it now"},
	} {
		if got := Told(events.Event{Type: tt.of, Data: []byte("{" + tt.data + "}")}, false); strings.Join(got, "|") != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.of, tt.data, got, tt.want)
		}
	}
}

func TestALineTellsAPersonOnlyWhereItMay(t *testing.T) {
	data, _ := schemas.Example("contact_request.created")
	e := events.Event{Type: events.TypeContactRequestCreated, AgencyID: "A100", Data: data}
	if text := Line(e, false); strings.Contains(text, "Nora") || strings.Contains(text, "Beispiel,") || strings.Contains(text, "Guten Tag") {
		t.Errorf("a line without people tells %q", text)
	}
	if text := Line(e, true); !strings.Contains(text, "from Nora Beispiel: Guten Tag") {
		t.Errorf("a line with people tells %q", text)
	}
}

func TestALineIsOneLineAndNotLongWhateverWasSent(t *testing.T) {
	long := strings.Repeat("very\\u202e\\n ", 10_000)
	data := `{"agencyId":"A100","score":"` + long + `","insertion":{"title":"` + long + `"},"contact":{"firstName":"` + long + `","message":"` + long + `"},` +
		`"changes":[{"path":"/` + long + `","before":"` + long + `"}]}`
	text := Line(events.Event{Type: events.TypeContactRequestCreated, AgencyID: "A100", Data: []byte(data)}, true)
	if len([]rune(text)) > 500 || strings.ContainsAny(text, "\n\u202e") {
		t.Errorf("%d characters: %.100q", len(text), text)
	}
}

func TestALineWithPeopleIsWholeWhoeverIsLeftOut(t *testing.T) {
	for want, data := range map[string]string{
		"from Nora Beispiel":            `{"contact":{"firstName":"Nora","lastName":"Beispiel"},"truncated":true}`,
		"from Nora Beispiel: Guten Tag": `{"contact":{"firstName":"Nora","lastName":"Beispiel","message":"Guten Tag"}}`,
		"":                              `{"contact":{},"truncated":true}`,
		"erased":                        `{"contact":{},"truncated":true,"erased":true}`,
	} {
		if got := Told(events.Event{Type: events.TypeContactRequestCreated, Data: []byte(data)}, true); strings.Join(got, "|") != want {
			t.Errorf("%s is told as %q, want %q", data, got, want)
		}
	}
}
