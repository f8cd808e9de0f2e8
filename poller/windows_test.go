package poller_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// kept is a contact request as a hostile service keeps it.
type kept struct {
	ID        string
	created   time.Time
	score     int
	reference string
}

// hostile is a service of contact requests with habits of its own. The zero value is honest, without totals.
type hostile struct {
	most    int                                        // shows no more at once; 0: any number
	refuse  func(size int) bool                        // numbers that are answered with 400; 0 is none
	order   func(sortBy, sortOrder string, l []kept)   // its own order, from newest first
	total   func(all, shown int) int                   // what it tells beside
	written func(kept) any                             // createdAt as it writes it
	fault   func(c sandbox.Call, n int) *sandbox.Fault // n counts the calls, from 1
	gaps    int                                        // how many may be told; 0: one an insertion

	mu    sync.Mutex
	leads map[string][]kept
	made  int
	shown map[string]bool
	asked []question
	calls int
}

type question struct {
	at        time.Time
	reference string
	size      string
	order     string
}

func (h *hostile) take(w *world) {
	h.leads, h.shown = map[string][]kept{}, map[string]bool{}
	w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		if c.Operation != sandbox.OperationContactRequests {
			return nil
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls++
		h.asked = append(h.asked, question{time.Now(), c.Reference, c.Query.Get("numberOfItemsPerPage"), c.Query.Get("sortBy") + c.Query.Get("sortOrder")})
		if h.fault != nil {
			if f := h.fault(c, h.calls); f != nil {
				return f
			}
		}
		return h.answer(c)
	})
}

func (h *hostile) answer(c sandbox.Call) *sandbox.Fault {
	size, err := strconv.Atoi(c.Query.Get("numberOfItemsPerPage"))
	if h.refuse != nil && h.refuse(size) {
		return &sandbox.Fault{Status: http.StatusBadRequest, Body: []byte(`{"message":"bad request"}`)}
	}
	if err != nil {
		size = 10
	}
	list := slices.Clone(h.leads[c.Reference])
	slices.SortStableFunc(list, func(a, b kept) int { return b.created.Compare(a.created) })
	order := h.order
	if order == nil {
		order = honest
	}
	order(c.Query.Get("sortBy"), c.Query.Get("sortOrder"), list)
	if h.most > 0 {
		size = min(size, h.most)
	}
	records := []any{}
	for _, l := range list[:min(size, len(list))] {
		created := any(l.created.UTC().Format("2006-01-02T15:04:05.000Z"))
		if h.written != nil {
			created = h.written(l)
		}
		records = append(records, map[string]any{"id": l.ID, "createdAt": created, "score": l.score, "email": l.ID + "@example.org"})
		h.shown[l.ID] = true
	}
	body := map[string]any{"items": records}
	if h.total != nil {
		body["totalNumberOfItems"] = h.total(len(list), len(records))
	}
	text, _ := json.Marshal(body)
	return &sandbox.Fault{Body: text}
}

func honest(sortBy, sortOrder string, list []kept) {
	if sortBy == "score" {
		slices.SortStableFunc(list, func(a, b kept) int { return cmp.Compare(b.score, a.score) })
	}
	if sortOrder == "asc" {
		slices.Reverse(list)
	}
}

// add makes contact requests of an age, one a millisecond, and returns their ids.
func (h *hostile) add(reference string, n int, age time.Duration) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for k := range n {
		h.made++
		l := kept{ID: fmt.Sprintf("kept%d", h.made), created: time.Now().Add(-age - time.Duration(n-k)*time.Millisecond), score: h.made * 7919 % 101, reference: reference}
		h.leads[reference] = append(h.leads[reference], l)
		ids = append(ids, l.ID)
	}
	return ids
}

