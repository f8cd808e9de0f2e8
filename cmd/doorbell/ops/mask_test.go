package ops

import (
	"encoding/json"
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/schemas"
)

func TestAMaskedEventHoldsNobodyAndIsStillOne(t *testing.T) {
	for _, eventType := range schemas.Types() {
		data, _ := schemas.Example(eventType)
		e, ok := Masked(events.Event{Type: events.Type(eventType), AgencyID: "A100", Data: data})
		if !ok || !json.Valid(e.Data) {
			t.Fatalf("%s cannot be masked", eventType)
		}
		for _, person := range []string{"nora", "Nora", "example.org", "079", "Guten Tag", "SAT_MORNING"} {
			if strings.Contains(string(e.Data), person) {
				t.Errorf("%s tells %q", eventType, person)
			}
		}
		if !strings.Contains(string(e.Data), `"agencyId":"A100"`) {
			t.Errorf("%s does not say whose it is", eventType)
		}
	}
}

func TestMembersThatNobodyKnowsAreMasked(t *testing.T) {
	e := events.Event{Type: events.TypeContactRequestCreated, Data: []byte(`{"agencyId":"A100","newMember":"Nora","contact":["Nora"]}`)}
	masked, ok := Masked(e)
	if !ok || string(masked.Data) != `{"agencyId":"A100","contact":"***","newMember":"***"}` {
		t.Errorf("%t, %s", ok, masked.Data)
	}
	if string(e.Data) == string(masked.Data) {
		t.Error("the event itself was changed")
	}
}

func TestWhatIsNoObjectIsNotShown(t *testing.T) {
	for _, data := range []string{``, `null`, `"Nora"`, `["Nora"]`, `{"agencyId":`} {
		if e, ok := Masked(events.Event{Type: events.TypeContactRequestCreated, Data: []byte(data)}); ok || e.Data != nil {
			t.Errorf("%s is shown as %s", data, e.Data)
		}
	}
}
