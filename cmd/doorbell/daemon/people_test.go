package daemon

import (
	"errors"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/people"
	"doorbell/events"
	"doorbell/events/stream"
	"doorbell/poller/sandbox"
)

// TestAPersonIsForgottenByAllMembersWhicheverIsAsked lets a person write to agencies of both members.
func TestAPersonIsForgottenByAllMembersWhicheverIsAsked(t *testing.T) {
	s := newShared(t)
	one, stop := s.join(s.dir())
	eventually(t, "one watches all", func() bool { return len(owned(one)) == len(sharedAgencies) })
	two, _ := s.join(s.dir())
	owner, other := settled(t, "A100", one, two)
	s.write() // the first of each agency is of the same person
	s.write()
	s.told()
	w := people.Wanted{Email: "m0@example.org"}
	found, err := at(t, other, ops.Find, w)
	if err != nil || len(found.Requests) != 3 || found.Events["log"] != 3 || found.Events["stream"] != 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	r, err := at(t, other, ops.Forget, ops.ForgetRequest{Wanted: w})
	if err != nil || r.Finished.IsZero() || len(r.Requests) != 3 || slices.ContainsFunc(r.OutOfReach, func(s string) bool { return s[:6] == "member" }) {
		t.Fatalf("%+v, %v", r, err)
	}
	gone := func(d *Daemon) {
		t.Helper()
		if found, err := at(t, d, ops.Find, w); err != nil || len(found.Requests) != 0 {
			t.Errorf("%+v, %v", found, err)
		}
	}
	gone(owner)
	if _, err := at(t, owner, ops.Forget, ops.ForgetRequest{Wanted: w}); !errors.Is(err, people.ErrNothing) {
		t.Errorf("again: %v", err)
	}
	if one == owner { // the one who stays takes over what it did not own
		stop()
		eventually(t, "the other one owns all", func() bool { return len(owned(other)) == len(sharedAgencies) })
		owner = other
	}
	from := s.model.Requests(sandbox.Filter{})
	eventually(t, "the API has shown the person again", func() bool { return s.model.Requests(sandbox.Filter{}) > from+100 })
	gone(owner)
	nc, err := nats.Connect(s.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	told := map[events.Type]int{}
	eventually(t, "three redactions are told", func() bool {
		clear(told)
		for m, err := range (stream.Client{Conn: nc, Stream: "LISTINGS", Wait: patience}).Read(t.Context(), "listings.v1.*.contact_request.>", 0) {
			if err != nil {
				return false
			}
			e, err := events.Decode(m.Header, m.Data)
			if err != nil {
				t.Fatal(err)
			}
			told[e.Type]++
		}
		return told[events.TypeContactRequestRedacted] >= 3
	})
	if told[events.TypeContactRequestRedacted] != 3 || told[events.TypeContactRequestCreated] != 3 || len(told) != 2 {
		t.Errorf("the stream tells %v, want three redactions and the three of the other person", told)
	}
}
