package events_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

func TestEventsOfOneThingNameOneEntityAndNoPerson(t *testing.T) {
	common := events.Common{AgencyID: "A100", ObservedAt: time.Unix(1, 0)}
	made := func(p events.Payload) events.Event {
		e, err := events.New(p)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	created := func(id string) events.Event {
		return made(&events.ContactRequestCreated{
			Common: common, PropertyReferenceID: "a#", ContactRequestID: id, Contact: events.Contact{LastName: "Beispiel"}, Record: []byte(`{"id":1}`),
		})
	}
	changed := made(&events.ContactRequestChanged{
		Common: common, PropertyReferenceID: "a#", ContactRequestID: "1", Contact: events.Contact{LastName: "Beispiel"}, Record: []byte(`{"id":1}`),
	})
	appeared := made(&events.InsertionAppeared{Common: common, PropertyReferenceID: "a#", Episode: 1, Record: []byte(`{"id":1}`)})
	gone := made(&events.InsertionDisappeared{Common: common, PropertyReferenceID: "a#", Episode: 1, Record: []byte(`{"id":1}`)})
	stale := made(&events.WatchStale{Common: common})
	state := func(e events.Event) string {
		return e.State(func(t events.Type, record json.RawMessage) string {
			sum := sha256.Sum256(record)
			return hex.EncodeToString(sum[:])
		})
	}
	if created("1").Entity() != changed.Entity() || state(created("1")) != state(changed) {
		t.Error("two events of one contact request name two things")
	}
	if created("1").Entity() == created("2").Entity() || created("1").Entity() == appeared.Entity() {
		t.Error("two things have one name")
	}
	if appeared.Entity() != gone.Entity() || state(appeared) == state(gone) || state(gone) == "" {
		t.Error("an insertion that is gone is as it was before")
	}
	if stale.Entity() != "" || state(stale) != "" {
		t.Error("a watch has no entity")
	}
	if text := changed.Entity() + state(changed); strings.Contains(text, "Beispiel") {
		t.Error("a person is named")
	}
}

func TestAgainMakesAnotherIDOfTheSame(t *testing.T) {
	e := events.Event{ID: "x", Position: 3}
	if a := e.Again(); a.ID == "x" || a.ID != e.Again().ID || a.Position != 3 {
		t.Errorf("%+v", a)
	}
	other := e
	other.Position = 4
	if e.Again().ID == other.Again().ID {
		t.Error("two of them have one id")
	}
}
