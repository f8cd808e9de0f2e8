package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
	"unicode"
	"unicode/utf8"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// Template is what a webhook sends instead of an event's payload. [ParseTemplate] makes it.
type Template struct {
	// Types are the types of events that the webhook gets from the settings; empty: every type.
	Types []string

	method, contentType string
	isText              bool            // the body is no JSON
	done                []int           // statuses that count as accepted, beside 2xx
	headers             map[string]leaf // by canonical name
	body                any             // as JSON is decoded, with a leaf for each string
}

// leaf is a string of a document.
type leaf struct {
	at       string // its path in the document, which may be shown
	template *template.Template
	isJSON   bool // it is {{json …}} alone, and keeps the type of its value
}

// ParseTemplate reads a document. The error is the end of a sentence about the file, and says where
// something is wrong and what to write instead. It quotes no value: any may be a credential.
func ParseTemplate(text string) (*Template, error) {
	var d struct {
		Body        any               `json:"body"`
		Headers     map[string]string `json:"headers"`
		Method      string            `json:"method"`
		ContentType string            `json:"content_type"`
		Done        []int             `json:"done"`
		Types       []string          `json:"types"`
	}
	if err := decodeDocument(strings.TrimPrefix(text, "\uFEFF"), &d); err != nil {
		return nil, err
	}
	t := &Template{
		Types: d.Types, done: d.Done, headers: map[string]leaf{},
		method:      cmp.Or(d.Method, http.MethodPost),
		contentType: cmp.Or(d.ContentType, "application/json"),
	}
	media, _, err := mime.ParseMediaType(t.contentType)
	t.isText = media != "application/json" && !strings.HasSuffix(media, "+json")
	_, single := d.Body.(string)
	switch {
	case d.Body == nil:
		return nil, errors.New("at body: it is missing; write the document to send")
	case err != nil || strings.ContainsFunc(t.contentType, unicode.IsControl):
		return nil, errors.New(
			"at content_type: write it like application/json or text/plain; charset=utf-8")
	case t.isText && !single:
		return nil, errors.New(
			"at content_type: only a body that is one string can be anything other than JSON; " +
				"leave content_type out")
	case !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, t.method):
		return nil, errors.New("at method: write POST, PUT or PATCH")
	case slices.ContainsFunc(t.done, func(s int) bool { return s < 400 || s > 499 || forward.OfReceiver(s) }):
		return nil, errors.New(
			"at done: write statuses from 400 to 499 that are about the event, like 409; " +
				"401, 403, 404, 410 and the like are about the address")
	}
	for name, value := range d.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !plainName.MatchString(name) || strings.Contains(name, "_"):
			return nil, errors.New(
				"at headers: a name is not valid for a header; write letters, digits and -")
		case slices.Contains(notHeaders, canonical) || strings.HasPrefix(canonical, "Webhook-"):
			return nil, fmt.Errorf("at headers.%s: this header is not for a template to set "+
				"(for Content-Type there is content_type); leave it out", canonical)
		case strings.ContainsFunc(value, unicode.IsControl):
			return nil, fmt.Errorf("at headers.%s: the value contains a control character, "+
				"such as a line break; leave it out", canonical)
		}
		if t.headers[canonical], err = newLeaf("headers."+canonical, value); err != nil {
			return nil, err
		}
	}
	t.body, err = walk("body", d.Body, func(at string, text any) (any, error) {
		return newLeaf(at, text.(string))
	})
	return t, err
}

// plainName is a name that may be shown.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,60}$`)

// notHeaders belong to the request itself, or are ours.
var notHeaders = strings.Fields("Connection Content-Length Content-Type Doorbell-Test Host " +
	"Te Trailer Transfer-Encoding Upgrade User-Agent")

