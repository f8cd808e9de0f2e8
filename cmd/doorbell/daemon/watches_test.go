package daemon

import (
	"testing"

	"doorbell/events"
	"doorbell/poller"
)

func TestMembersThatSayDifferentThingsOfPeopleAreTold(t *testing.T) {
	digest := func(people events.People) string { return watches([]poller.AgencyKeys{{ID: "A100", People: people}}) }
	if digest("") != digest(events.PeopleFull) {
		t.Error("a member of an older release differs from one that says all")
	}
	if digest(events.PeopleContact) == digest(events.PeopleFull) || digest(events.PeopleContact) == digest(events.PeopleNone) {
		t.Error("members that leave out different things do not differ")
	}
}
