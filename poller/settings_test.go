package poller_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// lead is a contact request of an API that is written by hand, member by member.
type lead map[string]any

// handmade serves the leads of each insertion as they are, by age in the order that was asked for, over
// the honest list of insertions.
func (w *world) handmade(leads func(reference string) []lead) {
	w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		if c.Operation != sandbox.OperationContactRequests {
			return nil
		}
		list := append([]lead{}, leads(c.Reference)...)
		if c.Query.Get("sortOrder") == "desc" {
			slices.Reverse(list)
		}
		body, err := json.Marshal(map[string]any{"deep": map[string]any{"leads": list}})
		if err != nil {
			panic(err)
		}
		return &sandbox.Fault{Body: body}
	})
}

func TestChangedSettingsOnAFullStoreAreNoEvent(t *testing.T) {
	for n, c := range []struct {
		name   string
		change func(*poller.Options)
	}{
		{"ignored fields of insertions", func(o *poller.Options) { o.IgnoreInsertion = []string{"/address", "/views"} }},
		{"ignored fields of contact requests", func(o *poller.Options) { o.IgnoreContact = []string{"/status", "/message"} }},
		{"another id", func(o *poller.Options) { o.IDFields = []string{"ticket"} }},
		{"ids in another order", func(o *poller.Options) { o.IDFields = []string{"ticket", "id"} }},
		{"no id", func(o *poller.Options) { o.IDFields = []string{"none"} }},
		{"path of contact requests", func(o *poller.Options) { o.API.ContactRequestsPath = "/deep/leads" }},
		{"path of insertions", func(o *poller.Options) { o.API.InsertionsPath = "/results" }},
		{"all at once", func(o *poller.Options) {
			o.IgnoreInsertion, o.IgnoreContact, o.IDFields = []string{"/address"}, []string{"/status"}, []string{"ticket"}
			o.API.ContactRequestsPath = "/deep/leads"
		}},
	} {
		if raced && c.name != "all at once" {
			continue
		}
		for k, ids := range []bool{true, false} {
			if c.name != "all at once" && !inRound(2*(n+k)) {
				continue
			}
			t.Run(fmt.Sprintf("%s, ids %v", c.name, ids), func(t *testing.T) {
				inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) { thereAndBack(w, ids, c.change) })
			})
		}
	}
}

// thereAndBack changes settings of a stopped daemon and back again, twice, while contact requests come in.
func thereAndBack(w *world, ids bool, change func(*poller.Options)) {
	w.publish("A100", references(4)...)
	var mu sync.Mutex
	leads := map[string][]lead{}
	add := func(reference string, n int, twin bool) {
		who := n
		if twin {
			who = n - 1
		}
		l := lead{"createdAt": time.Now().Truncate(time.Minute).UTC().Format(time.RFC3339), "score": n, "email": fmt.Sprintf("nora%d@example.org", who), "message": "x", "status": "NEW"}
		if twin {
			l["createdAt"] = leads[reference][len(leads[reference])-1]["createdAt"]
		}
		if ids {
			l["id"], l["ticket"] = 9007199254740993+n, fmt.Sprintf("T%d", n)
		}
		mu.Lock()
		defer mu.Unlock()
		leads[reference] = append(leads[reference], l)
	}
	w.handmade(func(reference string) []lead {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(leads[reference])
	})
	n, told := 0, 0
	more := func(twins bool) {
		for i := range 4 {
			r := references(4)[i]
			for k := range i {
				n++
				twin := twins && ids && k == i-1 && k > 0
				add(r, n, twin)
				told++
			}
		}
	}
	w.options.PollInterval, w.options.WalkInterval = 3*time.Minute, 5*time.Minute
	w.start()
	w.pass(10 * time.Minute)
	more(true)
	w.pass(10 * time.Minute)
	before := w.options
	for round := range 2 {
		for _, other := range []bool{true, false} {
			at := len(w.log("A100"))
			w.halt()
			w.options = before
			if other {
				change(&w.options)
			}
			w.start()
			w.pass(20 * time.Minute)
			if got := w.since("A100", at); len(got) != 0 {
				w.t.Fatalf("round %d, other settings %v: %v", round, other, got)
			}
			w.halt()
			more(other || slices.Contains(before.IDFields, "id")) // while the daemon is down
			w.pass(time.Hour)
			w.start()
			w.pass(20 * time.Minute)
			w.restart()
			w.pass(20 * time.Minute)
			if got := w.since("A100", at); count(got, events.TypeContactRequestCreated) != len(got) {
				w.t.Fatalf("round %d, other settings %v: %v", round, other, got)
			}
		}
	}
	all := w.log("A100")
	if _, named := announced(all)["T7"]; !named && ids && tickets(change) {
		w.t.Errorf("the other id was not taken: %v", announced(all))
	}
	for id, times := range announced(all) {
		if times != 1 {
			w.t.Errorf("%s was announced %d times", id, times)
		}
	}
	// A double click without an id is one; while no id is in use, so are those with one.
	if got := count(all, events.TypeContactRequestCreated); got > told || got < told-distinctTwins(leads) {
		w.t.Errorf("%d contact requests were announced of %d", got, told)
	}
}

// tickets says whether the other settings name another id first.
func tickets(change func(*poller.Options)) bool {
	var o poller.Options
	change(&o)
	return len(o.IDFields) > 0 && o.IDFields[0] == "ticket"
}

