package main

import (
	"encoding/json"
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/schemas"
)

func TestEverySchemaIsListedAndShownWithAnExampleThatIsAnEvent(t *testing.T) {
	t.Parallel()
	var list []listedSchema
	if err := json.Unmarshal([]byte(run(t, nil, "schema", "ls", "--json").stdout), &list); err != nil || len(list) != len(events.Types) {
		t.Fatalf("%d schemas, %v", len(list), err)
	}
	table := run(t, nil, "schema", "ls").stdout
	for _, s := range list {
		shown, line := run(t, nil, "schema", "show", s.Type), run(t, nil, "schema", "show", s.Type, "--json")
		var schema struct {
			ID string `json:"$id"`
		}
		if json.Unmarshal([]byte(line.stdout), &schema) != nil || schema.ID != s.ID || strings.Count(line.stdout, "\n") != 1 {
			t.Errorf("%s: %+v", s.Type, line)
		}
		if file, _ := schemas.Schema(s.Type); shown.stdout != string(file) || shown.stderr != "" {
			t.Errorf("%s: what is shown is not the file", s.Type)
		}
		if !strings.Contains(table, s.Type+" ") || !strings.Contains(table, s.ID+" ") || !strings.Contains(table, s.File+"\n") {
			t.Errorf("%s is not in the table", s.Type)
		}
		var e events.Event
		object := run(t, nil, "schema", "show", s.Type, "--example", "--json").stdout
		if err := json.Unmarshal([]byte(object), &e); err != nil || e.Type.Schema() != s.ID {
			t.Errorf("%s: %v: %s", s.Type, err, object)
		}
		text := run(t, nil, "schema", "show", s.Type, "--example").stdout
		headers, payload, _ := strings.Cut(text, "\n\n")
		if !strings.Contains(headers, "ce-dataschema: "+s.ID) || !json.Valid([]byte(payload)) {
			t.Errorf("%s: %s", s.Type, text)
		}
	}
}
