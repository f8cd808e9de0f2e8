package schemas_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"doorbell/schemas"
)

var accept = flag.Bool("accept", false, "take what version 1 has gained into testdata/v1, if nothing of it breaks a consumer")

// frozen holds version 1 as it was released, and what it has gained since.
const frozen = "testdata/v1"

// breaks says how a schema of version 1 must not differ from the one that was released, and who would suffer: nothing if
// it may.
//
// Consumers use a schema in three ways: they generate code from it, they validate what arrives with a copy that is older
// than the doorbell that sent it, and they validate events that are older than the schema, as a stream keeps them for
// weeks and a replay brings them back. So what new and old events may hold must stay the same:
//
//   - An optional member may be added, at any depth: schemas are open, and old copies step over it. So may a description, a
//     title or an example change, and $defs be arranged anew.
//   - A required member stays required: someone reads it without asking. A member that is not does not become so: events in
//     streams lack it, and so does an added member, for the same reason.
//   - A member stays, with its type. A wider type (also null) breaks who reads it, a narrower one refuses old events.
//   - An enum gains no value, because someone switches over it, and loses none, because old events have it. A word that may
//     be joined by others is a string whose description lists them and says so: that list may only grow.
//   - Every other keyword, such as format, pattern, minimum, anyOf, stays as it is, and none is added to what was there.
//     So additionalProperties cannot close what is open.
//
// For all else there is version 2: another subject, another $id, published beside version 1 for a while.
func breaks(released, now node) []string {
	return compare("", resolve(released, released["$defs"]), resolve(now, now["$defs"]))
}

// annotations are keywords that decide nothing.
var annotations = []string{"title", "description", "examples", "$comment", "deprecated"}

// words is the keyword under which resolve keeps what a description lists of words that others may join.
const words = "words of the description"

// wordList finds them.
var wordList = regexp.MustCompile(`: ([a-z_, ]+)\. Later versions may know more`)

// resolve puts definitions in the place of references, and leaves out what decides nothing.
func resolve(n node, defs any) node {
	resolved := node{}
	if text, ok := n["description"].(string); ok {
		if found := wordList.FindStringSubmatch(text); found != nil {
			var all []any
			for _, word := range strings.Split(found[1], ", ") {
				all = append(all, word)
			}
			resolved[words] = all
		}
	}
	if ref, ok := n["$ref"].(string); ok {
		def, _ := at(defs, strings.TrimPrefix(ref, "#/$defs/")).(node)
		maps.Copy(resolved, resolve(def, defs))
	}
	for keyword, value := range n {
		switch {
		case keyword == "$ref" || keyword == "$defs" || slices.Contains(annotations, keyword):
		case keyword == "properties":
			members := node{}
			for name, member := range value.(node) {
				members[name] = resolve(member.(node), defs)
			}
			resolved[keyword] = members
		default:
			resolved[keyword] = resolveAny(value, defs)
		}
	}
	return resolved
}

func resolveAny(value, defs any) any {
	switch v := value.(type) {
	case node:
		return resolve(v, defs)
	case []any:
		all := []any{}
		for _, one := range v {
			all = append(all, resolveAny(one, defs))
		}
		return all
	}
	return value
}

func compare(path string, released, now node) (all []string) {
	say := func(format string, args ...any) { all = append(all, path+"/: "+fmt.Sprintf(format, args...)) }
	for _, keyword := range slices.Sorted(maps.Keys(union(released, now))) {
		before, after := released[keyword], now[keyword]
		switch {
		case reflect.DeepEqual(before, after):
		case keyword == "properties":
			all = append(all, compareMembers(path, before, after)...)
		case keyword == "items" && before != nil && after != nil:
			all = append(all, compare(path+"/*", before.(node), after.(node))...)
		case keyword == words && before == nil:
		case keyword == words:
			each(before, after, func(name any) { say("%q is listed no longer, and someone waits for it", name) })
		case keyword == "required":
			each(before, after, func(name any) { say("%v is required no longer, and someone reads it without asking", name) })
			each(after, before, func(name any) { say("%v is required now, and events in streams lack it", name) })
		case keyword == "type" && before != nil && after != nil:
			each(after, before, func(name any) { say("may be %v now, and someone reads another type", name) })
			each(before, after, func(name any) { say("may not be %v any more, and events in streams are", name) })
		case keyword == "enum" && before != nil && after != nil:
			each(after, before, func(name any) { say("may be %q now, and someone switches over the values", name) })
			each(before, after, func(name any) { say("may not be %q any more, and events in streams are", name) })
		case before == nil:
			say("%s is new, and events in streams may not keep to it", keyword)
		case after == nil:
			say("%s is gone, and someone relies on it", keyword)
		default:
			say("%s has changed", keyword)
		}
	}
	return all
}

