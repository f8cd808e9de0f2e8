package watch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// service is a contact request service as a window sees it: capped, in order or not, with a total or not.
type service struct {
	list    []listings.ContactRequest // newest first
	most    int
	totals  bool
	ordered bool // false: sortBy and sortOrder are ignored
}

func (s service) ask(q Question) Answer {
	list := slices.Clone(s.list)
	if s.ordered && q.SortOrder == "asc" {
		slices.Reverse(list)
	}
	if s.ordered && q.SortBy == "score" {
		slices.SortFunc(list, func(a, b listings.ContactRequest) int { return strings.Compare(a.ID("id"), b.ID("id")) })
	}
	total := -1
	if s.totals {
		total = len(list)
	}
	return Answer{
		Requests: list[:min(len(list), s.most, q.NumberOfItemsPerPage)], Asked: q.NumberOfItemsPerPage,
		SortBy: q.SortBy, Descending: q.SortOrder == "desc", Total: total,
	}
}

// TestAClosedWindowHidesNothing asks a service as a poll does. Whatever it caps and however it orders: where the window
// counts as closed, all that is newer than what was known, or than the start, has been shown.
func TestAClosedWindowHidesNothing(t *testing.T) {
	closed := map[Verdict]int{}
	check := func(rt *rapid.T) {
		n := rapid.IntRange(0, 130).Draw(rt, "n")
		list := leads(rt, n)
		most := rapid.SampledFrom([]int{2, 7, 20, 25, 50, 100, 1000}).Draw(rt, "most")
		s := service{list: list, most: most, totals: rapid.Bool().Draw(rt, "totals"), ordered: rapid.IntRange(0, 2).Draw(rt, "ordered") > 0}
		sight := contactsObservation{Observation: Observation{AgencyID: "A100", At: epoch}, IDField: "id", Rules: NewRules(nil, nil)}
		sight.Insertion = store.Insertion{Reference: "a#b##", Start: epoch.Add(-time.Duration(rapid.IntRange(0, 2*n+1).Draw(rt, "start")) * time.Minute)}
		var before []store.ContactRequest
		if oldest := rapid.IntRange(0, n).Draw(rt, "known"); oldest > 0 && rapid.Bool().Draw(rt, "polled") {
			// What was known are the oldest ones, learned in a catch-up before this one.
			before = diffContactRequests(sight, nil, Answer{Requests: list[n-oldest:]}).Puts
			sight.Insertion.Polled, sight.Insertion.Epoch = true, 1
		}
		mostReturned := rapid.SampledFrom([]int{0, most}).Draw(rt, "mostReturned")
		c, v, totals := NewCatchUp(), Open, false
		known, hidden := slices.Clone(before), rapid.IntRange(-1, 3).Draw(rt, "hidden")
		looked := sight.Insertion.Start
		for _, k := range before {
			if k.CreatedAt.After(looked) {
				looked = k.CreatedAt
			}
		}
		step := func(q Question) {
			a := s.ask(q)
			d := diffContactRequests(sight, known, a)
			totals = totals || a.Total > len(a.Requests)
			v = c.judge(circumstances{
				Insertion: sight.Insertion, Known: known, Start: sight.Insertion.Start, Looked: looked, Most: mostReturned,
				Totals: totals, Larger: q.NumberOfItemsPerPage < 1000, Hidden: hidden,
			}, a, d)
			known = append(known, d.Puts...)
			mostReturned = max(mostReturned, len(a.Requests))
		}
		for _, size := range windowSizes {
			if step(NewestFirst(size)); v != Open {
				break
			}
		}
		widest := windowSizes[len(windowSizes)-1]
		for _, q := range append([]Question{OldestFirst(widest)}, ByScore(widest)...) {
			if v == Open {
				step(q)
			}
			if v == Open && c.All() {
				v = ClosedShort
			}
		}
		closed[v]++
		if v == Open || v == closedKnown {
			return // given up, and said; or nothing new in an order that cannot be checked
		}
		ids := map[string]bool{}
		for _, k := range before {
			ids[k.ID] = true
		}
		newestKnown := time.Time{}
		for _, r := range list {
			if ids[r.ID("id")] && r.CreatedAt.After(newestKnown) {
				newestKnown = r.CreatedAt
			}
		}
		for _, r := range list {
			id := r.ID("id")
			if c.Shown[id] || ids[id] || r.CreatedAt.Before(sight.Insertion.Start) {
				continue
			}
			if v == ClosedOverlap && !r.CreatedAt.After(newestKnown) {
				continue // of the same moment as a known one: the widest window finds it, once a day
			}
			rt.Errorf("closed (%s) with %s of %s unseen; %d in all, %d at most", v, id, r.CreatedAt, n, most)
		}
	}
	wanted := []Verdict{ClosedOverlap, closedStart, closedEmpty, closedTotal, ClosedShort, closedReversed, Open}
	missing := func(v Verdict) bool { return closed[v] == 0 }
	for range 30 { // the rarest ends come in one of a hundred cases
		if rapid.Check(t, check); t.Failed() || !slices.ContainsFunc(wanted, missing) {
			return
		}
	}
	t.Errorf("not every end was met: %v", closed)
}

func TestAnAnswerWithoutNewsAndOrderSettlesOnlyWhatItShows(t *testing.T) {
	polled := store.Insertion{Polled: true}
	for _, c := range []struct {
		name string
		s    circumstances
		e    end
		want bool
	}{
		{"newest first", circumstances{Insertion: polled, Hidden: -1, Larger: true}, end{Ordered: true, Cut: true, Hidden: 9}, true},
		{"no order, all shown", circumstances{Insertion: polled, Larger: true}, end{}, true},
		{"no order, cut, a larger one shows more", circumstances{Insertion: polled, Larger: true}, end{Cut: true}, false},
		{"no order, cut, none is larger", circumstances{Insertion: polled}, end{Cut: true}, true},
		{"no order, more hidden than before", circumstances{Insertion: polled, Hidden: 2}, end{Hidden: 3}, false},
		{"no order, nobody knows what was hidden", circumstances{Insertion: polled, Hidden: -1}, end{}, false},
		{"never polled", circumstances{}, end{Ordered: true}, false},
		{"a window is open", circumstances{Insertion: store.Insertion{Polled: true, OpenSince: epoch}}, end{Ordered: true}, false},
	} {
		if got := c.s.settled(c.e); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestTheEndOfAGapNamesItsOperationAndInsertion(t *testing.T) {
	full := store.Alarm{AlarmID: AlarmOf(WindowFull, "contact_requests", "a#b##"), Since: epoch}
	prior := Prior{
		Insertion: store.Insertion{Reference: "a#b##", Polled: true, OpenSince: epoch, Start: epoch},
		Alarms:    Alarms{full.AlarmID: full},
	}
	p := Poll{AgencyID: "A100", Rules: NewRules(nil, nil), CatchUp: NewCatchUp()}
	j := Judge(p, prior, Answer{Identified: true, SortBy: "createdAt", Descending: true, Asked: 20}, epoch.Add(time.Hour))
	if len(j.Events) != 1 || len(j.Cleared) != 1 {
		t.Fatalf("%+v", j)
	}
	e, is := j.Events[0].(*events.WatchRecovered)
	if !is || e.Ends != gap || e.Operation != "contact_requests" || e.PropertyReferenceID != "a#b##" || !e.Since.Equal(epoch) {
		t.Errorf("%+v", j.Events[0])
	}
}
