package watch

import (
	"fmt"
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

func (s service) ask(q Question) Response {
	list := slices.Clone(s.list)
	if s.ordered && q.SortBy == "score" {
		slices.SortFunc(list, func(a, b listings.ContactRequest) int { return strings.Compare(a.ID("id"), b.ID("id")) })
	}
	if s.ordered && q.SortOrder == "asc" {
		slices.Reverse(list)
	}
	r := Response{Question: q, Requests: list[:min(len(list), s.most, q.NumberOfItemsPerPage)], Total: -1, List: true}
	if s.totals {
		r.Total = len(list)
	}
	return r
}

// questions are those of a catch-up, in their order.
var questions = []Question{
	Ask("createdAt", "desc", 100), Ask("createdAt", "desc", 1000), Ask("createdAt", "asc", 1000), Ask("score", "desc", 1000), Ask("score", "asc", 1000),
}

// catchUp queries a service until the window is closed; Open where nothing closes it.
func (m *memory) catchUp(s service) (closed Closed, w *Window) {
	w = NewWindow()
	for _, q := range questions {
		r := s.ask(q)
		m.poll.Totals = m.poll.Totals || r.Total > len(r.Requests) && len(r.Requests) > 0
		m.poll.Longest = max(m.poll.Longest, len(r.Requests))
		j := m.judge(w, r)
		if w = j.Window; j.Closed != Open {
			return j.Closed, w
		}
	}
	return Open, w
}

// TestAClosedWindowHidesNothing asks a service as a poll does. Whatever it caps and however it orders: where the window counts as closed,
// all that is newer than what was known, or than the start, has been shown.
func TestAClosedWindowHidesNothing(t *testing.T) {
	met := map[Closed]int{}
	check := func(rt *rapid.T) {
		n := rapid.IntRange(0, 130).Draw(rt, "n")
		list := leads(rt, n)
		s := service{
			list: list, most: rapid.SampledFrom([]int{10, 20, 25, 50, 100, 1000}).Draw(rt, "most"),
			totals: rapid.Bool().Draw(rt, "totals"), ordered: rapid.IntRange(0, 2).Draw(rt, "ordered") > 0,
		}
		m := newMemory()
		m.poll.Longest = rapid.SampledFrom([]int{0, s.most}).Draw(rt, "longest")
		m.Insertion.Start = epoch.Add(-time.Duration(rapid.IntRange(0, 2*n+1).Draw(rt, "start")) * time.Minute)
		if oldest := rapid.IntRange(0, n).Draw(rt, "known"); oldest > 0 && rapid.Bool().Draw(rt, "polled") {
			m.judge(NewWindow(), Response{Question: Ask("score", "desc", 1000), Requests: list[n-oldest:], Total: -1, List: true})
			m.Insertion.Polled, m.Insertion.Listed, m.Insertion.Epoch = true, true, 1
			if rapid.Bool().Draw(rt, "lowered") { // it showed more before
				m.poll.Longest = 1000
			}
		}
		before, start := slices.Clone(m.Known), m.Insertion.Start
		closed, _ := m.catchUp(s)
		if met[closed]++; closed == Open {
			return // given up, and reported
		}
		newest, oldest := time.Time{}, time.Time{}
		for _, k := range before {
			if k.CreatedAt.After(newest) {
				newest = k.CreatedAt
			}
		}
		for _, k := range m.Known {
			if oldest.IsZero() || k.CreatedAt.Before(oldest) {
				oldest = k.CreatedAt
			}
		}
		for _, r := range list {
			id := r.ID("id")
			if slices.ContainsFunc(m.Known, func(k store.ContactRequest) bool { return k.ID == id }) || r.CreatedAt.Before(start) {
				continue
			}
			if closed == ClosedOverlap && !r.CreatedAt.After(newest) {
				continue // of the same moment as a known one, or late
			}
			rt.Errorf("closed (%s) with %s of %s unseen; %d in all, %d at most", closed, id, r.CreatedAt, n, s.most)
		}
	}
	wanted := []Closed{ClosedOverlap, ClosedStart, ClosedNone, ClosedTotal, ClosedShort, ClosedReversed, Open}
	missing := func(c Closed) bool { return met[c] == 0 }
	for range 30 { // the rarest ends come in one of a hundred cases
		if rapid.Check(t, check); t.Failed() || !slices.ContainsFunc(wanted, missing) {
			return
		}
	}
	t.Errorf("not every end was met: %v", met)
}

func minutes(from, n int) (list []listings.ContactRequest) {
	for k := range n {
		list = append(list, person(fmt.Sprint("m", from+k), from+k, fmt.Sprint("P", from+k), "x"))
	}
	slices.Reverse(list)
	return list
}

// TestWhyAWindowCloses has one row for each of the rules, and rows that just miss them.
func TestWhyAWindowCloses(t *testing.T) {
	polled := func(n int) *memory {
		m := newMemory()
		m.see(minutes(0, n)...)
		return m
	}
	newest := func(list []listings.ContactRequest, total int) Response {
		return Response{Question: Ask("createdAt", "desc", 100), Requests: list, Total: total, List: true}
	}
	shuffled := func(list []listings.ContactRequest) []listings.ContactRequest { return append(list[1:], list[0]) }
	ofMinute0 := func(n int) (list []listings.ContactRequest) {
		for k := range n {
			list = append(list, person(fmt.Sprint("s", k), 0, fmt.Sprint("S", k), "x"))
		}
		return list
	}
	for name, c := range map[string]struct {
		m    *memory
		r    Response
		want Closed
	}{
		"none, and none known":                         {newMemory(), newest(nil, -1), ClosedNone},
		"none, but some are counted":                   {newMemory(), newest(nil, 3), Open},
		"none, but some are known":                     {polled(3), newest(nil, -1), ClosedSilent},
		"the total is shown, but may be of the page":   {newMemory(), newest(minutes(0, 20), 20), Open},
		"the last one was known":                       {polled(3), newest(minutes(2, 60), -1), ClosedOverlap},
		"the last one was not known":                   {polled(3), newest(minutes(3, 60), -1), Open},
		"the last one was known, others of its moment": {polled(1), newest(append(ofMinute0(19), minutes(0, 1)...), -1), Open},
		"it reaches behind the start":                  {newMemory(), newest(minutes(-61, 60), -1), ClosedStart},
		"it reaches the start":                         {newMemory(), newest(minutes(-60, 60), -1), Open},
		"nine of none known":                           {newMemory(), newest(minutes(0, 9), -1), ClosedShort},
		"nine, and one more is counted":                {newMemory(), newest(minutes(0, 9), 10), Open},
		"nine, and a known one is missing":             {polled(1), newest(minutes(1, 9), -1), Open},
		"as many as the longest":                       {newMemory(), newest(minutes(0, 20), -1), Open},
		"fewer than the longest":                       {newMemory(), newest(minutes(0, 19), -1), ClosedShort},
		"fewer than the longest, none of them known":   {polled(0), newest(minutes(0, 19), -1), Open},
		"fewer, above the known":                       {polled(3), newest(minutes(0, 19), -1), ClosedOverlap},
		"out of order, above some known":               {polled(3), newest(shuffled(minutes(0, 19)), -1), Open},
		"out of order, none of them new":               {polled(19), newest(shuffled(minutes(0, 19)), -1), ClosedShort},
		"out of order, nine":                           {polled(3), newest(shuffled(minutes(0, 9)), -1), ClosedShort},
		"out of order, fewer than the longest":         {newMemory(), newest(shuffled(minutes(0, 19)), -1), ClosedShort},
		"out of order, as many as the longest":         {newMemory(), newest(shuffled(minutes(0, 20)), -1), Open},
		"out of order, the last one was known":         {polled(20), newest(shuffled(minutes(0, 20)), -1), Open},
		"oldest first instead of newest first, capped": {polled(20), newest(reversed(minutes(0, 20)), -1), Open},
	} {
		t.Run(name, func(t *testing.T) {
			c.m.poll.Longest = 20
			if j := c.m.judge(NewWindow(), c.r); j.Closed != c.want {
				t.Errorf("closed %q, want %q", j.Closed, c.want)
			}
		})
	}
}

func reversed(list []listings.ContactRequest) []listings.ContactRequest {
	slices.Reverse(list)
	return list
}

func TestAListInNoOrderIsAGapOnce(t *testing.T) {
	m := newMemory()
	m.poll.Longest = 0
	s := service{list: reversed(minutes(0, 60)), most: 50} // oldest first, whatever is asked
	for round := range 3 {
		closed, w := m.catchUp(s)
		if closed != Open {
			if round == 0 || closed != ClosedUnordered {
				t.Errorf("round %d: closed %q", round, closed)
			}
			continue
		}
		e := GiveUp(m.poll, w, m.Prior, m.at)
		m.Insertion = e.Insertions[0]
		if round > 0 || len(e.Events) != 1 || e.Events[0].(*events.WatchGapDetected).Reached != 50 {
			t.Errorf("round %d: %v", round, e.Events)
		}
	}
}

func TestWhatIsOldAndWhatIsLive(t *testing.T) {
	begin := store.Agency{WatchStart: epoch}
	first := contactStart(begin) // 15 minutes before
	m := func(baseline bool) *memory {
		m := newMemory()
		m.Insertion = store.Insertion{Reference: reference, Start: first, Baseline: baseline}
		return m
	}
	zoneless := person(1, -134, "Zoneless", "x")
	zoneless.CreatedForm = listings.FormZoneless
	untimed := lead(`{"id":1,"lastName":"Untimed"}`)
	for name, c := range map[string]struct {
		m    *memory
		r    listings.ContactRequest
		live bool
	}{
		"just before the begin":                        {m(true), person(1, -14, "A", "x"), true},
		"long before the begin":                        {m(true), person(1, -16, "A", "x"), false},
		"without a zone":                               {m(true), zoneless, true},
		"without a time at the first poll":             {m(true), untimed, false},
		"without a time, of what came after the begin": {m(false), untimed, true},
	} {
		if got := len(c.m.see(c.r).Events) == 1 && !strings.Contains(name, "first poll"); got != c.live {
			t.Errorf("%s: live %t", name, got)
		}
	}
	late := m(true)
	late.see(person(1, -60*24, "Old", "x"))
	wants(t, late.see(person(1, -60*24, "Old", "x"), person(2, -60*23, "Late", "x")), "created 2")
	wants(t, late.see(person(1, -60*24, "Old", "x"), person(2, -60*23, "Late", "x"), person(3, -60*25, "Slides in", "x")))

	none := m(true)
	none.judge(NewWindow(), Response{Question: questions[0], Total: -1}) // 404, and the same as no first list
	wants(t, none.see(person(1, -60*24*9, "Old", "x"), person(2, 1, "New", "x")), "created 2")
	none = m(true)
	none.judge(NewWindow(), Response{Question: questions[0], Total: -1})
	wants(t, none.see(untimed), "created 1")
}

func TestWhatIsOlderThanTheRetentionIsOldWhereTheStoreWasLostOrSetBack(t *testing.T) {
	for name, c := range map[string]struct {
		state     store.Agency
		retention time.Duration
		want      []string
	}{
		"a store of its own":       {store.Agency{}, 24 * time.Hour, []string{"created 1", "created 2"}},
		"lost":                     {store.Agency{HeardUntil: epoch}, 24 * time.Hour, []string{"created 2"}},
		"set back":                 {store.Agency{SetBack: true}, 24 * time.Hour, []string{"created 2"}},
		"set back, kept forever":   {store.Agency{SetBack: true}, 0, []string{"created 1", "created 2"}},
		"set back, kept for years": {store.Agency{SetBack: true}, 9000 * time.Hour, []string{"created 1", "created 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory() // which looks 24 hours and a minute after epoch
			m.State, m.poll.Retention = c.state, c.retention
			wants(t, m.see(person(1, 0, "A", "x"), person(2, 2, "B", "x")), c.want...)
		})
	}
}

// TestWhatATotalCountsIsUnseen has contact requests without times, as many as were all there is before.
func TestWhatATotalCountsIsUnseen(t *testing.T) {
	for total, want := range map[int]Closed{-1: ClosedSteady, 12: ClosedSteady, 13: Open} {
		m := newMemory()
		m.poll.Longest, m.poll.Proved = 12, 12
		var list []listings.ContactRequest
		for n := range 12 {
			list = append(list, lead(fmt.Sprintf(`{"id":%d,"lastName":"P%d"}`, n, n)))
		}
		m.see(list...)
		m.Insertion.OpenSince = time.Time{}
		if j := m.judge(NewWindow(), Response{Question: questions[0], Requests: list, Total: total, List: true}); j.Closed != want {
			t.Errorf("a total of %d: closed %q, want %q", total, j.Closed, want)
		}
	}
}

func TestTheOtherEndMayShowTiesInAnyOrder(t *testing.T) {
	bothEnds := func(desc, asc []listings.ContactRequest) Closed {
		m := newMemory()
		m.poll.Longest = 12
		j := m.judge(NewWindow(), Response{Question: questions[0], Requests: desc, Total: -1, List: true})
		return m.judge(j.Window, Response{Question: questions[2], Requests: asc, Total: -1, List: true}).Closed
	}
	minute := func(at int) (list []listings.ContactRequest) {
		for n := range 6 {
			list = append(list, person(10*at+n, at, fmt.Sprint("P", at, n), "x"))
		}
		return list
	}
	first, second := minute(1), minute(2)
	if closed := bothEnds(slices.Concat(second, first), slices.Concat(first, second)); closed != ClosedReversed {
		t.Errorf("two minutes: closed %q", closed)
	}
	// Of one minute alone, a service that ignores the order shows the same.
	if closed := bothEnds(first, first); closed == ClosedReversed {
		t.Errorf("one minute: closed %q", closed)
	}
}

// TestAResponseThatIsJudgedAgainChangesNothing draws responses, and what was known before.
func TestAResponseThatIsJudgedAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMemory()
		m.Insertion.Start, m.Insertion.Baseline = epoch.Add(-10*time.Minute), rapid.Bool().Draw(rt, "baseline")
		r := Response{Question: Ask("createdAt", "desc", 50), Requests: leads(rt, rapid.IntRange(0, 20).Draw(rt, "n")), List: true}
		r.Total = rapid.SampledFrom([]int{-1, len(r.Requests)}).Draw(rt, "total")
		for n := range 3 {
			j := m.judge(NewWindow(), r)
			if j.Closed == Open {
				rt.Skip("asks on")
			}
			if n > 0 && !j.Empty() {
				rt.Fatalf("judged %d times: %+v", n+1, j.Effects)
			}
			if n == 0 && len(j.Insertions) == 0 {
				rt.Fatal("a first poll is not written")
			}
		}
	})
}