// compareMembers lets members be added and nothing else.
func compareMembers(path string, before, after any) (all []string) {
	released, _ := before.(node)
	now, _ := after.(node)
	for _, name := range slices.Sorted(maps.Keys(released)) {
		if now[name] == nil {
			all = append(all, path+"/"+name+": is gone, and someone reads it")
			continue
		}
		all = append(all, compare(path+"/"+name, released[name].(node), now[name].(node))...)
	}
	return all
}

func union(a, b node) node {
	u := maps.Clone(a)
	maps.Copy(u, b)
	return u
}

// each visits what one list, or single value, has and the other has not.
func each(have, lack any, visit func(any)) {
	for _, value := range list(have) {
		if !slices.Contains(list(lack), value) {
			visit(value)
		}
	}
}

func list(value any) []any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{value}
}

func TestVersion1OnlyGrows(t *testing.T) {
	names, err := fs.Glob(os.DirFS(frozen), "*.schema.json")
	if err != nil || len(names) < 17 {
		t.Fatalf("%d schemas are frozen: %v", len(names), err)
	}
	for _, name := range names {
		now, err := fs.ReadFile(schemas.Files(), name)
		if err != nil {
			t.Errorf("%s is gone, and someone has it from us by this name", name)
			continue
		}
		for _, problem := range breaks(load(t, readFrozen(t, name), true), load(t, now, true)) {
			t.Errorf("%s%s", name, problem)
		}
	}
	channels := at(load(t, readFrozen(t, schemas.AsyncAPIName), true), "channels").(node)
	for name, channel := range channels {
		if now := at(document(t), "channels", name, "address"); now != at(channel, "address") {
			t.Errorf("what was published on %v is published on %v", at(channel, "address"), now)
		}
	}
	if t.Failed() {
		t.Error("version 1 must not change so; what else there is to say needs another member, another type, or version 2")
	}
}

// TestOldCopiesTakeNewEventsAndNewSchemasOldOnes tries what breaks argues, with the examples of both.
func TestOldCopiesTakeNewEventsAndNewSchemasOldOnes(t *testing.T) {
	eachType(t, func(t *testing.T, eventType string, now, example node) {
		file := eventType + ".v1.schema.json"
		if _, err := os.Stat(filepath.Join(frozen, file)); err != nil {
			return // a new type has no old copies
		}
		released := load(t, readFrozen(t, file), true)
		old := load(t, readFrozen(t, "examples/"+eventType+".v1.json"), true)
		if err := valid(t, released, example); err != nil {
			t.Errorf("the copy of a consumer refuses a new event: %v", err)
		}
		if err := valid(t, now, old); err != nil {
			t.Errorf("an event of a stream is refused now: %v", err)
		}
	})
}

