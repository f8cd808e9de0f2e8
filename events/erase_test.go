package events_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"doorbell/events"
	"doorbell/schemas/schematest"
)

func TestAnErasedEventHoldsNothingOfThePerson(t *testing.T) {
	for _, kind := range []events.Type{events.TypeContactRequestCreated, events.TypeContactRequestChanged} {
		e := exampleEvent(t, kind)
		if !e.HoldsPerson() || e.Erased() {
			t.Fatalf("%s: the example has no person", kind)
		}
		for name, whole := range map[string]events.Event{"whole": e, "cut to fit": e.Fit(1500)} {
			got := whole.Erase()
			if got.HoldsPerson() || !got.Erased() {
				t.Errorf("%s, %s: not erased: %s", kind, name, got.Data)
			}
			schematest.Validate(t, string(kind), got.Data)
			var was, is map[string]json.RawMessage
			if json.Unmarshal(whole.Data, &was) != nil || json.Unmarshal(got.Data, &is) != nil {
				t.Fatal("no JSON")
			}
			for _, gone := range []string{"record", "score"} {
				if is[gone] != nil {
					t.Errorf("%s, %s: %s stays", kind, name, gone)
				}
			}
			if string(is["contact"]) != "{}" || string(is["truncated"]) != "true" {
				t.Errorf("%s, %s: %s", kind, name, got.Data)
			}
			for _, stays := range []string{"agencyId", "propertyReferenceId", "contactRequestId", "identity", "createdAt", "observedAt", "insertion"} {
				if !bytes.Equal(was[stays], is[stays]) {
					t.Errorf("%s, %s: %s was %s and is %s", kind, name, stays, was[stays], is[stays])
				}
			}
			if again := got.Erase(); !bytes.Equal(again.Data, got.Data) {
				t.Errorf("%s, %s: erasing twice changes it", kind, name)
			}
			got.Data = whole.Data
			if got.ID != e.ID || got.Sequence != e.Sequence || !got.Time.Equal(e.Time) {
				t.Errorf("%s, %s: the envelope changed", kind, name)
			}
		}
	}
}

// A person may write what the mark looks like.
func TestAMessageThatQuotesTheMarkIsNotAnErasedEvent(t *testing.T) {
	p := exampleOf[*events.ContactRequestCreated](t, events.TypeContactRequestCreated)
	p.Contact.Message, p.Record = `"erased":true`, json.RawMessage(`{"erased":true}`)
	if e := newEvent(t, p); e.Erased() || !e.HoldsPerson() {
		t.Errorf("it counts as erased: %s", e.Data)
	}
}
