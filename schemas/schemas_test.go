package schemas_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"doorbell/schemas"
	"doorbell/schemas/schematest"
)

type node = map[string]any

func load(t *testing.T, file []byte, ok bool) node {
	t.Helper()
	if !ok {
		t.Fatal("no such file")
	}
	var n node
	if err := json.Unmarshal(file, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// eachType runs a test for every type with its schema and its example.
func eachType(t *testing.T, test func(t *testing.T, eventType string, schema, example node)) {
	for _, eventType := range schemas.Types() {
		t.Run(eventType, func(t *testing.T) {
			schema, ok := schemas.Schema(eventType)
			example, ok2 := schemas.Example(eventType)
			test(t, eventType, load(t, schema, ok), load(t, example, ok2))
		})
	}
}

// walk visits every object within a schema.
func walk(value any, path string, visit func(path string, n node)) {
	switch v := value.(type) {
	case node:
		visit(path, v)
		for name, child := range v {
			walk(child, path+"/"+name, visit)
		}
	case []any:
		for _, child := range v {
			walk(child, path, visit)
		}
	}
}

func TestASchemaIsNamedAfterItsTypeAndStandsAlone(t *testing.T) {
	eachType(t, func(t *testing.T, eventType string, schema, _ node) {
		if want := "urn:doorbell:schema:" + eventType + ":v1"; schema["$id"] != want {
			t.Errorf("$id is %v, want %v", schema["$id"], want)
		}
		if schema["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("$schema is %v", schema["$schema"])
		}
		defs, used := schema["$defs"].(node), map[string]bool{}
		walk(schema, "", func(path string, n node) {
			ref, ok := n["$ref"].(string)
			if !ok {
				return
			}
			name, local := strings.CutPrefix(ref, "#/$defs/")
			if !local || defs[name] == nil {
				t.Errorf("%s: $ref %s leads out of the file", path, ref)
			}
			used[name] = true
		})
		for name := range defs {
			if !used[name] {
				t.Errorf("$defs/%s is not used", name)
			}
		}
	})
}

func TestASchemaAcceptsItsExampleAndRefusesInvalidOnes(t *testing.T) {
	eachType(t, func(t *testing.T, eventType string, schema, example node) {
		with := func(name string, value any) []byte {
			other := maps.Clone(example)
			if other[name] = value; value == nil {
				delete(other, name)
			}
			return encode(t, other)
		}
		schematest.Validate(t, eventType, encode(t, example))
		schematest.Validate(t, eventType, with("laterMember", node{"any": 1}))
		required := schema["required"].([]any)
		if len(required) < 4 {
			t.Fatalf("only %v are required", required)
		}
		if example["record"] != nil { // by anyOf: a shortened message may lack it
			required = append(required, "record")
		}
		for _, name := range required {
			err := schematest.Check(eventType, with(name.(string), nil))
			if err == nil || !strings.Contains(err.Error(), "required") || !strings.Contains(err.Error(), name.(string)) {
				t.Errorf("without %s: %v", name, err)
			}
		}
		for _, wrong := range []any{"2026-11-20T10:41:07+01:00", "2026-11-20 09:41:07Z", "yesterday", 1763631667} {
			if schematest.Check(eventType, with("observedAt", wrong)) == nil {
				t.Errorf("the time %v is valid", wrong)
			}
		}
		if eventType == "access.halted" && schematest.Check(eventType, with("scope", "insertion")) == nil {
			t.Error("a halted insertion is not named")
		}
		example["truncated"] = true
		schematest.Validate(t, eventType, with("record", nil))
		walk(schema, "", func(path string, n node) {
			for _, closing := range []string{"additionalProperties", "unevaluatedProperties"} {
				if _, ok := n[closing]; ok && !strings.HasSuffix(path, "/properties") {
					t.Errorf("%s: %s", path, closing)
				}
			}
		})
	})
}

func TestASharedDefinitionIsTheSameEverywhere(t *testing.T) {
	seen := map[string]any{}
	eachType(t, func(t *testing.T, _ string, schema, _ node) {
		for name, def := range schema["$defs"].(node) {
			if first, ok := seen[name]; ok && !reflect.DeepEqual(first, def) {
				t.Errorf("$defs/%s differs from that of another schema", name)
			}
			seen[name] = def
		}
	})
}

func TestTheHeadersOfAnExampleBelongToItsPayload(t *testing.T) {
	id := regexp.MustCompile(`^[a-z2-7]{26}$`)
	seen := map[string]string{}
	eachType(t, func(t *testing.T, eventType string, schema, example node) {
		file, ok := schemas.ExampleHeader(eventType)
		header := load(t, file, ok)
		for name, want := range map[string]any{
			"Nats-Msg-Id":   header["ce-id"],
			"ce-type":       eventType,
			"ce-dataschema": schema["$id"],
			"ce-origin":     example["origin"],
			"ce-subject":    example["propertyReferenceId"],
		} {
			if header[name] != want {
				t.Errorf("%s is %v, want %v", name, header[name], want)
			}
		}
		ceID, _ := header["ce-id"].(string)
		if !id.MatchString(ceID) || seen[ceID] != "" {
			t.Errorf("ce-id %s has another form, or is that of %q", ceID, seen[ceID])
		}
		seen[ceID] = eventType
	})
}
