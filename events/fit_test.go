package events_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/schemas/schematest"
)

// freeTexts are the members that may hold any text; all others have words or forms of their own.
var freeTexts = []string{
	"propertyReferenceId", "contactRequestId", "advice", "resume", "approve", "expected", "found", "text", "class", "score", "path",
	"redactedFields",
	"salutation", "firstName", "lastName", "email", "phone", "phoneRaw", "language", "message", "title", "street", "url",
}

// fill puts a text into every free text of a value, and makes its lists long.
func fill(name string, value any, text string) any {
	switch v := value.(type) {
	case string:
		if slices.Contains(freeTexts, name) {
			return text
		}
	case node:
		for k := range v {
			v[k] = fill(k, v[k], text)
		}
	case []any:
		for i := range v {
			v[i] = fill(name, v[i], text)
		}
		if name == "changes" || name == "redactedFields" {
			return slices.Repeat(v, 20)
		}
	case float64:
		if name == "score" {
			return json.Number("7" + strings.Repeat("0", len(text)))
		}
	}
	return value
}

func TestFromTwoKiBOnEveryEventFitsAndIsStillValid(t *testing.T) {
	agencies, limits := []string{"A100", strings.Repeat("ä", 32)}, []int{2 << 10, 2_100, 4 << 10, 8 << 10, 64 << 10}
	for _, kind := range events.Types {
		for _, text := range []string{"", "a", strings.Repeat("ä", 20), strings.Repeat("\x01", 300), strings.Repeat(`"\`, 2_000), strings.Repeat("😀", 3_000)} {
			e := exampleEvent(t, kind)
			var payload node
			must(t, json.Unmarshal(e.Data, &payload))
			fill("", payload, text)
			for _, payload["agencyId"] = range agencies {
				data, err := json.Marshal(payload)
				must(t, err)
				e.AgencyID, e.StoreID, e.Data = payload["agencyId"].(string), strings.Repeat("s", 64), data
				e.Reference, _ = payload["propertyReferenceId"].(string)
				for _, most := range limits {
					checkFits(t, e, most)
				}
			}
		}
	}
}

// TestDroppingALongNameKeepsTheRestOfThePerson fits an event with a long last name into little
// room.
func TestDroppingALongNameKeepsTheRestOfThePerson(t *testing.T) {
	e := exampleEvent(t, events.TypeContactRequestCreated)
	e.Data = bytes.Replace(e.Data, []byte(`"lastName":"`), []byte(`"lastName":"`+strings.Repeat("x", 5000)), 1)
	var payload struct{ Contact map[string]string }
	if err := json.Unmarshal(e.Fit(4<<10).Data, &payload); err != nil || payload.Contact["lastName"] != "" ||
		payload.Contact["firstName"] == "" || payload.Contact["email"] == "" || payload.Contact["phone"] == "" {
		t.Errorf("%v: %v", err, payload.Contact)
	}
}

func checkFits(t *testing.T, e events.Event, most int) {
	t.Helper()
	size := func(e events.Event) int { return wireSize(e.Header()) + len(e.Data) }
	original := slices.Clone(e.Data)
	got := e.Fit(most)
	if size(got) > most || !bytes.Equal(e.Data, original) {
		t.Fatalf("%s takes %d of %d bytes: %.3000s", e.Type, size(got), most, got.Data)
	}
	if fits := size(e) <= most; fits != reflect.DeepEqual(got, e) || fits == bytes.Contains(got.Data, []byte(`"truncated":true`)) {
		t.Fatalf("%s of %d bytes in %d: %s", e.Type, size(e), most, got.Data)
	} else if fits {
		return
	}
	schematest.Validate(t, string(e.Type), got.Data)
	back, err := events.Decode(got.Header(), got.Data)
	if err != nil || back.AgencyID != e.AgencyID {
		t.Fatalf("%s can no longer be read: %v", e.Type, err)
	}
}
