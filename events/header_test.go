package events_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"doorbell/events"
)

func TestHeadersAreSmallPrintableASCII(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := events.Event{
			ID: strings.Repeat("a", 26), Type: rapid.SampledFrom(events.Types).Draw(t, "type"),
			AgencyID: agencyIDs.Draw(t, "agency"), Reference: agencyIDs.Draw(t, "reference"),
			Origin: events.OriginBaseline, Sequence: rapid.Uint64().Draw(t, "sequence"), StoreID: strings.Repeat("s", 26),
		}
		e.Reference = strings.Repeat(e.Reference, rapid.SampledFrom([]int{1, 1, 10, 10_000}).Draw(t, "times"))
		header := e.Header()
		if size := wireSize(header); size > 2_000 {
			t.Fatalf("headers take %d bytes", size)
		}
		checkHeader(t, header)
	})
}

func checkHeader(t rapid.TB, header map[string][]string) {
	t.Helper()
	for name, values := range header {
		if len(values) != 1 || values[0] == "" {
			t.Fatalf("header %q is %q", name, values)
		}
		for _, c := range []byte(name + values[0]) {
			if c <= ' ' || c > '~' {
				t.Fatalf("header %q is %q", name, values)
			}
		}
	}
}

// wireSize is what the headers of a message take in the NATS protocol.
func wireSize(header map[string][]string) int {
	var wire bytes.Buffer
	wire.WriteString("NATS/1.0\r\n")
	for name, values := range header {
		for _, value := range values {
			wire.WriteString(name + ": " + value + "\r\n")
		}
	}
	wire.WriteString("\r\n")
	return wire.Len()
}

func TestAForeignMessageIsAnError(t *testing.T) {
	const secret = "nora.beispiel@example.org"
	set := func(name string, values ...string) func(map[string][]string, *[]byte) {
		return func(h map[string][]string, _ *[]byte) { h[name] = values }
	}
	body := func(s string) func(map[string][]string, *[]byte) {
		return func(_ map[string][]string, data *[]byte) { *data = []byte(s) }
	}
	for name, spoil := range map[string]func(map[string][]string, *[]byte){
		"no headers":          func(h map[string][]string, _ *[]byte) { clear(h) },
		"another version":     set("ce-specversion", "0.3"),
		"no id":               set("ce-id"),
		"an id with space":    set("ce-id", "a "+secret),
		"an id without end":   set("ce-id", strings.Repeat("a", 65)),
		"no type":             set("ce-type", ""),
		"a type of no form":   set("ce-type", "Insertion/"+secret),
		"a type with a star":  set("ce-type", "insertion.*"),
		"a type with two dot": set("ce-type", "insertion..appeared"),
		"a type ending in .":  set("ce-type", "insertion."),
		"a type without end":  set("ce-type", strings.Repeat("a.", 40)+"a"),
		"no time":             set("ce-time"),
		"a time of no form":   set("ce-time", secret),
		"no recorded time":    set("ce-recordedtime", "2026-11-20"),
		"no sequence":         set("ce-sequence"),
		"a short sequence":    set("ce-sequence", "1842"),
		"a signed sequence":   set("ce-sequence", "+0000000000000001842"),
		"a huge sequence":     set("ce-sequence", "99999999999999999999"),
		"another agency":      set("ce-partitionkey", "A200"),
		"an odd store id":     set("ce-storeid", "a\nb"),
		"an odd origin":       body(`{"agencyId":"A100","origin":"live\r\nX: y"}`),
		"no body":             body(""),
		"a text":              body("hi"),
		"null":                body("null"),
		"a list":              body("[]"),
		"an empty object":     body("{}"),
		"an agency of none": func(h map[string][]string, data *[]byte) {
			h["ce-partitionkey"], *data = []string{"="}, []byte(`{"agencyId":"","origin":"live"}`)
		},
		"no origin":           body(`{"agencyId":"A100"}`),
		"a cut body":          body(`{"agencyId":"A100","origin":"live","contact":{"email":"` + secret),
		"more than an object": body(`{"agencyId":"A100","origin":"live"} ` + secret),
		"another kind of id":  body(`{"agencyId":["` + secret + `"],"origin":"live"}`),
	} {
		header, data := example(t, events.TypeContactRequestCreated)
		spoil(header, &data)
		e, err := events.Decode(header, data)
		if err == nil {
			t.Errorf("%s: decoded as %+v", name, e)
			continue
		}
		if strings.Contains(err.Error(), secret) || len(err.Error()) > 100 {
			t.Errorf("%s: the error quotes what it read: %v", name, err)
		}
	}
}

func TestALaterTypeIsDecodedButHasNoPayloadHere(t *testing.T) {
	header, data := example(t, events.TypeInsertionAppeared)
	header["ce-type"] = []string{"insertion.merged"}
	e, err := events.Decode(header, data)
	must(t, err)
	if p, err := e.Payload(); err == nil {
		t.Errorf("payload %T", p)
	}
}

func FuzzDecode(f *testing.F) {
	for _, kind := range events.Types {
		header, data := example(f, kind)
		add := func(name string) string { return strings.Join(header[name], "") }
		f.Add(add("ce-id"), add("ce-type"), add("ce-subject"), add("ce-time"), add("ce-sequence"), data)
	}
	f.Add("a", "a.b", "%zz%", "0000-01-01T00:00:00Z", strings.Repeat("9", 20), []byte(`{"agencyId":"A100","origin":"x","record":{"\ud800":"\xff"}}`))
	f.Add("a", "a", "\x80", "9999-12-31T23:59:59.999999999-23:59", strings.Repeat("0", 20), []byte(`{"AgencyID":"A100","origin":"live"}`))
	base, _ := example(f, events.TypeInsertionAppeared)
	f.Fuzz(func(t *testing.T, id, kind, subject, time, sequence string, data []byte) {
		header := maps.Clone(base)
		for name, value := range map[string]string{
			"ce-id": id, "ce-type": kind, "ce-subject": subject, "ce-time": time, "ce-sequence": sequence,
		} {
			header[name] = []string{value}
		}
		e, err := events.Decode(header, data)
		if err != nil {
			return
		}
		checkHeader(t, e.Header())
		checkRoundTrips(t, e)
		if p, err := e.Payload(); err == nil {
			if _, err := events.New(p); err != nil {
				t.Errorf("a payload that was read cannot be written: %v", err)
			}
		}
		if !json.Valid(e.Fit(1).Data) {
			t.Errorf("fitted to no JSON: %s", e.Fit(1).Data)
		}
	})
}