// distinctTwins counts contact requests that differ from another in nothing but their ids.
func distinctTwins(leads map[string][]lead) (n int) {
	for _, list := range leads {
		seen := map[string]bool{}
		for _, l := range list {
			if seen[l["email"].(string)] {
				n++
			}
			seen[l["email"].(string)] = true
		}
	}
	return n
}

func TestAnIdThatBecomesATextIsNoEvent(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		var text atomic.Bool
		w.handmade(func(reference string) (list []lead) {
			for n := range 5 {
				l := lead{"id": json.Number(fmt.Sprint(9007199254740992 + n)), "createdAt": "2026-11-20T09:00:00Z", "email": "nora@example.org", "message": reference}
				if text.Load() {
					l["id"] = fmt.Sprint(l["id"])
				}
				list = append(list, l)
			}
			return list
		})
		w.options.Announce = true
		w.start()
		w.pass(10 * time.Minute)
		all := w.log("A100")
		if ids := announced(all); len(ids) != 5 || count(all, events.TypeContactRequestCreated) != 10 {
			t.Fatalf("%v", all) // five ids under each of two insertions, which differ only above 2^53
		}
		text.Store(true)
		w.pass(10 * time.Minute)
		w.restart()
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", len(all)))
	})
}

func TestAnIdThatVanishesDoublesNothing(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", "a#1##", "a#2##", "a#3##")
				var gone atomic.Bool
				var more atomic.Int64
				begin := time.Now()
				w.handmade(func(reference string) (list []lead) {
					for n := range n + int(more.Load()) {
						l := lead{"id": fmt.Sprintf("c%d", n), "createdAt": begin.Add(time.Duration(n) * time.Minute).Format(time.RFC3339), "email": fmt.Sprintf("nora%d@example.org", n)}
						if gone.Load() {
							delete(l, "id")
						}
						list = append(list, l)
					}
					return list
				})
				w.start()
				w.pass(10 * time.Minute)
				all := w.log("A100")
				gone.Store(true)
				w.pass(10 * time.Minute)
				w.restart()
				w.pass(10 * time.Minute)
				w.wants(w.since("A100", len(all)))
				more.Store(1)
				w.pass(10 * time.Minute)
				if got := w.since("A100", len(all)); len(got) != 3 || count(got, events.TypeContactRequestCreated) != 3 || got[0].body["identity"] != "fingerprint" {
					t.Errorf("%v", got)
				}
			})
		})
	}
}

// TestAScoreOfAnySpellingIsNoNews knows by score what the event passes on as the score, wherever it changes alone.
func TestAScoreOfAnySpellingIsNoNews(t *testing.T) {
	for name, unusual := range map[string]any{"_score": "n\u00e4h", "s_core": "\x7f\u2028", "Score-": 1e30} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", "a#1##")
				var score atomic.Value
				begin := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
				w.handmade(func(string) []lead {
					if score.Load() == nil {
						return nil
					}
					return []lead{{"id": "c1", "createdAt": begin, "email": "nora@example.org", "note": unusual, name: score.Load(), "lead": lead{name: score.Load()}}}
				})
				w.start()
				w.pass(5 * time.Minute)
				score.Store("1")
				w.pass(5 * time.Minute)
				w.wants(w.since("A100", 1), events.TypeContactRequestCreated)
				if got := w.since("A100", 1)[0].body["score"]; got != "1" {
					t.Fatalf("passed on as the score: %v", got)
				}
				score.Store("2")
				w.pass(5 * time.Minute)
				w.wants(w.since("A100", 2))
			})
		})
	}
}

// TestDigestsOfOtherRulesAreRenewedWithoutAWord is an upgrade that makes other digests of equal records.
func TestDigestsOfOtherRulesAreRenewedWithoutAWord(t *testing.T) {
	bothRenderings(t, func(t *testing.T, r sandbox.Rendering) {
		inWorld(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
			w.publish("A100", "a#1##")
			w.start()
			w.pass(5 * time.Minute)
			ids := []string{w.write("A100", "a#1##", 0), w.write("A100", "a#1##", 0)}
			w.pass(5 * time.Minute)
			n := len(w.log("A100"))
			before := w.remembered("A100", "a#1##")
			w.must(w.store.Update(func(tx *store.Tx) error {
				for _, c := range before {
					c.Rules, c.Digest = c.Rules+1, store.Short{1}
					w.must(tx.PutContactRequests("A100", "a#1##", c))
				}
				return nil
			}))
			w.restart()
			w.pass(5 * time.Minute)
			w.wants(w.since("A100", n))
			if after := w.remembered("A100", "a#1##"); len(before) != 2 || !reflect.DeepEqual(after, before) {
				t.Errorf("remembered %v, renewed %v", before, after)
			}
			w.must(w.model.EditContactRequest(ids[0], func(c *sandbox.ContactRequest) { c.Status = "READ" }))
			w.pass(5 * time.Minute)
			w.wants(w.since("A100", n), events.TypeContactRequestChanged)
		})
	})
}

func (w *world) remembered(agency, reference string) (list []store.ContactRequest) {
	w.t.Helper()
	w.must(w.store.View(func(tx *store.Tx) error { list = tx.ContactRequests(agency, reference); return nil }))
	return list
}