// perPoll is how many requests a poll took on average since a moment.
func (h *hostile) perPoll(since time.Time) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	polls, requests, last := 0, 0, map[string]time.Time{}
	for _, q := range h.asked {
		if q.at.Before(since) {
			continue
		}
		requests++
		if q.at.Sub(last[q.reference]) > 30*time.Second {
			polls++
		}
		last[q.reference] = q.at
	}
	return float64(requests) / float64(max(1, polls))
}

// judge holds the log against what was shown: every id of live that an answer showed is announced once, nothing else is,
// and where some were not shown an event says so.
func (h *hostile) judge(w *world, live []string) {
	w.t.Helper()
	log := w.log("A100")
	got, gaps := announced(log), count(log, events.TypeWatchGapDetected)
	h.mu.Lock()
	defer h.mu.Unlock()
	unseen := 0
	for _, id := range live {
		switch {
		case !h.shown[id]:
			unseen++
		case got[id] != 1:
			w.t.Errorf("%s was shown and announced %d times", id, got[id])
		}
	}
	for id, n := range got {
		if !slices.Contains(live, id) || n != 1 {
			w.t.Errorf("%s is no news and announced %d times", id, n)
		}
	}
	if unseen > 0 && gaps == 0 {
		w.t.Errorf("%d of %d were never shown, and no event says so", unseen, len(live))
	}
	if gaps > max(2, h.gaps) { // one an insertion
		w.t.Errorf("%d gaps told", gaps)
	}
}

var hostiles = map[string]func() *hostile{
	"honest":                    func() *hostile { return &hostile{} },
	"honest with totals":        func() *hostile { return &hostile{total: func(all, _ int) int { return all }} },
	"capped at 50":              func() *hostile { return &hostile{most: 50} },
	"capped at 20":              func() *hostile { return &hostile{most: 20} },
	"capped at 20, with totals": func() *hostile { return &hostile{most: 20, total: func(all, _ int) int { return all }} },
	"capped at 7":               func() *hostile { return &hostile{most: 7} },
	"capped at 7, total of page": func() *hostile {
		return &hostile{most: 7, total: func(_, shown int) int { return shown }}
	},
	"refuses above 50":        func() *hostile { return &hostile{refuse: func(n int) bool { return n > 50 }} },
	"refuses above 10":        func() *hostile { return &hostile{refuse: func(n int) bool { return n > 10 }} },
	"refuses any number":      func() *hostile { return &hostile{refuse: func(n int) bool { return n > 0 }} },
	"total of something else": func() *hostile { n := 0; return &hostile{total: func(int, int) int { n += 3; return n }} },
	"total of the page":       func() *hostile { return &hostile{total: func(_, shown int) int { return shown }} },
	"oldest first":            func() *hostile { return &hostile{order: func(_, _ string, l []kept) { slices.Reverse(l) }} },
	"oldest first, capped 20": func() *hostile { return &hostile{most: 20, order: func(_, _ string, l []kept) { slices.Reverse(l) }} },
	"by score":                func() *hostile { return &hostile{order: func(_, _ string, l []kept) { honest("score", "desc", l) }} },
	"random":                  func() *hostile { return &hostile{order: shuffle} },
	"random, capped at 20":    func() *hostile { return &hostile{most: 20, order: shuffle} },
	"takes no order but its own": func() *hostile {
		return &hostile{fault: func(c sandbox.Call, _ int) *sandbox.Fault {
			if c.Query.Get("sortOrder") != "desc" || c.Query.Get("sortBy") != "createdAt" {
				return &sandbox.Fault{Status: 422}
			}
			return nil
		}}
	},
	"times unreadable":  func() *hostile { return &hostile{written: func(kept) any { return "kürzlich" }} },
	"no zone":           func() *hostile { return &hostile{written: in("Europe/Zurich", "2006-01-02T15:04:05")} },
	"hours ahead":       func() *hostile { return &hostile{written: ahead(3 * time.Hour)} },
	"hours behind":      func() *hostile { return &hostile{written: ahead(-30 * time.Minute)} },
	"whole minutes":     func() *hostile { return &hostile{written: in("UTC", "2006-01-02T15:04Z07:00")} },
	"one in the future": func() *hostile { return &hostile{written: oneInTheFuture, order: futureFirst} },
}

