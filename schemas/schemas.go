// Package schemas is the machine-readable contract of what doorbell publishes: one JSON Schema
// (draft 2020-12) and one example for every type of event, which the tests of all packages validate
// against it, and an AsyncAPI document of all subjects and messages that refers to them. README.md
// beside it is for people who write a consumer.
//
// A schema is self-contained, so that it can be handed on as one file, and open: members that it
// does not name are allowed, and later releases of version 1 add some. Its $id is the value of the
// ce-dataschema header of an event. Validate formats as assertions.
//
// Two schemas describe no event: headers, which all events travel with, and heartbeat.
//
// An example is a complete message: the payload, and the headers it travels with. All people,
// places and keys in them are made up.
//
// The package knows no Go types of events and checks nothing itself; schematest, for tests only,
// does.
package schemas

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed asyncapi.v1.json *.v1.schema.json examples/*.v1.json examples/*.v1.headers.json
var files embed.FS

// AsyncAPIName is the file of the AsyncAPI document. It refers to its neighbours by relative
// addresses.
const AsyncAPIName = "asyncapi.v1.json"

const schemaSuffix = ".v1.schema.json"

// Files are all of them, read-only: AsyncAPIName, <type>.v1.schema.json, examples/<type>.v1.json
// and examples/<type>.v1.headers.json.
func Files() fs.FS { return files }

// Types lists the types of events that have a schema, in alphabetical order.
func Types() []string {
	entries, _ := files.ReadDir(".") // embedded: cannot fail
	var types []string
	for _, e := range entries {
		t, ok := strings.CutSuffix(e.Name(), schemaSuffix)
		if ok && strings.Contains(t, ".") { // headers and heartbeat are no types
			types = append(types, t)
		}
	}
	return types
}

// Schema returns the JSON Schema of a type's payload, and whether there is one. The names headers
// and heartbeat have one too.
func Schema(eventType string) ([]byte, bool) { return read(eventType + schemaSuffix) }

// Example returns the payload of one event of the type, indented for people; on the wire it is
// compact.
func Example(eventType string) ([]byte, bool) { return read("examples/" + eventType + ".v1.json") }

// ExampleHeader returns the headers of that event as a JSON object, names to texts.
func ExampleHeader(eventType string) ([]byte, bool) {
	return read("examples/" + eventType + ".v1.headers.json")
}

// AsyncAPI returns the document of all subjects and messages, and that there is one, as the others
// do.
func AsyncAPI() ([]byte, bool) { return read(AsyncAPIName) }

func read(name string) ([]byte, bool) {
	b, err := files.ReadFile(name)
	return b, err == nil
}
