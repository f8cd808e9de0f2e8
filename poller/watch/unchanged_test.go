package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/listings"
)

// What ids and digests alone say of a response must be what the whole comparison says of it.
func TestAResponseThatIsTakenForUnchangedChangesNothing(t *testing.T) {
	settled := 0
	rapid.Check(t, func(t *rapid.T) {
		draw := func() listings.ContactRequest {
			id := rapid.SampledFrom([]any{"a", "b", "c", 4, nil}).Draw(t, "id")
			minute := rapid.IntRange(0, 1).Draw(t, "minute")
			return person(id, minute, rapid.SampledFrom([]string{"Anna", "Bruno"}).Draw(t, "name"), "x")
		}
		var before []listings.ContactRequest
		for range rapid.IntRange(1, 4).Draw(t, "requests") {
			before = append(before, draw())
		}
		m := newMemory()
		m.see(slices.Clone(before)...)
		for n := range m.Known {
			k := &m.Known[n]
			switch rapid.IntRange(0, 12).Draw(t, "known") {
			case 0:
				k.Redacted = true
			case 1:
				k.Emptied = epoch
			case 2:
				k.Nameless = !k.Nameless
			case 3:
				k.Rules++
			case 4:
				k.Epoch = m.Insertion.Epoch
			case 5:
				k.CreatedAt = k.CreatedAt.Add(time.Hour)
			}
		}
		requests := slices.DeleteFunc(before, func(listings.ContactRequest) bool { return rapid.IntRange(0, 4).Draw(t, "gone") == 0 })
		if rapid.IntRange(0, 4).Draw(t, "new") == 0 {
			requests = append(requests, draw())
		}
		r := Response{Question: Ask("createdAt", "desc", 100), Requests: requests, Total: -1, List: true}
		s := m.poll.sight(m.Prior, r, m.at)
		got, all := unchanged(s, m.Known, requests)
		if !all {
			return
		}
		settled++
		want := diffContactRequests(s, m.Known, nil, identify(reference, requests, contactRules))
		if is, wanted := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); is != wanted {
			t.Fatalf("%s, and compared as a whole %s", is, wanted)
		}
	})
	if settled == 0 {
		t.Error("nothing was taken for unchanged")
	}
}