func shuffle(_, _ string, l []kept) {
	rand.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
}

func in(zone, layout string) func(kept) any {
	z, _ := time.LoadLocation(zone)
	return func(l kept) any { return l.created.In(z).Format(layout) }
}

func ahead(d time.Duration) func(kept) any {
	return func(l kept) any { return l.created.Add(d).UTC().Format(time.RFC3339Nano) }
}

func oneInTheFuture(l kept) any {
	if l.ID == "kept34" { // the first of the live ones
		return "2099-01-01T00:00:00Z"
	}
	return l.created.UTC().Format(time.RFC3339Nano)
}

// futureFirst sorts as oneInTheFuture writes.
func futureFirst(sortBy, sortOrder string, l []kept) {
	if sortBy == "createdAt" {
		slices.SortStableFunc(l, func(a, b kept) int {
			switch {
			case a.ID == "kept34":
				return -1
			case b.ID == "kept34":
				return 1
			}
			return 0
		})
	}
	honest(sortBy, sortOrder, l)
}

func TestNoServiceLosesALeadInSilenceOrIsAskedInVain(t *testing.T) {
	for n, name := range slices.Sorted(maps.Keys(hostiles)) {
		if raced && n%8 != 0 || !raced && !inRound(n) {
			continue
		}
		make := hostiles[name]
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				h := make()
				h.take(w)
				w.publish("A100", "a#1##", "a#2##")
				h.add("a#1##", 30, 10*24*time.Hour)
				h.add("a#2##", 3, 10*24*time.Hour)
				w.options.PollInterval, w.options.WalkInterval = 10*time.Minute, 2*time.Hour
				w.start()
				w.pass(2 * time.Hour)
				live := h.add("a#1##", 1, 0)
				live = append(live, h.add("a#2##", 2, 0)...)
				w.pass(2*time.Hour + time.Second)
				live = append(live, h.add("a#1##", 45, 0)...)
				w.pass(time.Hour)
				h.judge(w, live)
				live = append(live, h.add("a#1##", 1, 150*time.Minute)...) // late: sorts below the 45
				w.pass(26 * time.Hour)
				// What a false total counts is looked for in vain after waits that double and are jittered, anew after each find: it settles.
				settles := func(when string) {
					t.Helper()
					perPoll := 0.0
					for range 4 {
						began := time.Now()
						w.pass(7 * time.Hour)
						if perPoll = h.perPoll(began); perPoll <= 1.03 {
							t.Logf("%.2f requests a poll, %s", perPoll, when)
							return
						}
						if name != "total of something else" {
							break
						}
					}
					t.Errorf("%.2f requests a poll without news, %s", perPoll, when)
				}
				settles("in the first process")
				w.restart()
				w.pass(30 * time.Minute)
				settles("after a restart")
				live = append(live, h.add("a#1##", 2, 0)...)
				w.restart()
				w.pass(time.Hour)
				h.judge(w, live)
			})
		})
	}
}

func gapsOf(list []told) (gaps []told) {
	for _, e := range list {
		if e.Type == events.TypeWatchGapDetected {
			gaps = append(gaps, e)
		}
	}
	return gaps
}

