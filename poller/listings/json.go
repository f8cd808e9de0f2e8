package listings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// lenient reads what is JSON but for its texts and names: those are the trouble of the record that holds them.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func newDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), lenient...)
}

// check says what is wrong with a body as JSON, in words that quote nothing; empty if it is one value and no more.
func check(body []byte) (wrong string) {
	d := newDecoder(body)
	err := d.SkipValue()
	switch {
	case errors.Is(err, io.EOF):
		return "an empty body"
	case err != nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		return "HTML"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("JSON that is cut off after %d bytes", len(body))
	case err != nil:
		return fmt.Sprintf("no JSON at byte %d", offset(err))
	}
	end := d.InputOffset()
	if len(bytes.TrimSpace(body[end:])) > 0 {
		return fmt.Sprintf("more after the JSON, at byte %d", end)
	}
	return ""
}

func offset(err error) int64 {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return syntax.ByteOffset
	}
	return 0
}

// members yields the members of an object that check has passed, values as they stand there; nothing if it is none. It steps
// over what it need not look into, and ends at what is no JSON.
func members(raw jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for quoted, value := range rawMembers(raw) {
			if !yield(memberText(quoted), value) {
				return
			}
		}
	}
}

// rawMembers are members with their names as they stand there, quotes included.
func rawMembers(raw jsontext.Value) iter.Seq2[[]byte, jsontext.Value] {
	return func(yield func([]byte, jsontext.Value) bool) {
		i, ok := opened(raw, '{', '}')
		for ok && raw[i] == '"' {
			end, closed := textEnd(raw, i)
			colon := space(raw, end)
			if !closed || colon == len(raw) || raw[colon] != ':' {
				return
			}
			at := space(raw, colon+1)
			after, found := valueEnd(raw, at)
			if !found || !yield(raw[i:end], raw[at:after:after]) {
				return
			}
			i, ok = following(raw, after)
		}
	}
}

// elements yields the elements of an array that check has passed; nothing if it is none.
func elements(raw jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		i, ok := opened(raw, '[', ']')
		for ok {
			end, found := valueEnd(raw, i)
			if !found || !yield(raw[i:end:end]) {
				return
			}
			i, ok = following(raw, end)
		}
	}
}

// opened is where the first member or element begins; false if there is none.
func opened(raw []byte, opening, closing byte) (i int, ok bool) {
	i = space(raw, 0)
	if i == len(raw) || raw[i] != opening {
		return i, false
	}
	i = space(raw, i+1)
	return i, i < len(raw) && raw[i] != closing
}

// following is where the next one begins after one that ends at i; false if it was the last.
func following(raw []byte, i int) (next int, ok bool) {
	if i = space(raw, i); i == len(raw) || raw[i] != ',' {
		return i, false
	}
	i = space(raw, i+1)
	return i, i < len(raw)
}

// valueEnd is where a value ends that begins at i. Of what is no JSON it may be anywhere, or nowhere.
func valueEnd(raw []byte, i int) (end int, ok bool) {
	if i == len(raw) {
		return i, false
	}
	if raw[i] != '{' && raw[i] != '[' {
		return scalarEnd(raw, i)
	}
	for depth := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			if end, ok = textEnd(raw, i); !ok {
				return i, false
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return i, false
}

// memberText is the name that a JSON string stands for.
func memberText(quoted []byte) string {
	var room [64]byte
	return string(appendName(room[:0], quoted))
}

func appendName(to, quoted []byte) []byte {
	name := quoted[1 : len(quoted)-1]
	if _, plain := alike(name); plain {
		return append(to, name...)
	}
	to, _ = jsontext.AppendUnquote(to, quoted) // the error is about UTF-8, which is mended
	return to
}

// text is the content of a JSON string; false for anything else.
func text(raw jsontext.Value) (string, bool) {
	if raw.Kind() != jsontext.KindString {
		return "", false
	}
	raw = bytes.TrimSpace(raw)
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), true
	}
	s, _ := jsontext.AppendUnquote(nil, raw) // the error is about UTF-8, which is mended
	return string(s), true
}

// number is the text of a JSON number; false for anything else, and for one that is too long to be meant.
func number(raw jsontext.Value) (string, bool) {
	const longest = 64
	if raw.Kind() != jsontext.KindNumber {
		return "", false
	}
	raw = bytes.TrimSpace(raw)
	return string(raw), len(raw) <= longest
}

// scalar is the text of a JSON string or number.
func scalar(raw jsontext.Value) (string, bool) {
	if s, ok := text(raw); ok {
		return s, true
	}
	return number(raw)
}

// isEmpty says whether a value is null, "", [] or {}.
func isEmpty(raw jsontext.Value) bool {
	switch raw.Kind() {
	case jsontext.KindNull:
		return true
	case jsontext.KindString:
		return len(bytes.TrimSpace(raw)) == len(`""`)
	case jsontext.KindBeginArray:
		for range elements(raw) {
			return false
		}
		return true
	case jsontext.KindBeginObject:
		for range members(raw) {
			return false
		}
		return true
	}
	return false
}

// typeOf names the JSON type of a value.
func typeOf(raw jsontext.Value) string {
	switch raw.Kind() {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "boolean"
	case jsontext.KindString:
		return "string"
	case jsontext.KindNumber:
		return "number"
	case jsontext.KindBeginObject:
		return "object"
	case jsontext.KindBeginArray:
		return "array"
	}
	return "nothing"
}
