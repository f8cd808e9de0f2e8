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
	"unicode/utf16"
	"unicode/utf8"

	"doorbell/events"
	"doorbell/events/forward"
)

// Template is what a webhook sends instead of an event's payload. [ParseTemplate] makes it.
type Template struct {
	// Types are the types of events that the webhook gets from the settings; empty: every type.
	Types []string

	method, contentType string
	done                []int            // statuses that count as accepted, beside 2xx
	headers             map[string]*leaf // by canonical name
	body                any              // as JSON is decoded, with *leaf for each string
}

// leaf is a string of a document.
type leaf struct {
	at       string // its path in the document, which may be shown
	template *template.Template
	keeps    bool // the type of its value: it is {{json …}} alone
}

const templateMembers = "body, headers, method, content_type, done and types"

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
		Types: d.Types, done: d.Done, headers: map[string]*leaf{},
		method: cmp.Or(d.Method, http.MethodPost), contentType: cmp.Or(d.ContentType, "application/json"),
	}
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, t.method) {
		return nil, errors.New("at method: write POST, PUT or PATCH")
	}
	for _, status := range t.done {
		if status < 400 || status > 499 || forward.OfReceiver(status) {
			return nil, errors.New("at done: write statuses from 400 to 499 that are about the event, like 409; 401, 403, 404, 410 and their like are about the address")
		}
	}
	for name, value := range d.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !headerName.MatchString(name):
			return nil, errors.New("at headers: a name is not that of a header; write letters, digits and -")
		case slices.Contains(notHeaders, canonical) || strings.HasPrefix(canonical, "Webhook-"):
			return nil, fmt.Errorf("at headers.%s: this header is not for a template to set (for Content-Type there is content_type); leave it out", canonical)
		case strings.ContainsFunc(value, unicode.IsControl):
			return nil, fmt.Errorf("at headers.%s: the value holds a control character, such as a line end; leave it out", canonical)
		}
		var err error
		if t.headers[canonical], err = newLeaf("headers."+canonical, value); err != nil {
			return nil, err
		}
	}
	media, _, err := mime.ParseMediaType(t.contentType)
	_, isText := d.Body.(string)
	switch {
	case d.Body == nil:
		return nil, errors.New("at body: it is missing; write the document to send")
	case err != nil || strings.ContainsFunc(t.contentType, unicode.IsControl):
		return nil, errors.New("at content_type: write it like application/json or text/plain; charset=utf-8")
	case !isJSON(media) && !isText:
		return nil, errors.New("at content_type: only a body that is one text can be something else than JSON; leave content_type out")
	}
	t.body, err = compile("body", d.Body)
	return t, err
}