// TestTheFrozenCopyHasAllThatVersion1Has makes growth a decision, which -accept takes down. Words may change without.
func TestTheFrozenCopyHasAllThatVersion1Has(t *testing.T) {
	err := fs.WalkDir(schemas.Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(schemas.Files(), name)
		if err != nil {
			return err
		}
		problem := growth(t, name, load(t, text, true))
		switch {
		case problem == "":
			return nil
		case !*accept:
			t.Errorf("%s %s; if that is meant, run: go test ./schemas -accept", name, problem)
			return nil
		}
		t.Logf("%s %s: taken over", name, problem)
		return os.WriteFile(filepath.Join(frozen, filepath.FromSlash(name)), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// growth says what a file has gained since it was frozen, nothing if it has not or may not.
func growth(t *testing.T, name string, now node) string {
	if _, err := os.Stat(filepath.Join(frozen, filepath.FromSlash(name))); err != nil {
		return "is new"
	}
	released := load(t, readFrozen(t, name), true)
	switch {
	case name == schemas.AsyncAPIName:
		if len(at(now, "channels").(node)) > len(at(released, "channels").(node)) {
			return "has more channels"
		}
	case strings.HasPrefix(name, "examples/"): // they stay as they were: they are the old events
	case len(breaks(released, now)) == 0 && !reflect.DeepEqual(resolve(released, released["$defs"]), resolve(now, now["$defs"])):
		return "has more members, or lists more words"
	}
	return ""
}

func readFrozen(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(frozen, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// valid validates with formats asserted.
func valid(t *testing.T, schema, data node) error {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("urn:doorbell:file", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("urn:doorbell:file")
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(data)
}

// released is a small schema that the rules are tried on.
const released = `{
	"$id": "urn:doorbell:schema:test:v1", "title": "Test", "type": "object",
	"properties": {
		"kind": { "type": "string", "enum": ["a", "b"], "description": "Kind." },
		"at": { "$ref": "#/$defs/time" },
		"count": { "type": "integer", "minimum": 0 },
		"note": { "type": ["string", "null"] },
		"state": { "type": "string", "description": "How: well, ill. Later versions may know more." },
		"parts": { "type": "array", "maxItems": 10, "items": { "$ref": "#/$defs/part" } }
	},
	"required": ["kind", "at"],
	"anyOf": [{ "required": ["count"] }, { "required": ["note"] }],
	"$defs": {
		"time": { "type": "string", "format": "date-time", "pattern": "Z$" },
		"part": { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] }
	}
}`

func TestWhatBreaksAConsumerIsToldAndGrowthIsNot(t *testing.T) {
	for _, c := range []struct{ change, old, new, want string }{
		{"an optional member", `"count": {`, `"later": { "type": "string" }, "count": {`, ""},
		{"an optional member further down", `"name": { "type": "string" }`, `"name": { "type": "string" }, "size": { "type": "number" }`, ""},
		{"other words", `"description": "Kind."`, `"description": "Which kind."`, ""},
		{"another word in an open list", `well, ill`, `well, very_ill, ill`, ""},
		{"a word less in an open list", `well, ill`, `well`, `/state/: "ill" is listed no longer`},
		{"an open list is gone", `How: well, ill. Later versions may know more.`, `How.`, `/state/: "well" is listed no longer`},
		{"a definition written out", `"at": { "$ref": "#/$defs/time" }`, `"at": { "type": "string", "format": "date-time", "pattern": "Z$" }`, ""},

		{"a reference to nothing", "#/$defs/part", "#/$defs/piece", "/parts/*/name: is gone"},
		{"a member is gone", `"count": { "type": "integer", "minimum": 0 },`, ``, "/count: is gone"},
		{"a member is gone further down", `"name": { "type": "string" }`, ``, "/parts/*/name: is gone"},
		{"a member has another name", `"count":`, `"number":`, "/count: is gone"},
		{"required no longer", `"required": ["kind", "at"]`, `"required": ["kind"]`, "/: at is required no longer"},
		{"no longer required further down", `"required": ["name"]`, `"required": []`, "/parts/*/: name is required no longer"},
		{"required now", `["kind", "at"]`, `["kind", "at", "count"]`, "/: count is required now"},
		{"new and required", `"required": ["kind", "at"]`, `"required": ["kind", "at", "later"]`, "/: later is required now"},
		{"another type", `"type": "integer"`, `"type": "string"`, "/count/: may be string now"},
		{"a wider type", `"type": "integer"`, `"type": "number"`, "/count/: may be number now"},
		{"null too", `"name": { "type": "string" }`, `"name": { "type": ["string", "null"] }`, "/parts/*/name/: may be null now"},
		{"a narrower type", `["string", "null"]`, `"string"`, "/note/: may not be null any more"},
		{"no type", `"type": "integer", `, ``, "/count/: type is gone"},
		{"a wider enum", `["a", "b"]`, `["a", "b", "c"]`, `/kind/: may be "c" now`},
		{"a narrower enum", `["a", "b"]`, `["a"]`, `/kind/: may not be "b" any more`},
		{"no enum", `, "enum": ["a", "b"]`, ``, "/kind/: enum is gone"},
		{"an enum where none was", `"name": { "type": "string" }`, `"name": { "type": "string", "enum": ["x"] }`, "/parts/*/name/: enum is new"},
		{"another format", `"date-time"`, `"date"`, "/at/: format has changed"},
		{"no pattern", `, "pattern": "Z$"`, ``, "/at/: pattern is gone"},
		{"another minimum", `"minimum": 0`, `"minimum": 1`, "/count/: minimum has changed"},
		{"longer lists", `"maxItems": 10`, `"maxItems": 20`, "/parts/: maxItems has changed"},
		{"lists without end", `"maxItems": 10, `, ``, "/parts/: maxItems is gone"},
		{"other items", `{ "$ref": "#/$defs/part" }`, `{ "type": "string" }`, "/parts/*/: may be string now"},
		{"another choice", `{ "required": ["note"] }`, `{ "required": ["kind"] }`, "/: anyOf has changed"},
		{"no choice", `"anyOf": [{ "required": ["count"] }, { "required": ["note"] }],`, ``, "/: anyOf is gone"},
		{"closed", `"title": "Test",`, `"additionalProperties": false,`, "/: additionalProperties is new"},
		{"closed further down", `"required": ["name"] }`, `"required": ["name"], "unevaluatedProperties": false }`, "/parts/*/: unevaluatedProperties is new"},
		{"another id", "test:v1", "test:v2", "/: $id has changed"},
	} {
		t.Run(c.change, func(t *testing.T) {
			if strings.Count(released, c.old) != 1 {
				t.Fatalf("%s stands there %d times", c.old, strings.Count(released, c.old))
			}
			now := strings.Replace(released, c.old, c.new, 1)
			said := strings.Join(breaks(load(t, []byte(released), true), load(t, []byte(now), true)), "\n")
			if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
}
