package listingstest

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// parseFile panics where a file is not as it should be: it is ours.
func parseFile(file, text string) (list []Fixture) {
	sections := strings.Split("\n"+text, "\n## ")
	for _, s := range sections[1:] {
		name, rest, _ := strings.Cut(s, "\n")
		func() {
			defer func() {
				if wrong := recover(); wrong != nil {
					panic(fmt.Sprintf("%s, %s: %v", file, name, wrong))
				}
			}()
			list = append(list, parseSection(name, rest)...)
		}()
	}
	return list
}

func parseSection(name, rest string) []Fixture {
	f := Fixture{Name: name}
	for strings.HasPrefix(rest, "# ") { // a comment
		_, rest, _ = strings.Cut(rest, "\n")
	}
	line, answer, _ := strings.Cut(rest, "\n")
	question, meaning, ok := strings.Cut(line, " => ")
	if !ok {
		panic("no arrow")
	}
	settings := strings.Split(question, ", ")
	f.Want = parseOutcome(meaning)
	f.answer(strings.TrimRight(answer, "\n"), settings[1:])
	if settings[0] != "both" {
		f.Operation = settings[0]
		return []Fixture{f}
	}
	first, second := f, f
	first.Operation, second.Operation = Insertions, ContactRequests
	return []Fixture{first, second}
}

// transfer is how a body travels.
type transfer struct {
	bare, chunked, close, gzip, packed, garbage, endless bool
	cut                                                  int
	charset                                              encoding.Encoding // nil: UTF-8
}

func (f *Fixture) answer(text string, settings []string) {
	var t transfer
	flags := map[string]*bool{
		"bare": &t.bare, "chunked": &t.chunked, "close": &t.close, "gzip": &t.gzip, "packed": &t.packed, "garbage": &t.garbage, "endless": &t.endless,
	}
	for _, s := range settings {
		word, value, _ := strings.Cut(s, " ")
		switch flag := flags[word]; {
		case flag != nil:
			*flag = true
		case word == "cut":
			t.cut = number(value)
		case word == "in":
			t.charset = must(htmlindex.Get(value))
		case word == "learned":
			path := strings.TrimPrefix(value, "-")
			f.Learned = &path
		default:
			panic("unknown setting " + word)
		}
	}
	head, body := "HTTP/1.1 200 OK\nContent-Type: application/json", text
	if t.bare || strings.HasPrefix(text, "HTTP/") {
		head, body, _ = strings.Cut(text, "\n\n")
	}
	f.Body = expand(body)
	if t.charset != nil {
		f.Body = must(t.charset.NewEncoder().Bytes(f.Body))
	}
	f.Wire = t.wire(string(expand(head)), f.Body)
	f.Wire = f.Wire[:len(f.Wire)-t.cut]
}

// wire is the response as it goes over the connection.
func (t transfer) wire(head string, body []byte) []byte {
	head = strings.ReplaceAll(head, "\n", "\r\n")
	if t.bare {
		if head == "" {
			return nil
		}
		return append([]byte(head+"\r\n\r\n"), body...)
	}
	if t.packed {
		body = pack(body)
	}
	if t.gzip {
		head, body = head+"\r\nContent-Encoding: gzip", pack(body)
	}
	if t.garbage {
		body = append(body, "garbage"...)
	}
	head += "\r\nConnection: close"
	switch {
	case t.chunked:
		body = chunks(body, t.endless)
		head += "\r\nTransfer-Encoding: chunked"
	case !t.close:
		head += fmt.Sprintf("\r\nContent-Length: %d", len(body))
	}
	return append([]byte(head+"\r\n\r\n"), body...)
}

// chunks cuts a body in two.
func chunks(body []byte, endless bool) []byte {
	var b bytes.Buffer
	for _, part := range [][]byte{body[:len(body)/2], body[len(body)/2:]} {
		if len(part) > 0 {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
		}
	}
	if !endless {
		b.WriteString("0\r\n\r\n")
	}
	return b.Bytes()
}

func pack(body []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

var marked = regexp.MustCompile(`⟦(.*?)⟧`)

// expand writes out the text between ⟦ and ⟧.
func expand(text string) []byte {
	return marked.ReplaceAllFunc([]byte(text), func(m []byte) []byte {
		what := strings.TrimSuffix(strings.TrimPrefix(string(m), "⟦"), "⟧")
		times := 1
		if before, after, ok := strings.Cut(what, " * "); ok {
			what, times = before, number(after)
		}
		raw, err := hex.DecodeString(strings.ReplaceAll(what, " ", ""))
		if err != nil || len(raw) == 0 {
			raw = []byte(what)
		}
		return bytes.Repeat(raw, times)
	})
}

func parseOutcome(text string) Outcome {
	o := Outcome{Total: -1}
	parts := strings.Split(text, " ; ")
	o.result(parts[0])
	for _, p := range parts[1:] {
		word, value, _ := strings.Cut(p, " ")
		switch word {
		case "total":
			o.Total = number(value)
		case "path":
			o.Path = strings.TrimPrefix(value, "-")
		case "unreadable":
			o.Unreadable = number(value)
		case "claims":
			o.Claims = value
		case "email":
			o.Email = value
		case "first", "last", "full", "phone", "message", "title":
			if o.Texts == nil {
				o.Texts = map[string]string{}
			}
			o.Texts[word] = value
		case "created":
			o.Created = &time.Time{}
			if value != "never" {
				*o.Created = must(time.Parse(time.RFC3339Nano, value))
			}
		case "retry":
			o.RetryAfter = must(time.ParseDuration(value))
		default:
			panic("unknown outcome " + word)
		}
	}
	return o
}

func (o *Outcome) result(text string) {
	word, value, _ := strings.Cut(text, " ")
	switch {
	case slices.Contains([]string{Drift, Transport, TooLarge}, text):
		o.Kind = text
	case word == Status:
		code, kind, _ := strings.Cut(value, " ")
		o.Kind, o.Status, o.BodyKind = Status, number(code), kind
	case text == "counted none":
		o.Kind = Records
	case text == "none":
		o.Kind, o.Found = Records, true
	default:
		o.Kind, o.Found = Records, true
		for r := range strings.SplitSeq(text, ", ") {
			o.List = append(o.List, parseRecord(r))
		}
	}
}

func parseRecord(text string) Record {
	id, defects, ok := strings.Cut(text, " [")
	r := Record{ID: strings.TrimPrefix(id, "-")}
	if ok {
		r.Defects = strings.Fields(strings.TrimSuffix(defects, "]"))
	}
	return r
}

func number(text string) int { return must(strconv.Atoi(text)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
