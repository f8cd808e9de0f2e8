package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/schemas"
)

// SchemaCmd holds the commands about schemas.
type SchemaCmd struct {
	Ls   SchemaLsCmd   `cmd:"" group:"commands" help:"List the types of events and the ids of their schemas."`
	Show SchemaShowCmd `cmd:"" group:"commands" help:"Print the JSON Schema of a type, or an example of it."`
}

// SchemaLsCmd is `doorbell schema ls`.
type SchemaLsCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (SchemaLsCmd) Help() string {
	return "The id of a schema is what the header ce-dataschema of an event says. The files are in schemas/ of the source, and in this program.\n\n" +
		"Example:\n  doorbell schema ls"
}

// SchemaShowCmd is `doorbell schema show`.
type SchemaShowCmd struct {
	Type    string `arg:"" help:"Type of event, as doorbell schema ls shows it; asyncapi is the document about all of them."`
	Example bool   `help:"Print an example of an event instead, headers and payload."`
	JSON    bool   `name:"json" help:"Print JSON on one line: the schema, or the example as CloudEvents JSON."`
}

func (SchemaShowCmd) Help() string {
	return "The schema is JSON Schema 2020-12 of the payload, in one file; later releases add members and take none away. " +
		"People and places of the example are made up.\n\n" +
		"Examples:\n  doorbell schema show contact_request.created > created.schema.json\n  doorbell schema show access.halted --example"
}

// showAsyncAPI is what stands for a type where the document about all of them is meant.
const showAsyncAPI = "asyncapi"

func (c *SchemaShowCmd) Validate() error {
	if c.Type == "" || c.Type == showAsyncAPI && !c.Example || slices.Contains(schemas.Types(), c.Type) {
		return nil
	}
	if c.Type == showAsyncAPI {
		return errors.New("--example: is for one type of event")
	}
	return noType("TYPE", c.Type)
}

// listedSchema is a schema as `schema ls` prints it.
type listedSchema struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Title string `json:"title"`
	File  string `json:"file"`
}

func listSchemas() ([]listedSchema, error) {
	var list []listedSchema
	for _, eventType := range schemas.Types() {
		text, _ := schemas.Schema(eventType) // it is listed
		var head struct {
			ID    string `json:"$id"`
			Title string `json:"title"`
		}
		if err := json.Unmarshal(text, &head); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", eventType, err)
		}
		list = append(list, listedSchema{eventType, head.ID, head.Title, schemas.FileName(eventType)})
	}
	return list, nil
}

func (c *SchemaLsCmd) Run(_ context.Context, p *program) error {
	list, err := listSchemas()
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(list)
	}
	rows := []string{"TYPE\tID\tFILE"}
	for _, s := range list {
		rows = append(rows, s.Type+"\t"+s.ID+"\t"+s.File)
	}
	return p.printTable("", rows, "")
}

func (c *SchemaShowCmd) Run(_ context.Context, p *program) error {
	if c.Example {
		return showExample(p.stdout, c.Type, c.JSON)
	}
	text, ok := schemas.Schema(c.Type)
	if c.Type == showAsyncAPI {
		text, ok = schemas.AsyncAPI()
	}
	if !ok {
		return exit.Failed(errors.New("this doorbell has no such document"), "doorbell schema ls lists what it has")
	}
	if c.JSON {
		var line bytes.Buffer
		if err := json.Compact(&line, text); err != nil {
			return err
		}
		text = line.Bytes()
	}
	_, err := p.stdout.Write(append(bytes.TrimRight(text, "\n"), '\n'))
	return err
}

// showExample prints a whole message: its headers, an empty line, its payload.
func showExample(w io.Writer, eventType string, asJSON bool) error {
	header, e, err := example(eventType)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSONEvent(w, e)
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if _, err := fmt.Fprintf(w, "%s: %s\n", name, header[name]); err != nil {
			return err
		}
	}
	data, _ := schemas.Example(eventType)
	_, err = fmt.Fprintf(w, "\n%s\n", strings.TrimRight(string(data), "\n"))
	return err
}

// example is the pinned example of a type: what stands in its headers, and the event that it is.
func example(eventType string) (header map[string]string, e events.Event, err error) {
	text, _ := schemas.ExampleHeader(eventType)
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, e, err
	}
	all := map[string][]string{}
	for name, value := range header {
		all[name] = []string{value}
	}
	data, _ := schemas.Example(eventType)
	e, err = events.Decode(all, data)
	return header, e, err
}
