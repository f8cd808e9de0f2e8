// Package events defines doorbell's events: their types and the form in which they travel, and
// nothing that only doorbell itself needs. A program that consumes doorbell's stream may import it;
// it depends on nothing outside the standard library.
//
// # What an event is
//
// An [Event] reports one thing that happened to one agency: an insertion appeared, a person wrote,
// the API refused a request, nothing could be seen. It is a CloudEvents 1.0 event in binary mode:
// the payload, plain JSON, is the body of a NATS message; everything else, the envelope, is in ce-*
// headers. Outside NATS the same event is one line of CloudEvents JSON ([Event.MarshalJSON]).
//
// It is published on <prefix>.v1.<agency>.<type> ([Subject]); agencies are written as subject
// tokens ([Token]).
//
// # What consumers may rely on
//
//   - The id is derived from what happened, not from when it was noticed: the same fact, reported
//     again after a crash or from a restored backup, has the same id. Two facts have two ids, also
//     where a value changes from A to B and back to A.
//   - Sequence is the position in the event log of the store that StoreID names. It rises in the
//     order of the log, with gaps in what an agency sees.
//   - It happened between ObservedAfter, the previous successful observation, and ObservedAt.
//   - Origin distinguishes what is new (live) from what existed before the watch began (baseline)
//     and from what is sent again on request (replay).
//   - The record is the API's own, with its member order and its numbers as they were written. If
//     an event is too large for the server, values are left out and "truncated" is true
//     ([Event.Fit]); it is still published.
//   - Version 1 only grows: ignore what you do not know. The package schemas has a JSON Schema and
//     an example for every type.
//
// # Reading an event
//
//	e, err := events.Decode(msg.Headers(), msg.Data())
//	if err != nil {
//		return err // not an event of ours
//	}
//	p, err := e.Payload()
//	if err != nil {
//		return err
//	}
//	switch p := p.(type) {
//	case *events.ContactRequestCreated:
//		greet(p.Contact.FirstName, p.Insertion.Title)
//	case *events.AccessHalted:
//		alert(p.Advice)
//	}
//
// Contacts and records are personal data: keep them out of logs. Nothing in this package puts them
// into an error, a header or a subject.
package events
