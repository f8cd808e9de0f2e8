package events

import (
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Fit returns the event so that headers and payload together take at most maxBytes, the server's
// max_payload less what the sender adds. Usually that is the event itself. If not, "truncated"
// becomes true and values are left out until it fits, the least important first:
//
//  1. the record,
//  2. before and after of changes; the paths stay,
//  3. the members of the insertion,
//  4. the message of the contact,
//  5. the ends of long texts and lists, shorter with each try; then the members of the contact, and
//     the ends of ids last.
//
// Every required member but the record stays, in its order. With 2 KiB or more an event always fits,
// whatever came from outside: it must never block the log. Fit needs Data from [New], and an agency
// id of at most 64 bytes.
func (e Event) Fit(maxBytes int) Event {
	if len(e.Data) <= maxBytes-maxHeader {
		return e
	}
	room := maxBytes - headerSize(e.Header())
	if len(e.Data) <= room {
		return e
	}
	o, err := parseObject(e.Data)
	if err != nil {
		return e // not from New, Decode or UnmarshalJSON
	}
	o = o.truncated()
	for _, leaveOut := range leavings {
		leaveOut(&o)
		e.Data = o.encode()
		if len(e.Data) <= room {
			break
		}
	}
	return e
}

// leavings are the steps of Fit, in its order.
var leavings = []func(*object){
	without("record"),
	rewrite("changes", pathsOnly),
	rewrite("insertion", empty),
	rewrite("contact", func(contact json.RawMessage) json.RawMessage { return edit(contact, without("message")) }),
	shorten(limit{text: 1024, items: 64}, identities...),
	shorten(limit{text: 128, items: 8}, identities...),
	rewrite("contact", empty),
	shorten(limit{text: 64, items: 2}, "agencyId"),
}

var identities = []string{"agencyId", "propertyReferenceId", "contactRequestId"}

// truncated sets the member of that name, which comes after the times of the observation.
func (o object) truncated() object {
	without("truncated")(&o)
	place := 1 + max(o.index("observedAt"), o.index("observedAfter"))
	return slices.Insert(o, place, member{"truncated", json.RawMessage("true")})
}

func empty(json.RawMessage) json.RawMessage { return json.RawMessage("{}") }

func pathsOnly(value json.RawMessage) json.RawMessage {
	var changes []Change
	if json.Unmarshal(value, &changes) != nil {
		return json.RawMessage("[]")
	}
	paths, _ := encode(withoutValues(append([]Change{}, changes...))) // paths are texts and cannot fail
	return paths
}

// headerSize is how much of max_payload a header takes: a status line, a line for each value, an
// empty line.
func headerSize(header map[string][]string) int {
	size := len("NATS/1.0\r\n\r\n")
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return size
}

// limit is how much of a text, in bytes of JSON, and of a list is kept.
type limit struct{ text, items int }

func shorten(l limit, spared ...string) func(*object) {
	return func(o *object) {
		for i, m := range *o {
			if !slices.Contains(spared, m.name) {
				(*o)[i].value = l.apply(m.value)
			}
		}
	}
}

// apply shortens texts and lists at any depth. Numbers, of which a record might hold a very long
// one, become null.
func (l limit) apply(value json.RawMessage) json.RawMessage {
	switch {
	case value[0] == '{':
		return edit(value, shorten(l))
	case value[0] == '[':
		return items(value, l.apply, l.items)
	case len(value) <= l.text:
		return value
	case value[0] == '"':
		return l.cut(value)
	}
	return json.RawMessage("null")
}

// cut keeps the beginning of a text, whole characters only.
func (l limit) cut(value json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return value
	}
	for len(value) > l.text {
		end := min(l.text, len(s)*3/4)
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
		value = quote(s)
	}
	return value
}
