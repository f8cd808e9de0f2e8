package events_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/schemas"
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
			must(t, json.Unmarshal(file, &schema))
			p, err := exampleEvent(t, kind).Payload()
			must(t, err)
			compare(t, "", reflect.TypeOf(p).Elem(), schema, schema["$defs"].(node))
		})
	}
}

// compare compares a struct with an object of a schema: names, which of them are required, and kinds, at every depth.
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

func TestAPayloadOfAnotherFormIsAnErrorThatQuotesNothing(t *testing.T) {
	const secret = "nora.beispiel"
	e := exampleEvent(t, events.TypeContactRequestCreated)
	e.Data = json.RawMessage(`{"agencyId":"A100","createdAt":"` + secret + `"}`)
	if p, err := e.Payload(); err == nil || p != nil || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v, %v", p, err)
	}
}
