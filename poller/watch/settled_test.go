package watch

import (
	"slices"
	"testing"

	"doorbell/poller/listings"
)

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
