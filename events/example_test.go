package events_test

import (
	"fmt"

	"doorbell/events"
)

// A message of the stream, as any NATS client hands it over: its headers and its body.
func ExampleDecode() {
	headers := map[string][]string{
		"ce-specversion":  {"1.0"},
		"ce-id":           {"uiztpjutghje6ctysbx22p2x4w"},
		"ce-type":         {"contact_request.created"},
		"ce-time":         {"2026-11-20T09:41:07Z"},
		"ce-recordedtime": {"2026-11-20T09:41:43.503Z"},
		"ce-sequence":     {"00000000000000001842"},
		"ce-partitionkey": {"A100"},
	}
	body := []byte(`{
		"agencyId": "A100", "propertyReferenceId": "seefeld#1203#H2#0305", "origin": "live",
		"contact": {"firstName": "Nora"}, "insertion": {"title": "Helle 3.5-Zimmerwohnung im Seefeld"}
	}`)

	e, err := events.Decode(headers, body)
	if err != nil {
		fmt.Println("not an event of ours:", err)
		return
	}
	p, err := e.Payload()
	if err != nil {
		fmt.Println("an event that this version does not know:", err)
		return
	}
	switch p := p.(type) {
	case *events.ContactRequestCreated:
		fmt.Printf("%s wrote about %s (%s)\n", p.Contact.FirstName, p.Insertion.Title, e.Reference)
	case *events.AccessHalted:
		fmt.Println(p.Advice)
	}
	// Output: Nora wrote about Helle 3.5-Zimmerwohnung im Seefeld (seefeld#1203#H2#0305)
}
