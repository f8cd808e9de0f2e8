package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/poller/listings"
)

// A comparison of ids and digests must give the same result as one of fingerprints.
func TestWhatIsTakenForUnchangedIsUnchanged(t *testing.T) {
	unchanged, settled := 0, 0
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
		c := &comparison{Poll: m.poll, Prior: m.Prior, at: m.at, view: viewOf(r, 100), fresh: map[string]time.Time{}}
		got, want := c.read(requests), make([]*found, len(requests))
		same := true
		for n, f := range got {
			want[n] = new(*f)
			want[n].known, want[n].unchanged = nil, false
			if same = same && f.unchanged; f.unchanged {
				unchanged++
			}
		}
		got, want = identify(reference, got, contactRules), identify(reference, want, contactRules)
		gotMissing, gotMoved := match(got, m.Known, c.view, contactRules.contactRequest)
		missing, moved := match(want, m.Known, c.view, contactRules.contactRequest)
		if gotMissing != missing || gotMoved != moved || len(got) != len(want) {
			t.Fatalf("%d and %d missing, moved %t and %t, %d and %d shown", gotMissing, missing, gotMoved, moved, len(got), len(want))
		}
		for n, f := range want {
			g := got[n]
			if g.known != f.known || g.moved != f.moved || g.id != f.id || g.nameless != f.nameless {
				t.Fatalf("%s is %+v, compared as a whole %+v", f.id, g, f)
			}
			if !same {
				continue
			}
			settled++
			if f.moved || moved {
				t.Fatalf("%s is %+v, compared as a whole %+v", f.id, g, f)
			}
			c.update(*f.known, f)
		}
		if same && (missing != len(c.Known)-len(got) || len(c.Events)+len(c.Contacts) != 0) {
			t.Fatalf("compared as a whole it changes %+v", c.Effects)
		}
	})
	if settled == 0 || unchanged == settled {
		t.Errorf("%d were taken for unchanged, %d in responses without news", unchanged, settled)
	}
}

// Which other member tells contact requests apart is seen only where there are several. Their ids
// and addresses change together later, as at a portal that moves behind a relay.
func TestAnUnchangedContactRequestIsRecognisedByAnotherMemberLater(t *testing.T) {
	message := func(id int, conversation, email string) listings.ContactRequest {
		return lead(fmt.Sprintf(`{"id":%d,"batchId":"p","conversationId":%q,"lastName":%[2]q,"email":%[3]q}`, id, conversation, email))
	}
	m := newMemory()
	m.Insertion.Polled, m.Insertion.Listed = true, true
	m.see(message(1, "c1", "a@x.example"))
	m.see(message(1, "c1", "a@x.example"), message(2, "c2", "b@x.example"))
	j := m.see(message(901, "c1", "relay-1@x.example"), message(902, "c2", "relay-2@x.example"))
	for _, e := range j.Events {
		if _, created := e.(*events.ContactRequestCreated); created {
			t.Errorf("announced again: %+v", e)
		}
	}
}
