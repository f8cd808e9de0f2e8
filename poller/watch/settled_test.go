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

// What a response says in its sum is all that tells it from another one that may be judged otherwise.
func TestTheSumOfAResponseTellsWhatIsJudged(t *testing.T) {
	r := Response{Question: Ask("createdAt", "desc", 100), Requests: []listings.ContactRequest{person("a", 0, "Anna", "x")}, Total: -1, List: true}
	sum := r.Sum(contactRules)
	if again := person("a", 0, "Anna", "x"); sum != (Response{Question: r.Question, Requests: []listings.ContactRequest{again}, Total: -1, List: true}).Sum(contactRules) {
		t.Error("the same response has another sum")
	}
	for what, change := range map[string]func(*Response){
		"size":       func(r *Response) { r.NumberOfItemsPerPage = 50 },
		"order":      func(r *Response) { r.SortOrder = "asc" },
		"total":      func(r *Response) { r.Total = 1 },
		"unreadable": func(r *Response) { r.Unreadable = 1 },
		"list":       func(r *Response) { r.List = false },
		"one more":   func(r *Response) { r.Requests = append(slices.Clip(r.Requests), person("b", 1, "Bruno", "x")) },
		"id":         func(r *Response) { r.Requests = []listings.ContactRequest{person("b", 0, "Anna", "x")} },
		"time":       func(r *Response) { r.Requests = []listings.ContactRequest{person("a", 1, "Anna", "x")} },
		"message":    func(r *Response) { r.Requests = []listings.ContactRequest{person("a", 0, "Anna", "y")} },
	} {
		other := r
		if change(&other); other.Sum(contactRules) == sum {
			t.Errorf("%s says nothing", what)
		}
	}
}
