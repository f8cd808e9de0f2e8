package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"doorbell/events"
)

// TestAgency is the agency of a made-up event that is meant for nobody in particular.
const TestAgency = "TEST"

// SendTest sends a made-up event of an agency through a receiver, marked as a test: a contact request, or an alert. It tries once. The
// error is that of the receiver.
func SendTest(ctx context.Context, o Receiver, agency string, alert bool) error {
	e, err := sample(agency, alert, time.Now())
	if err != nil {
		return err
	}
	return send(ctx, o, Delivery{Events: []events.Event{e}, Test: true})
}

// sample is an event of nobody: what it says occurs in no register of persons, addresses or numbers.
func sample(agency string, alert bool, now time.Time) (events.Event, error) {
	common := events.Common{AgencyID: agency, ObservedAt: now, ObservedAfter: now.Add(-30 * time.Second)}
	var p events.Payload = &events.ContactRequestCreated{
		Common: common, PropertyReferenceID: "test#1##", ContactRequestID: fmt.Sprintf("test-%d", now.UnixNano()),
		Identity: events.IdentityID, CreatedAt: now.Add(-10 * time.Second), Score: json.RawMessage("72.5"),
		Contact: events.Contact{
			Salutation: "Frau", FirstName: "Nora", LastName: "Beispiel", Email: "nora.beispiel@example.org",
			Phone: "+41790000123", PhoneRaw: "079 000 01 23", Language: "de",
			Message: "This is a test of doorbell. Nobody wrote this.\r\nGrüezi, <b>& so weiter</b>?",
		},
		Insertion: events.InsertionSummary{Title: "Test insertion, does not exist", PostalCode: "8008", Locality: "Zürich"},
		Record:    json.RawMessage(`{"test":true}`),
	}
	if alert {
		p = &events.AccessHalted{
			Common: common, Scope: events.ScopeAgency, Operation: "insertions", Status: 403, ProbableReason: "unknown",
			Evidence: events.Evidence{Body: "none"}, Key: events.KeyRef{Fingerprint: "sha256:00000000"},
			Advice: "This is a test of doorbell. Nothing was refused, and there is nothing to do.", Resume: "doorbell resume " + agency,
		}
	}
	e, err := events.New(p)
	if err != nil {
		return e, err
	}
	return e.Stamp(1, now, "test"), nil
}
