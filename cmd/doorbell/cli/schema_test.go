package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events"
	"doorbell/schemas"
)

func TestEverySchemaIsListedAndShownWithAnExampleThatIsAnEvent(t *testing.T) {
	t.Parallel()
	var list []listedSchema
	if err := json.Unmarshal([]byte(doorbelltest.Run(t, nil, "schema", "ls", "--json").Stdout), &list); err != nil || len(list) != len(events.Types) {
		t.Fatalf("%d schemas, %v", len(list), err)
	}
	table := doorbelltest.Run(t, nil, "schema", "ls").Stdout
	for _, s := range list {
		shown, line := doorbelltest.Run(t, nil, "schema", "show", s.Type), doorbelltest.Run(t, nil, "schema", "show", s.Type, "--json")
		var schema struct {
			ID string `json:"$id"`
		}
		if json.Unmarshal([]byte(line.Stdout), &schema) != nil || schema.ID != s.ID || strings.Count(line.Stdout, "\n") != 1 {
			t.Errorf("%s: %+v", s.Type, line)
		}
		if file, _ := schemas.Schema(s.Type); shown.Stdout != string(file) || shown.Stderr != "" {
			t.Errorf("%s: what is shown is not the file", s.Type)
		}
		if !strings.Contains(table, s.Type+" ") || !strings.Contains(table, s.ID+" ") || !strings.Contains(table, s.File+"\n") {
			t.Errorf("%s is not in the table", s.Type)
		}
		var e events.Event
		object := doorbelltest.Run(t, nil, "schema", "show", s.Type, "--example", "--json").Stdout
		if err := json.Unmarshal([]byte(object), &e); err != nil || e.Type.Schema() != s.ID {
			t.Errorf("%s: %v: %s", s.Type, err, object)
		}
		text := doorbelltest.Run(t, nil, "schema", "show", s.Type, "--example").Stdout
		headers, payload, _ := strings.Cut(text, "\n\n")
		if !strings.Contains(headers, "ce-dataschema: "+s.ID) || !json.Valid([]byte(payload)) {
			t.Errorf("%s: %s", s.Type, text)
		}
	}
}
