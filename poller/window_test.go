package poller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

func (s service) ask(q question) answer {
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
	return answer{
		requests: list[:min(len(list), s.most, q.NumberOfItemsPerPage)], asked: q.NumberOfItemsPerPage,
		sortBy: q.SortBy, descending: q.SortOrder == "desc", total: total,
	}
}

// TestAClosedWindowHidesNothing asks a service as a poll does. Whatever it caps and however it orders: where the window
// counts as closed, all that is newer than what was known, or than the start, has been shown.
func TestAClosedWindowHidesNothing(t *testing.T) {
	closed := map[verdict]int{}
	check := func(rt *rapid.T) {
		n := rapid.IntRange(0, 130).Draw(rt, "n")
		list := leads(rt, n)
		most := rapid.SampledFrom([]int{2, 7, 20, 25, 50, 100, 1000}).Draw(rt, "most")
		s := service{list: list, most: most, totals: rapid.Bool().Draw(rt, "totals"), ordered: rapid.IntRange(0, 2).Draw(rt, "ordered") > 0}
		sight := contactsSight{sight: sight{agencyID: "A100", at: epoch}, idField: "id", rules: newRules(nil, nil)}
		sight.insertion = store.Insertion{Reference: "a#b##", Start: epoch.Add(-time.Duration(rapid.IntRange(0, 2*n+1).Draw(rt, "start")) * time.Minute)}
		var before []store.ContactRequest
		if oldest := rapid.IntRange(0, n).Draw(rt, "known"); oldest > 0 && rapid.Bool().Draw(rt, "polled") {
			// What was known are the oldest ones, learned in a catch-up before this one.
			before = diffContactRequests(sight, nil, answer{requests: list[n-oldest:]}).puts
			sight.insertion.Polled, sight.insertion.Epoch = true, 1
		}
		mostReturned := rapid.SampledFrom([]int{0, most}).Draw(rt, "mostReturned")
		c, v, totals := newCatchUp(), open, false
		known, hidden := slices.Clone(before), rapid.IntRange(-1, 3).Draw(rt, "hidden")
		looked := sight.insertion.Start
		for _, k := range before {
			if k.CreatedAt.After(looked) {
				looked = k.CreatedAt
			}
		}
		step := func(q question) {
			a := s.ask(q)
			d := diffContactRequests(sight, known, a)
			totals = totals || a.total > len(a.requests)
			v = c.judge(circumstances{
				insertion: sight.insertion, known: known, start: sight.insertion.Start, looked: looked, most: mostReturned,
				totals: totals, larger: q.NumberOfItemsPerPage < 1000, hidden: hidden,
			}, a, d)
			known = append(known, d.puts...)
			mostReturned = max(mostReturned, len(a.requests))
		}
		for _, size := range windowSizes {
			if step(newestFirst(size)); v != open {
				break
			}
		}
		widest := windowSizes[len(windowSizes)-1]
		for _, q := range append([]question{oldestFirst(widest)}, byScore(widest)...) {
			if v == open {
				step(q)
			}
			if v == open && c.all() {
				v = closedShort
			}
		}
		closed[v]++
		if v == open || v == closedKnown {
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
			if c.shown[id] || ids[id] || r.CreatedAt.Before(sight.insertion.Start) {
				continue
			}
			if v == closedOverlap && !r.CreatedAt.After(newestKnown) {
				continue // of the same moment as a known one: the widest window finds it, once a day
			}
			rt.Errorf("closed (%s) with %s of %s unseen; %d in all, %d at most", v, id, r.CreatedAt, n, most)
		}
	}
	wanted := []verdict{closedOverlap, closedStart, closedEmpty, closedTotal, closedShort, closedReversed, open}
	missing := func(v verdict) bool { return closed[v] == 0 }
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
		{"newest first", circumstances{insertion: polled, hidden: -1, larger: true}, end{ordered: true, cut: true, hidden: 9}, true},
		{"no order, all shown", circumstances{insertion: polled, larger: true}, end{}, true},
		{"no order, cut, a larger one shows more", circumstances{insertion: polled, larger: true}, end{cut: true}, false},
		{"no order, cut, none is larger", circumstances{insertion: polled}, end{cut: true}, true},
		{"no order, more hidden than before", circumstances{insertion: polled, hidden: 2}, end{hidden: 3}, false},
		{"no order, nobody knows what was hidden", circumstances{insertion: polled, hidden: -1}, end{}, false},
		{"never polled", circumstances{}, end{ordered: true}, false},
		{"a window is open", circumstances{insertion: store.Insertion{Polled: true, OpenSince: epoch}}, end{ordered: true}, false},
	} {
		if got := c.s.settled(c.e); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
