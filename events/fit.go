package events

import (
	"encoding/json"
	"slices"
)

// Fit returns the event so that headers and payload together take at most maxBytes, the server's
// max_payload less what the sender adds. Usually that is the event itself. If not, "truncated"
// becomes true and values are left out until it fits, the least important first:
//
//  1. the record,
//  2. before and after of changes; the paths stay,
//  3. the members of the insertion,
//  4. the message of the contact,
//  5. the long values of the contact, then every other one,
//  6. the contact, and the ids last.
//
// Every required member but the record stays, in its order. With 2 KiB or more an event always
// fits, whatever came from outside: it must never block the log. Fit needs Data from [New], and an
// agency id of at most 64 bytes.
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
	rewrite("contact", func(contact json.RawMessage) json.RawMessage { return edit(contact, emptyLong()) }),
	emptyLong("agencyId", "propertyReferenceId", "contactRequestId", "contact"),
	rewrite("contact", empty),
	emptyLong("agencyId"),
}

// longValue is more than any value of fixed form takes.
const longValue = 128

// emptyLong empties every long value but some: in their form they remain valid by the schema.
func emptyLong(spared ...string) func(*object) {
	return func(o *object) {
		for i, m := range *o {
			if len(m.value) > longValue && !slices.Contains(spared, m.name) {
				(*o)[i].value = empty(m.value)
			}
		}
	}
}

// empty is the empty value of the same kind. A number, of which a record might hold a very long
// one, becomes null.
func empty(value json.RawMessage) json.RawMessage {
	switch value[0] {
	case '{':
		return json.RawMessage("{}")
	case '[':
		return json.RawMessage("[]")
	case '"':
		return json.RawMessage(`""`)
	}
	return json.RawMessage("null")
}

// truncated sets the member of that name, which comes after the times of the observation.
func (o object) truncated() object {
	without("truncated")(&o)
	place := 1 + max(o.index("observedAt"), o.index("observedAfter"))
	return slices.Insert(o, place, member{"truncated", json.RawMessage("true")})
}

func pathsOnly(value json.RawMessage) json.RawMessage {
	var changes []Change
	if json.Unmarshal(value, &changes) != nil {
		return json.RawMessage("[]")
	}
	// paths are texts and cannot fail
	paths, _ := encode(withoutValues(append([]Change{}, changes...)))
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
