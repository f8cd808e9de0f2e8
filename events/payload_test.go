package events_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/schemas"
	"doorbell/schemas/schematest"
)

type node = map[string]any

// jsonField is a member as a Go struct declares it.
type jsonField struct {
	reflect.StructField
	name     string
	required bool
}

// jsonFields lists the members that a struct writes, those of embedded structs too.
func jsonFields(t reflect.Type) []jsonField {
	var fields []jsonField
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous && name != "-" {
			fields = append(fields, jsonField{f, name, options == ""})
		}
	}
	return fields
}

func TestStructsAndSchemasHaveTheSameMembers(t *testing.T) {
	for _, kind := range events.Types {
		t.Run(string(kind), func(t *testing.T) {
			file, _ := schemas.Schema(string(kind))
			var schema node
			if err := json.Unmarshal(file, &schema); err != nil {
				t.Fatal(err)
			}
			p, err := exampleEvent(t, kind).Payload()
			if err != nil {
				t.Fatal(err)
			}
			compare(t, "", reflect.TypeOf(p).Elem(), schema, schema["$defs"].(node))
		})
	}
}

// compare holds a struct against an object of a schema: names, which of them are required, and kinds, at every depth.
func compare(t *testing.T, path string, structType reflect.Type, schema, defs node) {
	t.Helper()
	properties, _ := schema["properties"].(node)
	names, required := map[string]bool{}, map[string]bool{}
	for _, f := range jsonFields(structType) {
		names[f.name] = true
		if f.required {
			required[f.name] = true
		}
		property, ok := properties[f.name].(node)
		if !ok {
			t.Errorf("%s/%s is not in the schema", path, f.name)
			continue
		}
		compareField(t, path+"/"+f.name, f.Type, property, defs)
	}
	for name := range properties {
		if !names[name] {
			t.Errorf("%s/%s is not in the struct", path, name)
		}
	}
	inSchema := map[string]bool{}
	list, _ := schema["required"].([]any)
	for _, name := range list {
		inSchema[name.(string)] = true
	}
	if maps.Equal(required, inSchema) {
		return
	}
	t.Errorf("%s: the struct always writes %v, the schema requires %v",
		path, slices.Sorted(maps.Keys(required)), slices.Sorted(maps.Keys(inSchema)))
}

func compareField(t *testing.T, path string, fieldType reflect.Type, property, defs node) {
	t.Helper()
	if ref, ok := property["$ref"].(string); ok {
		property = defs[strings.TrimPrefix(ref, "#/$defs/")].(node)
	}
	if fieldType.Kind() == reflect.Pointer {
		fieldType = fieldType.Elem()
	}
	switch want := schemaType(fieldType); {
	case want == "any":
	case property["type"] != want:
		t.Errorf("%s is %v in the schema and %s in the struct", path, property["type"], fieldType)
	case want == "object":
		compare(t, path, fieldType, property, defs)
	case want == "array":
		compareField(t, path+"/0", fieldType.Elem(), property["items"].(node), defs)
	case fieldType == reflect.TypeFor[time.Time]() && property["format"] != "date-time":
		t.Errorf("%s is a time without format", path)
	}
}

func schemaType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "any"
	case t == reflect.TypeFor[time.Time]():
		return "string"
	case t == reflect.TypeFor[json.Number]():
		return "number"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Uint64:
		return "integer"
	case reflect.Slice:
		return "array"
	case reflect.Struct:
		return "object"
	}
	return "nothing"
}

func TestAPayloadWithNothingOptionalIsValid(t *testing.T) {
	for _, kind := range events.Types {
		p, err := exampleEvent(t, kind).Payload()
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.ValueOf(p).Elem()
		for _, f := range jsonFields(v.Type()) {
			field := v.FieldByIndex(f.Index)
			switch {
			case !f.required && f.name != "record", field.Kind() == reflect.Slice && f.name != "record":
				field.SetZero()
			case field.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() && (f.name == "contact" || f.name == "insertion"):
				field.SetZero()
			}
		}
		e := newEvent(t, p)
		schematest.Validate(t, string(kind), e.Data)
		if bytes.Contains(e.Data, []byte("null")) || bytes.Contains(e.Data, []byte(`"0001-`)) {
			t.Errorf("%s", e.Data)
		}
	}
}

func TestTimesAreWrittenInTwoWidths(t *testing.T) {
	short := regexp.MustCompile(`:\d\d\.\d{1,2}Z`)
	for text, want := range map[string]string{
		"2026-11-20T09:41:07Z":           "2026-11-20T09:41:07Z",
		"2026-11-20T09:41:07.5Z":         "2026-11-20T09:41:07.500Z",
		"2026-11-20T09:41:07.39Z":        "2026-11-20T09:41:07.390Z",
		"2026-11-20T09:41:07.0019+01:00": "2026-11-20T08:41:07.001Z",
		"2026-11-20T09:41:07.0009Z":      "2026-11-20T09:41:07Z",
	} {
		for _, kind := range events.Types {
			p, err := exampleEvent(t, kind).Payload()
			if err != nil {
				t.Fatal(err)
			}
			times := setTimes(reflect.ValueOf(p).Elem(), at(text))
			e := newEvent(t, p).Stamp(1, at(text), "s")
			if n := strings.Count(string(withoutRecord(e.Data)), `"`+want+`"`); n != times {
				t.Errorf("%s: %d of %d times are %s in %s", kind, n, times, want, withoutRecord(e.Data))
			}
			if wrong := short.Find(withoutRecord(e.Data)); wrong != nil {
				t.Errorf("%s: %s", kind, wrong)
			}
			for _, name := range []string{"ce-time", "ce-recordedtime"} {
				if got := e.Header()[name][0]; got != want {
					t.Errorf("%s: %s is %s, want %s", kind, name, got, want)
				}
			}
		}
	}
}

