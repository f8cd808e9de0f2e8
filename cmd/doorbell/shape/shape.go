// Package shape describes responses of the listings API without any of their values, and serves
// made-up responses of the same form.
//
// A described body is the JSON of the response in which each value is replaced by its form: a text
// by "{3 text}", a number by "{number 1 999.99}", a time by "{2 time 2006-01-02}". Equal values
// have equal numbers; times are numbered from the newest. So order, types, presence and equality
// stay, and nothing of a value. Names of members are kept where they are common property-listing
// terms or look like identifiers from a program; all others may be data (an id, an address, a
// person) and are replaced as well. The few texts that are written out come from lists in this
// package and in listings.
//
// [Describe] replaces values, [File.Handler] makes up others of the same form.
package shape

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Version of the format.
const Version = 2

// File is what `doorbell check --shape` writes.
type File struct {
	Version   int        `json:"version"`
	Program   string     `json:"program"`
	Note      string     `json:"note"`
	Responses []Response `json:"responses"`
}

// Note is what a reader of the file sees first.
const Note = "The form of the API's responses. This file contains no values of responses: " +
	"each is replaced with {its form}, where 9 is any digit, x any text, and equal values have equal numbers."

// Operations, as listings names them.
const (
	Insertions      = "insertions"
	ContactRequests = "contact_requests"
)

const kindJSON = "json"

// Response is the form of one response.
type Response struct {
	Operation string `json:"operation"`
	Request   string `json:"request"`        // without agency and reference
	Page      int    `json:"page,omitempty"` // asked for; 0: none
	// it says that there are more records than it shows
	More    bool              `json:"more,omitempty"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Records int               `json:"records,omitempty"` // in the longest list of the body
	// of the body: json, none, html, challenge, other
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body,omitempty"`

	root value // of Body, once it was read
}

// Write writes a file for people, with a line for each record.
func (f File) Write(w io.Writer) error {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return err
	}
	// A quote in a text is escaped, so that these are found between values only.
	lines := strings.NewReplacer(`{"operation":`, "\n{\"operation\":", `"headers":`, "\n \"headers\":",
		`"body":`, "\n \"body\":", `"`+marker+`",`, `"`+marker+"\",\n  ", `},{`, "},\n  {")
	_, err := lines.WriteString(w, text.String())
	return err
}

// Read reads a file. Its errors name the response, as a person may have edited it.
func Read(r io.Reader) (File, error) {
	var f File
	if err := json.NewDecoder(io.LimitReader(r, 64<<20)).Decode(&f); err != nil {
		return f, fmt.Errorf("not a file of check --shape: %w", err)
	}
	switch {
	case f.Version != Version:
		return f, fmt.Errorf("version %d is unknown; this doorbell reads %d", f.Version, Version)
	case len(f.Responses) == 0:
		return f, errors.New("it describes no response")
	}
	for n := range f.Responses {
		r := &f.Responses[n]
		known := r.Operation == Insertions || r.Operation == ContactRequests
		if !known || r.Status < 200 || r.Status > 599 || r.Records < 0 {
			return f, fmt.Errorf("response %d: unknown operation, a status that cannot be served, "+
				"or a negative number of records", n+1)
		}
		var err error
		if r.root, err = parse(r.Body); r.Kind == kindJSON && err != nil {
			return f, fmt.Errorf("response %d: its body is missing or not JSON", n+1)
		}
	}
	return f, nil
}
