// Package schemas holds the contract of doorbell's payloads for machines: one JSON Schema (draft 2020-12) for every type
// of event, and one example of each, which the tests of every room hold against it.
//
// A schema is self-contained, so that it can be handed on as one file, and open: members that it does not name are
// allowed, and later releases of version 1 add some. Its $id is what the ce-dataschema header of an event says. Formats
// are meant as assertions.
//
// An example is a whole message: the payload, and the headers it travels with. All people, places and keys in them are
// made up.
//
// The package knows no Go types of events and checks nothing itself; schematest, for tests only, does.
package schemas

import (
	"embed"
	"strings"
)

//go:embed *.v1.schema.json examples/*.v1.json examples/*.v1.headers.json
var files embed.FS

const schemaSuffix = ".v1.schema.json"

// Types lists the types of events that have a schema, in alphabetical order.
func Types() []string {
	entries, _ := files.ReadDir(".") // embedded: cannot fail
	var types []string
	for _, e := range entries {
		if t, ok := strings.CutSuffix(e.Name(), schemaSuffix); ok {
			types = append(types, t)
		}
	}
	return types
}

// Schema returns the JSON Schema of a type's payload, and whether there is one.
func Schema(eventType string) ([]byte, bool) { return read(eventType + schemaSuffix) }

// Example returns the payload of one event of the type, indented for people; on the wire it is compact.
func Example(eventType string) ([]byte, bool) { return read("examples/" + eventType + ".v1.json") }

// ExampleHeader returns the headers of that event as a JSON object, names to texts.
func ExampleHeader(eventType string) ([]byte, bool) {
	return read("examples/" + eventType + ".v1.headers.json")
}

func read(name string) ([]byte, bool) {
	b, err := files.ReadFile(name)
	return b, err == nil
}
