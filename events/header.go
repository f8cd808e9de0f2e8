package events

import (
	"strings"
)

const (
	attributePrefix = "ce-"
	msgIDHeader     = "Nats-Msg-Id"
	// maxSubject keeps headers small. A longer reference stands in the payload alone: half of one would be another one.
	maxSubject = 512
)

// attribute is a CloudEvents attribute that has a header of its own.
type attribute struct {
	name  string
	value *string
}

func (v *envelope) attributes() []attribute {
	return []attribute{
		{"specversion", &v.SpecVersion},
		{"id", &v.ID},
		{"source", &v.Source},
		{"type", &v.Type},
		{"subject", &v.Subject},
		{"time", &v.Time},
		{"recordedtime", &v.RecordedTime},
		{"sequence", &v.Sequence},
		{"partitionkey", &v.PartitionKey},
		{"datacontenttype", &v.DataContentType},
		{"dataschema", &v.DataSchema},
		{"origin", &v.Origin},
		{"storeid", &v.StoreID},
	}
}

// Header is the envelope as NATS headers: the ce-* attributes and Nats-Msg-Id, each once, printable ASCII without spaces,
// together less than 2 KiB. The reference is percent-encoded; it is left out where it would take more than 512
// characters. No personal data is in it.
func (e Event) Header() map[string][]string {
	v := e.envelope()
	v.Subject = escape(v.Subject)
	if len(v.Subject) > maxSubject {
		v.Subject = ""
	}
	header := map[string][]string{msgIDHeader: {e.ID}}
	for _, a := range v.attributes() {
		if *a.value != "" {
			header[attributePrefix+a.name] = []string{*a.value}
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
	v.Data = data
	return v.event()
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
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
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