func TestWhatIsMissedOfAFloodIsAllThatIsMissedAndToldOnce(t *testing.T) {
	for i, n := range []int{49, 50, 51, 99, 100, 150, 500} {
		for j, c := range []struct {
			known  int
			totals bool
		}{{1, false}, {1, true}, {400, false}, {400, true}} {
			if raced && n != 150 || !raced && !inRound(j+3*i) { // each number of leads once in a round
				continue
			}
			known, totals := c.known, c.totals
			t.Run(fmt.Sprintf("%d after %d, totals %t", n, known, totals), func(t *testing.T) {
				inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
					h := &hostile{most: 50}
					if totals {
						h.total = func(all, _ int) int { return all }
					}
					h.take(w)
					w.publish("A100", "a#1##")
					h.add("a#1##", known, 10*24*time.Hour)
					w.start()
					w.pass(20 * time.Minute)
					n0, began := len(w.log("A100")), time.Now()
					live := h.add("a#1##", n, 0)
					w.pass(30 * time.Minute)
					w.restart()
					w.pass(30 * time.Minute)
					h.judge(w, live)
					gaps := gapsOf(w.since("A100", n0))
					if n < 50 && len(gaps) != 0 || n >= 150 && len(gaps) != 1 || len(gaps) > 1 {
						t.Fatalf("gaps: %v", gaps)
					}
					if len(gaps) == 0 {
						if got := announced(w.log("A100")); len(got) != n {
							t.Errorf("%d of %d announced, and no gap told", len(got), n)
						}
						return
					}
					judgeGap(t, h, gaps[0], began, known+n)
				})
			})
		}
	}
}

func judgeGap(t *testing.T, h *hostile, gap told, began time.Time, all int) {
	t.Helper()
	reached := 0
	unseen := []time.Time{}
	h.mu.Lock()
	defer h.mu.Unlock()
	since := map[string]bool{}
	for _, q := range h.asked {
		since[q.order] = since[q.order] || q.at.After(began)
	}
	for _, l := range h.leads["a#1##"] {
		if h.shown[l.ID] {
			reached++
		} else if l.created.After(began.Add(-time.Minute)) {
			unseen = append(unseen, l.created)
		}
	}
	if len(since) != 4 {
		t.Errorf("asked in %d orders, of 4 documented", len(since))
	}
	if got := int(gap.body["reached"].(float64)); got > reached || got < 50 {
		t.Errorf("reached %d, of %d that were ever shown", got, reached)
	}
	if total, ok := gap.body["total"]; (h.total != nil) != ok || ok && total != float64(all) {
		t.Errorf("total: %v, want %d", total, all)
	}
	from, _ := time.Parse(time.RFC3339, fmt.Sprint(gap.body["from"]))
	to, _ := time.Parse(time.RFC3339, fmt.Sprint(gap.body["to"]))
	for _, at := range unseen {
		if at.Before(from) || at.After(to.Add(time.Millisecond)) {
			t.Fatalf("unseen at %s, the gap is from %s to %s", at, from, to)
		}
	}
	if from.After(to) || to.After(began.Add(time.Second)) {
		t.Errorf("gap from %s to %s, the flood ended at %s", from, to, began)
	}
}

func TestNoFailureOrKillInACatchUpLosesALead(t *testing.T) {
	ways := map[string]sandbox.Fault{
		"times out": {Delay: 2 * time.Minute}, "fails": {Status: 500}, "is cut": {Cut: 0.7}, "hangs up": {Cut: -1},
	}
	for n, way := range slices.Sorted(maps.Keys(ways)) {
		fault := ways[way]
		for _, most := range []int{0, 100} {
			for k := 1; k <= 8; k++ {
				if raced && k%8 != 1 || !raced && !inRound(k+n+most/50) {
					continue
				}
				t.Run(fmt.Sprintf("request %d of a service with cap %d %s", k, most, way), func(t *testing.T) {
					inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
						h := &hostile{most: most}
						var live []string
						calls, failed := 0, make(chan struct{}, 1)
						armed := false
						h.fault = func(sandbox.Call, int) *sandbox.Fault {
							if !armed {
								return nil
							}
							if calls++; calls != k {
								return nil
							}
							failed <- struct{}{}
							f := fault
							if f.Cut > 0 {
								f.Body = []byte(fmt.Sprintf(`{"items":[%400s`, " "))
							}
							return &f
						}
						h.take(w)
						w.publish("A100", "a#1##")
						h.add("a#1##", 30, 10*24*time.Hour)
						w.start()
						w.pass(3 * time.Minute)
						h.mu.Lock()
						armed = true
						h.mu.Unlock()
						live = h.add("a#1##", 260, 0)
						killed := false
						for range 40 { // something arrives all the time; when the fault strikes, the process is killed
							w.pass(3 * time.Second)
							live = append(live, h.add("a#1##", 1, 0)...)
							select {
							case <-failed:
								w.restart()
								killed = true
							default:
							}
						}
						w.pass(15 * time.Minute)
						if !killed && k < 6 {
							t.Error("the fault did not strike")
						}
						h.judge(w, live)
						if most == 0 && len(announced(w.log("A100"))) != len(live) {
							t.Errorf("%d of %d announced", len(announced(w.log("A100"))), len(live))
						}
					})
				})
			}
		}
	}
}

