package events_test

import (
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
	if created("1").Entity() != changed.Entity() || created("1").State() != changed.State() {
		t.Error("two events of one contact request name two things")
	}
	if created("1").Entity() == created("2").Entity() || created("1").Entity() == appeared.Entity() {
		t.Error("two things have one name")
	}
	if appeared.Entity() != gone.Entity() || appeared.State() == gone.State() || gone.State() == "" {
		t.Error("an insertion that is gone is as it was before")
	}
	if stale.Entity() != "" || stale.State() != "" {
		t.Error("a watch has no entity")
	}
	if text := changed.Entity() + changed.State(); strings.Contains(text, "Beispiel") {
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

func TestTheOrderOfMembersIsNoOtherState(t *testing.T) {
	state := func(record string) string {
		e, err := events.New(&events.InsertionAppeared{Common: events.Common{AgencyID: "A100"}, PropertyReferenceID: "r", Episode: 1, Record: []byte(record)})
		if err != nil {
			t.Fatal(err)
		}
		return e.State()
	}
	if state(`{"a":1.50,"b":{"c":[1,2],"d":""}}`) != state(`{"b":{"d":"","c":[1,2]},"a":1.50}`) {
		t.Error("the same members in another order are another state")
	}
	if state(`{"a":[1,2]}`) == state(`{"a":[2,1]}`) || state(`{"a":1}`) == state(`{"a":2}`) {
		t.Error("two states are one")
	}
}
