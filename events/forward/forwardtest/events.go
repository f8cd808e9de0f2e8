package forwardtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"doorbell/events"
)

// at is when everything in the suite happens.
var at = time.Date(2026, 11, 20, 9, 41, 7, 0, time.UTC)

func stamped(sequence int, p events.Payload) events.Event {
	e, err := events.New(p)
	if err != nil {
		panic(err) // what is here is well-formed
	}
	return e.Stamp(uint64(sequence), at.Add(time.Duration(sequence)*time.Second), "store")
}

func common(agency string) events.Common {
	return events.Common{AgencyID: agency, ObservedAt: at, ObservedAfter: at.Add(-30 * time.Second)}
}

// Lead is a new contact request. Agency and sequence make it one of its own.
func Lead(agency string, sequence int) events.Event { return LeadWith(agency, sequence, "") }

// LeadWith is a new contact request with a text in every field that a stranger can fill.
func LeadWith(agency string, sequence int, text string) events.Event {
	return stamped(sequence, &events.ContactRequestCreated{
		Common: common(agency), PropertyReferenceID: "see#1203#H2#0305" + text, ContactRequestID: fmt.Sprintf("id-%s-%d", agency, sequence),
		Identity: events.IdentityID, CreatedAt: at, Score: json.RawMessage("72.5"),
		Contact: events.Contact{
			Salutation: "Frau" + text, FirstName: "Nora" + text, LastName: person + text, Company: "Muster AG" + text,
			Email: "nora." + person + "@example.org" + text, Phone: "+41790000123" + text, PhoneRaw: "079 000 01 23" + text, Language: "de" + text,
			Message: "Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag." + text,
			Address: &events.Address{Street: "Weg 1" + text, PostalCode: "8008" + text, Locality: "Zürich" + text},
		},
		Insertion: events.InsertionSummary{
			Title: "Helle 3.5-Zimmerwohnung" + text, Street: "Beispielstrasse 12" + text, PostalCode: "8008" + text, Locality: "Zürich" + text,
			OfferType: "RENT" + text, URL: "https://portal.example/d/4001234567" + text,
		},
		Record: json.RawMessage(`{"status":"NEW"}`),
	})
}

// Halt is an access.halted of an agency, all with the same key.
func Halt(agency string, sequence int) events.Event { return HaltWith(agency, sequence, "") }

// HaltWith is a halt with a text wherever it could come from outside.
func HaltWith(agency string, sequence int, text string) events.Event {
	return stamped(sequence, &events.AccessHalted{
		Common: common(agency), Scope: events.ScopeInsertion, PropertyReferenceID: "see#1" + text, Operation: "insertions", Status: 403,
		ProbableReason: "key_rejected", Evidence: events.Evidence{Body: "json"},
		Key:    events.KeyRef{Fingerprint: "sha256:f7404f30"},
		Advice: "Ask the provider for the valid key." + text, Resume: "doorbell resume " + agency + text,
	})
}

// Stale is a watch.stale.
func Stale(agency string, sequence int) events.Event {
	return stamped(sequence, &events.WatchStale{
		Common: common(agency), Operation: "insertions", LastSuccessAt: at.Add(-time.Hour),
		Errors: []events.StaleError{{At: at, Operation: "insertions", Class: "server", Status: 503, Text: "503"}},
	})
}

// Hostile are texts that strangers may write.
func Hostile() map[string]string {
	return map[string]string{
		"mentions":       " <!channel> <!here> <@U123> <#C123|x> @everyone",
		"links":          " <https://evil.example|bank> [x](https://evil.example) javascript:alert(1)",
		"markup":         " <script>alert(1)</script> <img src=x onerror=y> *b* _i_ `c` &lt; & < >",
		"header lines":   "\r\nBcc: evil@example.org\r\nX-Evil: 1\r\n\r\nbody\n.\n",
		"control":        " \x00\x01\x07\x08\x0b\x0c\x1b[31m\x7f\u0085\u2028\u2029",
		"right to left":  " \u202eevil\u202c \u2066x\u2069 \u200b\u200d\ufeff",
		"no UTF-8":       " \xff\xfe\xed\xa0\x80",
		"long":           strings.Repeat("ä", 40_000),
		"one long word":  strings.Repeat("W", 40_000),
		"many lines":     strings.Repeat("\r\n", 5000),
		"grapheme tower": "a" + strings.Repeat("\u0301", 5000),
		"emoji":          strings.Repeat("👩‍👩‍👧‍👦", 3000),
		"templates":      " {{.Secret}} ${HOME} %s%n%x {0} =cmd|' /C calc'!A0",
		"quotes":         ` "'\` + "`",
	}
}