// decodeDocument is json.Unmarshal, strict and with errors that have a line and quote nothing.
func decodeDocument(text string, to any) error {
	wrong := func(offset int, what string) error {
		return fmt.Errorf("line %d: %s", strings.Count(text[:min(offset, len(text))], "\n")+1, what)
	}
	if at := strings.IndexRune(text, utf8.RuneError); at >= 0 {
		return wrong(at, "a character is not UTF-8; save the file in UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	err := d.Decode(to)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return wrong(int(d.InputOffset()), "something follows the document; leave it out")
		}
		return nil
	case errors.As(err, &syntax):
		return wrong(int(syntax.Offset),
			"it is not JSON; look for a comma, bracket or quotation mark "+
				`(within a text it is written \")`)
	case errors.As(err, &kind):
		return wrong(int(kind.Offset), "a value has the wrong type; headers are strings, "+
			"done is a list of numbers, types a list of strings")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return wrong(len(text),
			"the document is incomplete; look for a missing bracket or quotation mark")
	}
	return errors.New("it has an unknown member; " +
		"write only body, headers, method, content_type, done and types")
}

// walk replaces each leaf of a JSON value by what f makes of it. Members with a missing field are
// dropped, and so is what is empty without them.
func walk(at string, value any, f func(at string, leaf any) (any, error)) (any, error) {
	switch value := value.(type) {
	case string, leaf:
		return f(at, value)
	case map[string]any:
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			shown := name
			if !plainName.MatchString(name) {
				shown = "…"
			}
			made, err := walk(at+"."+shown, value[name], f)
			if err == nil {
				object[name] = made
			} else if !errors.Is(err, errMissing) {
				return nil, err
			}
		}
		return object, missingIf(len(object) == 0 && len(value) > 0)
	case []any:
		list := []any{}
		for i, element := range value {
			made, err := walk(fmt.Sprintf("%s[%d]", at, i), element, f)
			if err == nil {
				list = append(list, made)
			} else if !errors.Is(err, errMissing) {
				return nil, err
			}
		}
		return list, missingIf(len(list) == 0 && len(value) > 0)
	}
	return value, nil
}

// errMissing ends a leaf with a field that the event does not have.
var errMissing = errors.New("a field is missing")

func missingIf(missing bool) error {
	if missing {
		return errMissing
	}
	return nil
}

var jsonAlone = regexp.MustCompile(`^\{\{-?\s*(json\s[^{}|]*|[^{}]*\|\s*json\s*)-?\}\}$`)

func newLeaf(at, text string) (leaf, error) {
	t, err := template.New("").Funcs(functions).Parse(text)
	if err != nil { // it quotes
		return leaf{}, fmt.Errorf(
			"at %s: this is not a Go template; write it like {{.contact.email}}, "+
				"with the functions json, cut, replace and those of text/template", at)
	}
	for _, each := range t.Templates() {
		if each.Tree != nil {
			printAsText(each.Root)
		}
	}
	return leaf{at, t, jsonAlone.MatchString(text)}, nil
}

// printAsText ends each {{…}} that prints something with the function text, by which a value that
// is not there is noticed: text/template would print <no value>.
func printAsText(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		var branches *parse.BranchNode
		switch node := node.(type) {
		case *parse.IfNode:
			branches = &node.BranchNode
		case *parse.WithNode:
			branches = &node.BranchNode
		case *parse.RangeNode:
			branches = &node.BranchNode
		case *parse.ActionNode:
			if len(node.Pipe.Decl) == 0 {
				text := parse.NewIdentifier("text").SetPos(node.Pos)
				last := &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{text}}
				node.Pipe.Cmds = append(node.Pipe.Cmds, last)
			}
		}
		if branches != nil {
			printAsText(branches.List)
			printAsText(branches.ElseList)
		}
	}
}

