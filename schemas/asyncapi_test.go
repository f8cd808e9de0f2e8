package schemas_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doorbell/schemas/skiptest"

	"doorbell/schemas"
	"doorbell/schemas/schematest"
)

// beside are the channels of the document that carry no new events, with their addresses.
var beside = map[string]any{
	"heartbeat":   "listings.heartbeat.{agency}",
	"deadLetters": "listings.dlq.{forwarder}.{agency}.{type}",
	"replay":      "listings.replay.{job}.{agency}.{type}",
}

func document(t *testing.T) node {
	t.Helper()
	text, ok := schemas.AsyncAPI()
	return load(t, text, ok)
}

// at is what a path of names leads to in a document, nil where it ends.
func at(n any, names ...string) any {
	for _, name := range names {
		object, _ := n.(node)
		n = object[name]
	}
	return n
}

func TestTheDocumentHasEveryTypeAndNothingElse(t *testing.T) {
	d := document(t)
	channels, operations := map[string]any{}, map[string]bool{}
	for name, c := range d["channels"].(node) {
		channels[name] = at(c, "address")
	}
	for name := range d["operations"].(node) {
		operations[name] = true
	}
	want, wantOperations := maps.Clone(beside), map[string]bool{
		"send.heartbeat": true, "send.deadLetters": true, "send.replay": true,
	}
	for _, eventType := range schemas.Types() {
		want[eventType] = "listings.v1.{agency}." + eventType
		wantOperations["send."+eventType] = true
	}
	if !maps.Equal(channels, want) {
		t.Errorf("channels are %v, want %v", channels, want)
	}
	if !maps.Equal(operations, wantOperations) {
		t.Errorf("operations are %v, want %v", operations, wantOperations)
	}
}

func TestTheDocumentAgreesWithTheSchemaOfEachType(t *testing.T) {
	d := document(t)
	eachType(t, func(t *testing.T, eventType string, schema, _ node) {
		message := at(d, "components", "messages", eventType).(node)
		for _, c := range []struct{ have, want any }{
			{message["name"], eventType},
			{message["title"], schema["title"]},
			{message["summary"], schema["description"]},
			{at(message, "payload", "schema", "$ref"), "./" + eventType + ".v1.schema.json"},
			{at(message, "headers", "$ref"), "#/components/schemas/headers"},
			{message["examples"], []any{node{
				"name":    eventType,
				"headers": node{"$ref": "./examples/" + eventType + ".v1.headers.json"},
				"payload": node{"$ref": "./examples/" + eventType + ".v1.json"},
			}}},
			{at(d, "channels", eventType, "messages"), node{eventType: node{"$ref": "#/components/messages/" + eventType}}},
			{at(d, "channels", eventType, "title"), schema["title"]},
			{at(d, "channels", eventType, "summary"), schema["description"]},
			{at(d, "channels", eventType, "x-jetstream", "stream"), "LISTINGS"},
			{at(d, "operations", "send."+eventType, "action"), "send"},
			{at(d, "operations", "send."+eventType, "channel", "$ref"), "#/channels/" + eventType},
		} {
			if fmt.Sprint(c.have) != fmt.Sprint(c.want) {
				t.Errorf("%v, want %v", c.have, c.want)
			}
		}
	})
	var refs, tokens []string
	for _, r := range at(d, "components", "schemas", "anyEvent", "schema", "anyOf").([]any) {
		refs = append(refs, strings.TrimSuffix(strings.TrimPrefix(at(r, "$ref").(string), "./"), ".v1.schema.json"))
	}
	for _, token := range at(d, "components", "parameters", "type", "enum").([]any) {
		tokens = append(tokens, token.(string))
	}
	slices.Sort(refs)
	slices.Sort(tokens)
	if !slices.Equal(refs, schemas.Types()) || !slices.Equal(tokens, schemas.Types()) {
		t.Errorf("a replay may hold %v, on subjects that end in %v", refs, tokens)
	}
}

func TestEveryReferenceOfTheDocumentResolves(t *testing.T) {
	d, used := document(t), map[string]bool{}
	walk(d, "", func(path string, n node) {
		ref, ok := n["$ref"].(string)
		if !ok {
			return
		}
		used[ref] = true
		if local, ok := strings.CutPrefix(ref, "#/"); ok {
			if at(d, strings.Split(local, "/")...) == nil {
				t.Errorf("%s: %s is not there", path, ref)
			}
			return
		}
		if _, err := fs.Stat(schemas.Files(), strings.TrimPrefix(ref, "./")); err != nil || !strings.HasPrefix(ref, "./") {
			t.Errorf("%s: %s is no file beside the document", path, ref)
		}
	})
	for _, kind := range []string{"messages", "schemas", "parameters"} {
		for name := range at(d, "components", kind).(node) {
			if !used["#/components/"+kind+"/"+name] {
				t.Errorf("components/%s/%s is not used", kind, name)
			}
		}
	}
}

func TestTheExamplesOfHeadersAndHeartbeatAreValid(t *testing.T) {
	eachType(t, func(t *testing.T, eventType string, _, _ node) {
		header, _ := schemas.ExampleHeader(eventType)
		schematest.Validate(t, "headers", header)
	})
	example := at(document(t), "components", "messages", "heartbeat", "examples").([]any)[0]
	schematest.Validate(t, "heartbeat", encode(t, at(example, "payload")))
}

// TestTheAsyncAPIParserAcceptsTheDocument uses a third-party parser. That it fails on a spoiled
// second document shows that it judges.
func TestTheAsyncAPIParserAcceptsTheDocument(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("interop/node_modules/@asyncapi/parser"); err != nil {
		skiptest.Skipf(t, "the AsyncAPI parser is not installed; run, at the top of the repository: npm ci --ignore-scripts --prefix schemas/interop")
	}
	out, _ := exec.Command("node", "interop/asyncapi.mjs", schemas.AsyncAPIName, spoiled(t)).CombinedOutput() // it exits with 1
	var read, found []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "listings.") || strings.HasPrefix(line, "- ") {
			read = append(read, line)
		} else {
			found = append(found, line)
		}
	}
	const urn = "urn:doorbell:schema:"
	for _, eventType := range schemas.Types() {
		line := fmt.Sprintf("listings.v1.{agency}.%s %s %sheaders:v1 %s%s:v1 A100\n", eventType, eventType, urn, urn, eventType)
		if !slices.Contains(read, line) {
			t.Errorf("it has not read %q", line)
		}
	}
	if len(read) != len(schemas.Types())+len(beside) || len(found) == 0 || !strings.Contains(found[0], "Missed: office") {
		t.Errorf("it says\n%s", out)
	}
	for _, line := range found {
		if !strings.Contains(line, "channels/watch.stale") && !strings.Contains(line, "components/parameters/agency") {
			t.Errorf("it finds: %s", line)
		}
	}
}

// spoiled is the document with a parameter that is not described.
func spoiled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, schemas.Files()); err != nil {
		t.Fatal(err)
	}
	text, _ := schemas.AsyncAPI()
	path := filepath.Join(dir, "spoiled.json")
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "{agency}.watch.stale", "{office}.watch.stale", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
