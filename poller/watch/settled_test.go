package watch

import (
	"slices"
	"testing"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// Only a response that says what it said before, and waits for nothing, is settled.
func TestAResponseIsSettledOnceNothingIsNewOrWaits(t *testing.T) {
	anna, bruno := person("a", 0, "Anna", "x"), person("b", 1, "Bruno", "y")
	emptied := lead(`{"id":"b","createdAt":"` + bruno.CreatedAt.Format(time.RFC3339) + `","lastName":null,"email":null,"message":null}`)
	m := newMemory()
	expect := func(what string, settled bool, j Judged) {
		t.Helper()
		if j.Settled != settled {
			t.Errorf("%s: settled %t", what, j.Settled)
		}
	}
	expect("the first look at none", false, m.see())
	expect("none again", true, m.see())
	expect("two new ones", false, m.see(anna, bruno))
	expect("the same two", true, m.see(anna, bruno))
	expect("a message is new", false, m.see(anna, person("b", 1, "Bruno", "z")))
	expect("the same two", true, m.see(anna, person("b", 1, "Bruno", "z")))
	expect("one is missing", true, m.see(person("b", 1, "Bruno", "z")))
	expect("a person is empty once", false, m.see(anna, emptied))
	expect("a person is empty twice, too soon", false, m.see(anna, emptied))
	expect("none where two are known", false, m.see())

	m = newMemory()
	m.see(anna)
	m.State.Volatile = []store.Volatile{{Operation: string(listings.OperationContactRequests), Path: "/views"}}
	m.see(anna)
	expect("a member is left out", false, m.see(anna))

	m = newMemory()
	var many []listings.ContactRequest
	for n := range 12 {
		many = append(many, person(string(rune('a'+n)), n, "Anna", "x"))
	}
	m.see(many...)
	slices.SortFunc(many, func(a, b listings.ContactRequest) int { return a.CreatedAt.Compare(b.CreatedAt) })
	m.poll.Longest = 12
	r := Response{Question: Ask("createdAt", "desc", 100), Requests: many, Total: -1, List: true}
	if j := m.judge(NewWindow(), r); j.Closed != Open || j.Settled {
		t.Errorf("the other order: closed %q, settled %t", j.Closed, j.Settled)
	}

	m = newMemory()
	m.see(anna)
	m.Insertion.Epoch--
	expect("known only since this catch-up", false, m.see(anna))
}