func TestAReplicaThatIsBehindClosesNoWindow(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		h := &hostile{}
		behind := 0
		h.order = func(sortBy, sortOrder string, l []kept) {
			if behind--; behind == 0 { // the second answer of the catch-up is from before the flood
				slices.SortStableFunc(l, func(a, b kept) int {
					return cmp.Compare(len(a.ID)/7, len(b.ID)/7) // kept1 … kept99 before kept100
				})
				return
			}
			honest(sortBy, sortOrder, l)
		}
		h.take(w)
		w.publish("A100", "a#1##")
		h.add("a#1##", 99, 10*24*time.Hour)
		w.start()
		w.pass(20 * time.Minute)
		h.mu.Lock()
		behind = 2
		h.mu.Unlock()
		live := h.add("a#1##", 70, 0)
		w.pass(30 * time.Minute)
		h.judge(w, live)
		if got := announced(w.log("A100")); len(got) != len(live) {
			t.Errorf("%d of %d announced", len(got), len(live))
		}
	})
}

func TestATotalInAHeaderThatGrowsIsHeard(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		h := &hostile{}
		h.fault = func(c sandbox.Call, _ int) *sandbox.Fault {
			f := h.answer(c)
			f.Header = http.Header{"X-Total-Count": {strconv.Itoa(len(h.leads[c.Reference]))}}
			return f
		}
		h.take(w)
		w.publish("A100", "a#1##")
		h.add("a#1##", 30, 10*24*time.Hour)
		w.start()
		w.pass(10 * time.Minute)
		h.add("a#1##", 25, 0)
		w.pass(20 * time.Minute)
		late := h.add("a#1##", 1, 5*time.Hour) // sorts below the smallest window, which stays as it is
		w.pass(10 * time.Minute)
		if got := announced(w.log("A100")); got[late[0]] != 1 {
			t.Errorf("the late one: %v", got)
		}
	})
}

func TestWhatALargerWindowFailedToShowIsFoundSoonAfterItIsAnsweredAgain(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		for n := range 3 {
			w.write("A100", "a#1##", time.Duration(n+1)*24*time.Hour)
		}
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if size, _ := strconv.Atoi(c.Query.Get("numberOfItemsPerPage")); c.Operation == sandbox.OperationContactRequests && size > 20 {
				return &sandbox.Fault{Status: http.StatusInternalServerError}
			}
			return nil
		})
		for n := range 60 {
			w.write("A100", "a#1##", time.Duration(n)*time.Second)
		}
		w.pass(90 * time.Minute)
		if n := len(announced(w.log("A100"))); n < 20 || n == 60 {
			t.Fatalf("%d announced while larger windows fail", n)
		}
		if n := count(w.log("A100"), events.TypeWatchGapDetected); n != 1 {
			t.Errorf("%d gaps are told, want that of the window: %v", n, w.log("A100"))
		}
		w.model.SetFault(nil)
		w.pass(70 * time.Minute)
		if n := len(announced(w.log("A100"))); n != 60 {
			t.Errorf("%d of 60 announced", n)
		}
	})
}