// setTimes sets every time in a struct and counts them.
func setTimes(v reflect.Value, to time.Time) int {
	n := 0
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(to))
		return 1
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			n += setTimes(v.Field(i), to)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			n += setTimes(v.Index(i), to)
		}
	}
	return n
}

func withoutRecord(data []byte) []byte {
	before, _, _ := bytes.Cut(data, []byte(`"record":`))
	return before
}

func TestScoresTravelAsTheyAre(t *testing.T) {
	for score, want := range map[string]string{
		"72.50": `"score":72.50,`, `"high"`: `"score":"high",`, "null": `"score":null,`, "": "", "12345678901234567891": `"score":12345678901234567891,`,
	} {
		p := exampleOf[*events.ContactRequestCreated](t, events.TypeContactRequestCreated)
		p.Score, p.Record = json.RawMessage(score), json.RawMessage(`{}`)
		e := newEvent(t, p)
		if !bytes.Contains(e.Data, []byte(want)) || (want == "") == bytes.Contains(e.Data, []byte("score")) {
			t.Errorf("score %s: %s", score, e.Data)
		}
		schematest.Validate(t, string(e.Type), e.Data)
		if back, err := e.Payload(); err != nil || string(back.(*events.ContactRequestCreated).Score) != score {
			t.Errorf("score %s came back as %s, %v", score, back.(*events.ContactRequestCreated).Score, err)
		}
	}
}

func TestWatchStaleTellsTheLastTenErrors(t *testing.T) {
	p := exampleOf[*events.WatchStale](t, events.TypeWatchStale)
	p.Errors = nil
	for i := range 13 {
		p.Errors = append(p.Errors, events.StaleError{At: at("2026-11-21T02:13:02Z"), Operation: "insertions", Class: "transient", Status: 500 + i})
	}
	e := newEvent(t, p)
	schematest.Validate(t, string(e.Type), e.Data)
	back, err := e.Payload()
	if err != nil {
		t.Fatal(err)
	}
	if got := back.(*events.WatchStale).Errors; len(got) != 10 || got[0].Status != 503 || got[9].Status != 512 {
		t.Errorf("errors %v", got)
	}
}

func TestAPayloadOfAnotherFormIsAnErrorThatQuotesNothing(t *testing.T) {
	const secret = "nora.beispiel"
	e := exampleEvent(t, events.TypeContactRequestCreated)
	e.Data = json.RawMessage(`{"agencyId":"A100","createdAt":"` + secret + `"}`)
	if p, err := e.Payload(); err == nil || p != nil || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestChangesAboveTheCapKeepTheirPaths(t *testing.T) {
	changes := []events.Change{
		{Path: "/a", After: json.RawMessage(`1`)},
		{Path: "/b", Before: json.RawMessage(`"` + strings.Repeat("x", 65_000) + `"`), After: json.RawMessage(`null`)},
	}
	kept, cut := events.CapChanges(changes)
	if cut || !reflect.DeepEqual(kept, changes) {
		t.Errorf("65,000 bytes: cut is %v", cut)
	}
	changes[0].After = json.RawMessage(`"` + strings.Repeat("y", 500) + `"`)
	kept, cut = events.CapChanges(changes)
	if !cut || !reflect.DeepEqual(kept, []events.Change{{Path: "/a"}, {Path: "/b"}}) {
		t.Errorf("above 64 KiB: cut is %v", cut)
	}
	if changes[1].Before == nil {
		t.Error("the changes that were given have lost their values")
	}
	if none, cut := events.CapChanges(nil); none == nil || cut {
		t.Errorf("none: %v, %v", none, cut)
	}
}

func TestNewCapsChangesAndSaysSo(t *testing.T) {
	changed := exampleOf[*events.InsertionChanged](t, events.TypeInsertionChanged)
	reappeared := exampleOf[*events.InsertionReappeared](t, events.TypeInsertionReappeared)
	big := []events.Change{{Path: "/b", After: json.RawMessage(`"` + strings.Repeat("x", 70_000) + `"`)}}
	changed.Changes, reappeared.Changes = big, big
	for _, p := range []events.Payload{changed, reappeared} {
		e := newEvent(t, p)
		if !bytes.Contains(e.Data, []byte(`"truncated":true`)) || !bytes.Contains(e.Data, []byte(`"changes":[{"path":"/b"}]`)) {
			t.Errorf("%s: %.300s", e.Type, e.Data)
		}
		schematest.Validate(t, string(e.Type), e.Data)
	}
}
