// Package shape describes responses of the listings API without any of their values, and serves
// made-up responses of the same form.
//
// The form is what a person who helps needs to see and may see: paths and JSON types, in how many
// of how many objects a member is present, lengths and alphabets of texts, patterns of times, and
// how numbers of the envelope relate to the number of records. [Describe] writes it, [File.Handler]
// serves it; both know one type, so what is written is what is served.
//
// Nothing of a value is kept but its class. Names of members are kept where they are words of the
// trade or look like names that a program gives; all others may be data (an id, an address, a
// person), and are replaced by their class. The few texts that are written out come from lists in
// this package.
package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Version of the format.
const Version = 1

// File is what `doorbell check --shape` writes.
type File struct {
	Version   int        `json:"version"`
	Program   string     `json:"program"`
	Note      string     `json:"note"`
	Responses []Response `json:"responses"`
}

// Note is what a reader of the file is told first.
const Note = "The form of the API's responses. No value of a response is in this file: texts and numbers are " +
	"described by length, alphabet and pattern (9 is any digit, x any text), names that may be data by {their class}."

// Operations, as listings names them.
const (
	Insertions      = "insertions"
	ContactRequests = "contact_requests"
)

// Response is the form of one response.
type Response struct {
	Operation string `json:"operation"`
	Request   string `json:"request"`        // without agency and reference
	Size      int    `json:"size,omitempty"` // records asked for; 0: left to the API
	Page      int    `json:"page,omitempty"` // asked for; 0: none
	Same      bool   `json:"same,omitempty"` // the page shows the records that the request without a page showed
	Status    int    `json:"status"`
	Headers   []Line `json:"headers"`
	Body      Body   `json:"body"`
}

// Body is the form of a body.
type Body struct {
	Kind    string `json:"kind"`              // json, none, html, challenge, other
	Bytes   int    `json:"bytes"`             // unpacked
	Records string `json:"records,omitempty"` // path of the longest list of objects, with which counts are compared
	Lines   []Line `json:"lines,omitempty"`
}

// Line is what stands at a path, in one of the types and forms that were met there.
type Line struct {
	Path string `json:"path"` // JSON pointer; * is any element, {class} any member whose name may be data, ~2 the second of a name
	Type string `json:"type"` // null, boolean, number, string, array, object
	In   int    `json:"in"`   // of Of objects or elements around it
	Of   int    `json:"of"`
	At   string `json:"at,omitempty"` // which ones, from 1, where not all

	Form     string   `json:"form,omitempty"`     // pattern or class of a text or number
	Length   *Range   `json:"length,omitempty"`   // characters of a text or number; elements of an array
	Alphabet []string `json:"alphabet,omitempty"` // classes of the characters of a text
	Distinct int      `json:"distinct,omitempty"` // different values
	Order    string   `json:"order,omitempty"`    // of times and numbers: ascending, descending
	Is       string   `json:"is,omitempty"`       // how it relates to the request or the records, or a word of a fixed list
}

// Range is from the least to the most.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

func (r *Range) add(n int) *Range {
	if r == nil {
		return &Range{n, n}
	}
	r.Min, r.Max = min(r.Min, n), max(r.Max, n)
	return r
}

func (r *Range) max() int {
	if r == nil {
		return 0
	}
	return r.Max
}

// Write writes a file for people: with one line of text for each line of a body.
func (f File) Write(w io.Writer) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return err
	}
	// A quote in a text is escaped, so that these are found between values only.
	text := strings.NewReplacer(`{"path":`, "\n  {\"path\":", `{"operation":`, "\n{\"operation\":", `"headers":`, "\n \"headers\":",
		`"body":`, "\n \"body\":").Replace(b.String())
	_, err := io.WriteString(w, text)
	return err
}

// Read reads a file. Its errors name the place, as a person may have edited it.
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
	for n, resp := range f.Responses {
		if resp.Operation != Insertions && resp.Operation != ContactRequests || resp.Status < 200 || resp.Status > 599 {
			return f, fmt.Errorf("response %d: unknown operation, or a status that cannot be served", n+1)
		}
		if resp.Body.Kind == "json" {
			if _, err := formOf(resp.Body.Lines); err != nil {
				return f, fmt.Errorf("response %d: %w", n+1, err)
			}
		}
	}
	return f, nil
}