// TestTheStartMovesBackAfterTheFirstPoll has contact requests that the service shows late.
func TestTheStartMovesBackAfterTheFirstPoll(t *testing.T) {
	for hours, want := range map[int][]string{-47: {"created late"}, -49: nil} {
		m := newMemory()
		m.Insertion.Baseline, m.Insertion.Start = true, epoch
		wants(t, m.see())
		wants(t, m.see(person("late", hours*60, "Late", "x")), want...)
	}
}

func TestAClockThatWasAheadHidesNothingAfterTheFirstPoll(t *testing.T) {
	for name, first := range map[string][]listings.ContactRequest{"some": minutes(-90, 2), "none": nil} {
		m := newMemory()
		m.Insertion = store.Insertion{Reference: reference, Start: epoch.Add(72 * time.Hour), Baseline: true}
		wants(t, m.see(slices.Clone(first)...))
		m.poll.Newest = epoch.Add(-time.Hour) // of another insertion
		wants(t, m.see(append(slices.Clone(first), person("n1", 1, "N", "x"), person("n2", 2, "M", "x"))...), "created n1", "created n2")
		wants(t, m.see(append(slices.Clone(first), person("n2", 2, "M", "x"), person("n3", 3, "O", "x"))...), "created n3")
		if t.Failed() {
			t.Fatal(name)
		}
	}
}