var functions = template.FuncMap{
	"json": asJSON,
	"text": asText,
	"cut":  cut,
	"replace": func(old, by string, v any) (string, error) {
		s, err := asText(v)
		return strings.ReplaceAll(s, old, by), err
	},
	"print":    present(fmt.Sprint),
	"println":  present(fmt.Sprintln),
	"printf":   present(func(args ...any) string { return fmt.Sprintf(args[0].(string), args[1:]...) }),
	"html":     present(template.HTMLEscaper),
	"js":       present(template.JSEscaper),
	"urlquery": present(template.URLQueryEscaper),
}

// present is a function of text/template for fields that are there.
func present(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		if slices.Contains(args, nil) {
			return "", errMissing
		}
		return f(args...), nil
	}
}

// asText writes objects and lists as JSON.
func asText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case nil, map[string]any, []any:
		return asJSON(v)
	}
	return fmt.Sprint(v), nil
}

func asJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if v == nil {
		return "", errMissing
	}
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// cut cuts a text to at most limit characters.
func cut(limit int, v any) (string, error) {
	s, err := asText(v)
	return message.Fit(s, limit), err
}

// request is what is posted of an event beside the headers that all webhooks have. Its error is a
// *forward.Refused that quotes nothing.
func (t *Template) request(e events.Event, test bool) (header http.Header, body []byte, err error) {
	fields := fieldsOf(e, test)
	header = http.Header{"Content-Type": {t.contentType}}
	for name, l := range t.headers {
		value, err := l.render(fields)
		if err != nil && !errors.Is(err, errMissing) {
			return nil, nil, err
		}
		if value = headerValue(value); value != "" {
			header.Set(name, value)
		}
	}
	document, err := walk("", t.body, func(_ string, l any) (any, error) {
		text, err := l.(leaf).render(fields)
		if err == nil && l.(leaf).isJSON {
			return json.RawMessage(text), nil
		}
		return text, err
	})
	text, plain := document.(string)
	if err == nil && (!t.isText || !plain) {
		text, err = asJSON(document)
	}
	switch {
	case errors.Is(err, errMissing):
		err = &forward.Refused{
			Certain: true,
			Reason:  "the event has none of the fields that the webhook template sends",
		}
	case err != nil && !errors.As(err, new(*forward.Refused)):
		err = &forward.Refused{Certain: true, Reason: "the webhook template does not produce JSON"}
	}
	return header, []byte(text), err
}

// fieldsOf are the members of an event's payload that are not null, and its attributes as .event.
func fieldsOf(e events.Event, test bool) map[string]any {
	fields := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.UseNumber()
	if d.Decode(&fields) != nil || fields == nil {
		fields = map[string]any{} // of a payload that is none, the attributes are left
	}
	dropNull(fields)
	fields["event"] = map[string]any{
		"id": e.ID, "type": string(e.Type), "time": e.Time.UTC().Format(time.RFC3339),
		"agency": e.AgencyID, "reference": e.Reference, "origin": string(e.Origin),
		"sequence": e.Sequence, "test": test,
	}
	return fields
}

func dropNull(v any) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, each any) bool { dropNull(each); return each == nil })
	case []any:
		for _, each := range v {
			dropNull(each)
		}
	}
}

func (l leaf) render(fields map[string]any) (string, error) {
	var b strings.Builder
	err := l.template.Execute(&b, fields)
	switch {
	case errors.Is(err, errMissing):
		return "", errMissing
	case err != nil: // it may quote the person
		return "", &forward.Refused{
			Certain: true,
			Reason:  "the webhook template cannot be rendered at " + l.at,
		}
	}
	return b.String(), nil
}

var encodedWord = regexp.MustCompile(`=\?\S*\?[bBqQ]\?`)

// headerValue makes a text fit for a header: a line, and encoded words (RFC 2047) where it is not
// ASCII.
func headerValue(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	// one that a stranger wrote would be decoded to unchecked text
	if encodedWord.MatchString(text) {
		text = strings.ReplaceAll(text, "=?", "= ?")
	}
	return mime.BEncoding.Encode("utf-8", strings.TrimSpace(text))
}
