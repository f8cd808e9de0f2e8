// Package schematest checks payloads against their JSON Schemas. It is for tests only: no package of
// the product imports it, so that the validator stays out of the binary.
package schematest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"doorbell/schemas"
)

// Validate fails the test where data is no valid payload of the type.
func Validate(tb testing.TB, eventType string, data []byte) {
	tb.Helper()
	if err := Check(eventType, data); err != nil {
		tb.Error(err)
	}
}

// Check reports what is wrong with data as a payload of the type, formats included: where, and by
// which keyword. It quotes no values, which may be people. It may be called from several
// goroutines.
func Check(eventType string, data []byte) error {
	schema, err := compile(eventType)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("payload of %s: no JSON", eventType)
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &invalid) {
		return fmt.Errorf("payload of %s: %s", eventType, strings.Join(reasons(invalid), "; "))
	}
	return nil
}

// Example returns the pinned example of a type as it is on the wire: its headers and its payload.
func Example(tb testing.TB, eventType string) (header map[string][]string, data []byte) {
	tb.Helper()
	headers, ok := schemas.ExampleHeader(eventType)
	payload, ok2 := schemas.Example(eventType)
	if !ok || !ok2 {
		tb.Fatalf("%s has no example", eventType)
	}
	var flat map[string]string
	var short bytes.Buffer
	if err := errors.Join(json.Unmarshal(headers, &flat), json.Compact(&short, payload)); err != nil {
		tb.Fatal(err)
	}
	header = map[string][]string{}
	for name, value := range flat {
		header[name] = []string{value}
	}
	return header, short.Bytes()
}

// reasons are the leaves of the error, which name what is wrong rather than what follows from it.
func reasons(e *jsonschema.ValidationError) []string {
	if len(e.Causes) > 0 {
		var all []string
		for _, cause := range e.Causes {
			all = append(all, reasons(cause)...)
		}
		return all
	}
	reason := "/" + strings.Join(e.InstanceLocation, "/") + ": " + strings.Join(e.ErrorKind.KeywordPath(), "/")
	if r, ok := e.ErrorKind.(*kind.Required); ok {
		reason += " " + strings.Join(r.Missing, ", ")
	}
	return []string{reason}
}

var compiled sync.Map // type → func() (*jsonschema.Schema, error)

func compile(eventType string) (*jsonschema.Schema, error) {
	once, _ := compiled.LoadOrStore(eventType, sync.OnceValues(func() (*jsonschema.Schema, error) {
		return compileNow(eventType)
	}))
	return once.(func() (*jsonschema.Schema, error))()
}

func compileNow(eventType string) (*jsonschema.Schema, error) {
	file, ok := schemas.Schema(eventType)
	if !ok {
		return nil, fmt.Errorf("type %q has no schema", eventType)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", eventType, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("urn:doorbell:file", doc); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", eventType, err)
	}
	return c.Compile("urn:doorbell:file")
}
