package events

import "strings"

const (
	attributePrefix = "ce-"
	msgIDHeader     = "Nats-Msg-Id"
	// maxSubject keeps headers small. A longer reference stands in the payload alone: half of one would be another one.
	maxSubject = 512
	// maxHeader is what headers take at the most, and mostHeaders how many they are with those that a sender adds.
	maxHeader, mostHeaders = 2 << 10, 20
)

// Header is the envelope as NATS headers: the ce-* attributes and Nats-Msg-Id, each once, printable ASCII without spaces,
// together less than 2 KiB. The reference is percent-encoded; it is left out where it would take more than 512
// characters. No personal data is in it.
func (e Event) Header() map[string][]string {
	v := e.envelope()
	v.Subject = escape(v.Subject)
	if len(v.Subject) > maxSubject {
		v.Subject = ""
	}
	attributes := v.attributes()
	values := make([]string, len(attributes))
	header := make(map[string][]string, mostHeaders)
	header[msgIDHeader] = []string{e.ID}
	for i, a := range attributes {
		if values[i] = *a.value; values[i] != "" {
			header[attributePrefix+a.name] = values[i : i+1 : i+1]
		}
	}
	return header
}

// Decode reads an event from the headers and the body of a message. Headers that it does not know are nothing to it, and
// so is the case of their names. Types of later versions pass; [Event.Payload] knows them or does not.
//
// The error says that the message is no event of ours and which attribute shows it; it never quotes a value. Data is
// kept, not copied.
func Decode(header map[string][]string, data []byte) (Event, error) {
	var v envelope
	for _, a := range v.attributes() {
		*a.value = lookup(header, attributePrefix+a.name)
	}
	v.Subject, _ = unescape(v.Subject, '%') // where it is not ours, the payload has the reference
	payload, err := parseObject(data)
	if err != nil {
		return Event{}, errPayload
	}
	return v.event(data, payload)
}

// lookup finds a header whatever the case of its name. Of several, the last in byte order wins, which is the one in
// lower case if it is there.
func lookup(header map[string][]string, name string) string {
	var best, value string
	for k, values := range header {
		if k > best && len(values) > 0 && strings.EqualFold(k, name) {
			best, value = k, values[0]
		}
	}
	return value
}

// escape percent-encodes what may not stand in a header, and the % itself. The # of references stays.
func escape(s string) string {
	odd := func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '%' }
	if !strings.ContainsFunc(s, odd) {
		return s
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if odd(rune(c)) {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// headerSize is what a header takes of max_payload: a status line, a line for each, an empty line.
func headerSize(header map[string][]string) int {
	size := len("NATS/1.0\r\n\r\n")
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return size
}
