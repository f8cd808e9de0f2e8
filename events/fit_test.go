package events_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/schemas/schematest"
)

func size(e events.Event) int { return wireSize(e.Header()) + len(e.Data) }

// freeTexts are the members that may hold any text; all others have words or forms of their own.
var freeTexts = []string{
	"propertyReferenceId", "contactRequestId", "advice", "resume", "approve", "expected", "found", "text", "class", "score", "path",
	"redactedFields",
	"salutation", "firstName", "lastName", "email", "phone", "phoneRaw", "language", "message", "title", "street", "url",
}

// hostile says what an example is filled with: what stands in a free text, how often a list is repeated.
type hostile struct {
	text  func(old string) string
	times func() int
}

// event makes the example of a type hostile, and its envelope as large as it can be.
func (h hostile) event(e events.Event, agencyID string) events.Event {
	var payload node
	if err := json.Unmarshal(e.Data, &payload); err != nil {
		panic(err)
	}
	h.fill("", payload)
	payload["agencyId"] = agencyID
	data, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	e.AgencyID, e.StoreID, e.Data = agencyID, strings.Repeat("s", 64), data
	e.Reference, _ = payload["propertyReferenceId"].(string)
	return e
}

func (h hostile) fill(name string, value any) any {
	switch v := value.(type) {
	case string:
		if slices.Contains(freeTexts, name) {
			return h.text(v)
		}
	case node:
		for k := range v {
			v[k] = h.fill(k, v[k])
		}
		if name == "record" {
			v["more"] = h.text("")
		}
	case []any:
		for i := range v {
			v[i] = h.fill(name, v[i])
		}
		if name == "changes" || name == "redactedFields" {
			return slices.Repeat(v, h.times())
		}
	case float64:
		if name == "score" {
			return json.Number("7" + strings.Repeat("0", 100*h.times()))
		}
	}
	return value
}

func hostileIn(t *rapid.T) hostile {
	pieces := rapid.SampledFrom([]string{"", "a", "ä", "\x01", "😀", `"\`, "<&>\u2028", "x\r\n"})
	return hostile{
		text: func(old string) string {
			if rapid.Bool().Draw(t, "keep") {
				return old
			}
			return strings.Repeat(pieces.Draw(t, "piece"), rapid.SampledFrom([]int{1, 20, 300, 2_000}).Draw(t, "long"))
		},
		times: func() int { return rapid.SampledFrom([]int{1, 5, 40}).Draw(t, "times") },
	}
}

func TestFromTwoKiBOnEveryEventFitsAndIsStillValid(t *testing.T) {
	examples := map[events.Type]events.Event{}
	for _, kind := range events.Types {
		examples[kind] = exampleEvent(t, kind)
	}
	agencies := rapid.SampledFrom([]string{"A100", strings.Repeat("a", 64), strings.Repeat("ä", 32)})
	rapid.Check(t, func(t *rapid.T) {
		e := hostileIn(t).event(examples[rapid.SampledFrom(events.Types).Draw(t, "type")], agencies.Draw(t, "agency"))
		most := rapid.SampledFrom([]int{2 << 10, 2_100, 3_000, 4 << 10, 8 << 10, 64 << 10}).Draw(t, "max")
		original := slices.Clone(e.Data)
		got := e.Fit(most)
		if size(got) > most {
			t.Fatalf("%s takes %d of %d bytes: %s", e.Type, size(got), most, got.Data)
		}
		if !bytes.Equal(e.Data, original) {
			t.Fatal("Fit changed what it was given")
		}
		if err := schematest.Check(string(e.Type), got.Data); err != nil {
			t.Fatal(err)
		}
		if size(e) <= most {
			if !reflect.DeepEqual(got, e) {
				t.Fatal("an event that fits was changed")
			}
			return
		}
		checkTruncated(t, e, got)
	})
}

func checkTruncated(t *rapid.T, e, got events.Event) {
	if !bytes.Contains(got.Data, []byte(`"truncated":true`)) {
		t.Fatalf("not marked: %s", got.Data)
	}
	back, err := events.Decode(got.Header(), got.Data)
	if err != nil || back.AgencyID != e.AgencyID {
		t.Fatalf("cannot be read any more: %v", err)
	}
}