var (
	headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,60}$`)
	// notHeaders belong to the request itself, or are ours.
	notHeaders = []string{
		"Connection", "Content-Length", "Content-Type", "Doorbell-Test", "Host",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
	}
)

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// decodeDocument is json.Unmarshal, strict and with errors that have a line and quote nothing.
func decodeDocument(text string, to any) error {
	line := func(offset int64) int { return strings.Count(text[:min(int(offset), len(text))], "\n") + 1 }
	if at := strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError }); at >= 0 {
		return fmt.Errorf("line %d: a letter is not UTF-8; save the file in UTF-8", line(int64(at)))
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return fmt.Errorf("line %d: something follows the document; leave it out", line(d.InputOffset()))
		}
		return nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: it is not JSON; look for a comma, bracket or quotation mark (within a text it is written \\\")", line(syntax.Offset))
	case errors.As(err, &kind):
		return fmt.Errorf("line %d: a value has the wrong type; headers are texts, done is a list of numbers, types a list of texts", line(kind.Offset))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("line %d: the document has no end; look for a bracket or quotation mark that is missing", line(int64(len(text))))
	}
	return errors.New("it has a member that no template has; write only " + templateMembers)
}

// compile replaces each string of a JSON value by its leaf.
func compile(at string, value any) (any, error) {
	switch value := value.(type) {
	case string:
		return newLeaf(at, value)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			shown := name
			if !headerName.MatchString(strings.ReplaceAll(name, "_", "-")) {
				shown = "…"
			}
			compiled, err := compile(at+"."+shown, value[name])
			if err != nil {
				return nil, err
			}
			value[name] = compiled
		}
	case []any:
		for i := range value {
			compiled, err := compile(fmt.Sprintf("%s[%d]", at, i), value[i])
			if err != nil {
				return nil, err
			}
			value[i] = compiled
		}
	}
	return value, nil
}

func newLeaf(at, text string) (*leaf, error) {
	t, err := template.New("").Funcs(functions).Parse(text)
	if err != nil { // it quotes
		return nil, fmt.Errorf("at %s: this is not a Go template; write it like {{.contact.email}}, with the functions %s", at, functionNames)
	}
	l := &leaf{at: at, template: t}
	for _, each := range t.Templates() {
		if each.Tree != nil {
			printAsText(each.Root)
		}
	}
	if t.Tree != nil && len(t.Root.Nodes) == 1 {
		if action, ok := t.Root.Nodes[0].(*parse.ActionNode); ok && len(action.Pipe.Cmds) > 1 {
			last := action.Pipe.Cmds[len(action.Pipe.Cmds)-2] // before that of printAsText
			l.keeps = last.Args[0].String() == "json"
		}
	}
	return l, nil
}

// printAsText ends each {{…}} that prints something with the function text, by which a value that is
// not there is noticed: text/template would print <no value>.
func printAsText(node parse.Node) {
	switch node := node.(type) {
	case *parse.ListNode:
		for _, each := range node.Nodes {
			printAsText(each)
		}
	case *parse.IfNode:
		printBranches(node.BranchNode)
	case *parse.WithNode:
		printBranches(node.BranchNode)
	case *parse.RangeNode:
		printBranches(node.BranchNode)
	case *parse.ActionNode:
		if len(node.Pipe.Decl) == 0 {
			node.Pipe.Cmds = append(node.Pipe.Cmds, &parse.CommandNode{
				NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier("text").SetPos(node.Pos)},
			})
		}
	}
}

func printBranches(b parse.BranchNode) {
	printAsText(b.List)
	if b.ElseList != nil {
		printAsText(b.ElseList)
	}
}

// errMissing ends a leaf with a field that the event does not have.
var errMissing = errors.New("a field is missing")

const functionNames = "json, cut, replace and those of text/template"

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
	case nil:
		return "", errMissing
	case string:
		return v, nil
	case map[string]any, []any:
		return asJSON(v)
	}
	return fmt.Sprint(v), nil
}

func asJSON(v any) (string, error) {
	if v == nil {
		return "", errMissing
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// cut cuts a text to at most so many characters, as most services count them: in UTF-16.
func cut(most int, v any) (string, error) {
	s, err := asText(v)
	used, keep := 0, 0 // without the … that may follow
	for i, r := range s {
		if used += utf16.RuneLen(r); used > most {
			return s[:keep] + "…", err
		} else if used < most {
			keep = i + utf8.RuneLen(r)
		}
	}
	return s, err
}

// request is what is posted of an event beside the headers that all webhooks have. Its error is a
// *forward.Refused that quotes nothing.
func (t *Template) request(e events.Event, test bool) (header http.Header, body []byte, err error) {
	fields, err := fieldsOf(e, test)
	if err != nil {
		return nil, nil, err
	}
	header = http.Header{"Content-Type": {t.contentType}}
	for name, l := range t.headers {
		value, err := l.execute(fields)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if value = headerValue(value); value != "" {
			header.Set(name, value)
		}
	}
	rendered, err := render(t.body, fields)
	if errors.Is(err, errMissing) {
		return nil, nil, &forward.Refused{Certain: true, Reason: "the event has none of the fields that the template of the webhook sends"}
	}
	if err != nil {
		return nil, nil, err
	}
	media, _, _ := mime.ParseMediaType(t.contentType)
	if text, ok := rendered.(string); ok && !isJSON(media) {
		return header, []byte(text), nil
	}
	text, err := asJSON(rendered)
	return header, []byte(text), err
}

// fieldsOf are the members of an event's payload that are not null, and its attributes as .event.
func fieldsOf(e events.Event, test bool) (map[string]any, error) {
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil || fields == nil {
		return nil, &forward.Refused{Certain: true, Reason: "the event's payload is not a JSON object"}
	}
	dropNull(fields)
	fields["event"] = map[string]any{
		"id": e.ID, "type": string(e.Type), "time": e.Time.UTC().Format(time.RFC3339), "agency": e.AgencyID,
		"reference": e.Reference, "origin": string(e.Origin), "sequence": e.Sequence, "test": test,
	}
	return fields, nil
}

func dropNull(v any) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, each any) bool { return each == nil })
		for _, each := range v {
			dropNull(each)
		}
	case []any:
		for _, each := range v {
			dropNull(each)
		}
	}
}

// render is a compiled value with its leaves executed. Members with a missing field are dropped, and
// so is what is empty without them.
func render(value any, fields map[string]any) (any, error) {
	switch value := value.(type) {
	case *leaf:
		text, err := value.execute(fields)
		if err == nil && value.keeps {
			return json.RawMessage(text), nil
		}
		return text, err
	case map[string]any:
		object := map[string]any{}
		for name, member := range value {
			rendered, err := render(member, fields)
			if errors.Is(err, errMissing) {
				continue
			}
			if err != nil {
				return nil, err
			}
			object[name] = rendered
		}
		if len(object) == 0 && len(value) > 0 {
			return nil, errMissing
		}
		return object, nil
	case []any:
		list := []any{}
		for _, element := range value {
			rendered, err := render(element, fields)
			if errors.Is(err, errMissing) {
				continue
			}
			if err != nil {
				return nil, err
			}
			list = append(list, rendered)
		}
		if len(list) == 0 && len(value) > 0 {
			return nil, errMissing
		}
		return list, nil
	}
	return value, nil
}

func (l *leaf) execute(fields map[string]any) (string, error) {
	var b strings.Builder
	err := l.template.Execute(&b, fields)
	switch {
	case errors.Is(err, errMissing):
		return "", errMissing
	case err != nil: // it may quote the person
		return "", &forward.Refused{Certain: true, Reason: "the template of the webhook cannot be rendered at " + l.at}
	}
	return b.String(), nil
}

var encodedWord = regexp.MustCompile(`=\?\S*\?[bBqQ]\?`)

// headerValue makes a text fit for a header: a line, and encoded words (RFC 2047) where it is not ASCII.
func headerValue(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if encodedWord.MatchString(text) { // a stranger's own, which would be decoded to what nobody looked at
		text = strings.ReplaceAll(text, "=?", "= ?")
	}
	return mime.BEncoding.Encode("utf-8", strings.TrimSpace(text))
}
