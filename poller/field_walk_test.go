package poller_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// answersList answers every request for a page of the list: page counts from 0.
func (w *world) answersList(of func(page int) string) {
	w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		if c.Operation != sandbox.OperationInsertions {
			return &sandbox.Fault{Body: []byte(`{"contactRequests":[]}`)}
		}
		page := 0
		fmt.Sscan(c.Query.Get("page"), &page)
		return &sandbox.Fault{Body: []byte(of(page))}
	})
}

// flat is the record of an insertion with further members.
func flat(n int, members string) string {
	return fmt.Sprintf(`{"propertyReferenceId":"a#%d##"%s}`, n, members)
}

// flats are n records, from one on.
func flats(from, to int) (all []string) {
	for n := from; n < to; n++ {
		all = append(all, flat(n, ""))
	}
	return all
}

func results(records []string, beside string) string {
	return `{"results":[` + strings.Join(records, ",") + `]` + beside + `}`
}

func pageOf(records []string, page, size int) []string {
	return records[min(page*size, len(records)):min(page*size+size, len(records))]
}

// TestAnEmptyPageThatIsNotTheLastHidesNothing shows a list of 130 in which the third of seven pages is empty from some time
// on, and says in one of many ways that it is not the last.
func TestAnEmptyPageThatIsNotTheLastHidesNothing(t *testing.T) {
	forms := map[string]func(page, pages int) string{
		"last":       func(page, pages int) string { return fmt.Sprintf(`,"last":%t`, page >= pages-1) },
		"hasNext":    func(page, pages int) string { return fmt.Sprintf(`,"page":{"hasNext":%t}`, page < pages-1) },
		"totalPages": func(_, pages int) string { return fmt.Sprintf(`,"paging":{"totalPages":%d}`, pages) },
		"next as a token": func(page, pages int) string {
			return map[bool]string{true: `,"next":"eyJ"`, false: `,"next":null`}[page < pages-1]
		},
		"a relative link": func(page, pages int) string {
			if page < pages-1 {
				return fmt.Sprintf(`,"_links":{"next":{"href":"/insertions?page=%d"}}`, page+1)
			}
			return `,"_links":{}`
		},
		"a list of links": func(page, pages int) string {
			if page < pages-1 {
				return `,"links":[{"rel":"self","href":"?"},{"rel":"next","href":"?page=4"}]`
			}
			return `,"links":[]`
		},
		"total": func(int, int) string { return `,"total":130` },
	}
	for name, beside := range forms {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				var hole atomic.Bool
				all := flats(0, 130)
				w.answersList(func(page int) string {
					records := pageOf(all, page, 20)
					if hole.Load() && page == 2 {
						records = nil
					}
					return results(records, beside(page, 7))
				})
				w.options.PollInterval = 12 * time.Hour
				w.start()
				w.pass(10 * time.Minute)
				w.wants(w.log("A100"), events.TypeWatchBaselined)
				hole.Store(true)
				w.pass(2 * time.Hour)
				if walk := w.status("A100").LastWalk; walk.Complete || walk.Insertions < 100 && name != "total" {
					t.Errorf("%+v", walk)
				}
				hole.Store(false)
				w.pass(20 * time.Minute)
				if gone := count(w.log("A100"), events.TypeInsertionDisappeared); gone > 0 || !w.status("A100").LastWalk.Complete {
					t.Errorf("%d disappeared, %+v", gone, w.status("A100").LastWalk)
				}
			})
		})
	}
}

// TestAListWithoutAStableOrderMakesNothingVanish draws every page in an order of its own for half a day.
func TestAListWithoutAStableOrderMakesNothingVanish(t *testing.T) {
	long(t)
	random := rand.New(rand.NewPCG(6, 6))
	orders := map[string]func(all []string, page int) []string{
		"each page": func(all []string, _ int) []string {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return all
		},
		"ties": func(all []string, _ int) []string { // twenty of one score
			random.Shuffle(20, func(i, j int) { all[10+i], all[10+j] = all[10+j], all[10+i] })
			return all
		},
		"a replica that lags": func(all []string, page int) []string {
			return slices.Concat(all[page%7:], all[:page%7])
		},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				all := flats(0, 60)
				w.answersList(func(page int) string {
					return results(pageOf(order(slices.Clone(all), page), page, 20), "")
				})
				w.options.PollInterval, w.options.WalkInterval = 24*time.Hour, 10*time.Minute
				w.start()
				lasts := 12 * time.Hour
				if *rounds > 1 {
					lasts = time.Duration(*rounds) * 48 * time.Hour
				}
				w.pass(lasts)
				list := w.log("A100")
				if n := count(list, events.TypeInsertionDisappeared); n > 0 || count(list, events.TypeWatchGapDetected) == 0 {
					t.Errorf("%d disappeared, %d gaps", n, count(list, events.TypeWatchGapDetected))
				}
				if n := w.status("A100").Insertions; n < 55 {
					t.Errorf("%d of 60 are known", n)
				}
			})
		})
	}
}

// TestAListThatIsNotWholeMakesNothingVanish lacks four of nineteen and says so.
func TestAListThatIsNotWholeMakesNothingVanish(t *testing.T) {
	for _, beside := range []string{
		`,"incomplete_results":true`, `,"partial":true`, `,"warnings":["shard 3 did not answer"]`, `,"timed_out":true`,
		`,"_shards":{"total":5,"failed":1}`, `,"meta":{"truncated":true}`, `,"isComplete":false`, `,"status":"PARTIAL"`,
	} {
		t.Run(beside[2:], func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				var short atomic.Bool
				w.answersList(func(page int) string {
					switch {
					case page > 0:
						return `{"results":[]}`
					case short.Load():
						return results(flats(0, 15), beside)
					}
					return results(flats(0, 19), "")
				})
				w.options.PollInterval = 12 * time.Hour
				w.start()
				w.pass(10 * time.Minute)
				short.Store(true)
				w.pass(2 * time.Hour)
				w.wants(w.since("A100", 1), events.TypeWatchGapDetected)
			})
		})
	}
}

// TestAnEmptyListBesideAnErrorIsAFailure shows it for two days, longer than an empty list is held.
func TestAnEmptyListBesideAnErrorIsAFailure(t *testing.T) {
	for _, beside := range []string{
		`,"code":"LIMIT_EXCEEDED","message":"too many calls"`, `,"errorMessage":"index is rebuilt"`, `,"exceptionType":"Timeout"`,
		`,"faultString":"no backend"`, `,"messages":[{"severity":"ERROR","text":"try later"}]`, `,"errors":[{"id":7}]`,
		`,"status":"UNAVAILABLE"`, `,"meta":{"code":"E_QUOTA"}`,
	} {
		t.Run(beside[2:], func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				var broken atomic.Bool
				w.answersList(func(page int) string {
					switch {
					case broken.Load():
						return results(nil, beside)
					case page > 0:
						return `{"results":[],"code":"OK","messages":[],"errors":null}`
					}
					return results(flats(0, 19), "")
				})
				w.options.PollInterval, w.options.WalkInterval = 24*time.Hour, 30*time.Minute
				w.start()
				w.pass(30 * time.Minute)
				broken.Store(true)
				w.pass(48 * time.Hour)
				list := w.log("A100")
				if n := count(list, events.TypeInsertionDisappeared) + count(list, events.TypeWatchChangeHeld); n > 0 {
					t.Errorf("%v", list)
				}
				if count(list, events.TypeWatchStale)+count(list, events.TypeWatchSchemaDrifted) == 0 {
					t.Error("nothing says that the list fails")
				}
			})
		})
	}
}

// TestOneInsertionOfAnotherAgencyIsOdd has one record that names a partner, beside others that name the agency, in every form.
func TestOneInsertionOfAnotherAgencyIsOdd(t *testing.T) {
	for _, members := range []string{`,"agencyId":"B200"`, `,"agency_id":"b200"`, `,"agencyId":"X9","partner":true`} {
		t.Run(members[2:], func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.answersList(func(page int) string {
					if page > 0 {
						return `{"results":[]}`
					}
					var all []string
					for n := range 29 {
						all = append(all, flat(n, `,"agencyId":"A100"`))
					}
					return results(append(all, flat(29, members)), "")
				})
				w.start()
				w.pass(10 * time.Minute)
				w.wants(w.log("A100"), events.TypeWatchBaselined)
				if n := w.status("A100").Insertions; n != 30 {
					t.Errorf("%d of 30 are watched", n)
				}
			})
		})
	}
}

// TestAMemberThatChangesAtEachWalkIsNamedOnce has 20 insertions with a member that is another one at each reading, until it is
// still. A rate that is cut meanwhile is announced.
func TestAMemberThatChangesAtEachWalkIsNamedOnce(t *testing.T) {
	long(t)
	forms := map[string]struct{ path, text string }{
		"a signed address":   {"/picture", `,"picture":"https://img.example/%[3]d.jpg?sig=%[2]d"`},
		"a counter":          {"/stats/views", `,"stats":{"views":%[2]d,"of":"%[3]d"}`},
		"a list of pictures": {"/pictures", `,"pictures":[{"url":"https://img.example/%[3]d?%[2]d"}]`},
		"a time":             {"/renderedAt", `,"renderedAt":"2026-11-20T10:00:00.%09[2]dZ","no":%[3]d`},
	}
	for n, name := range slices.Sorted(maps.Keys(forms)) {
		if !inRound(n) {
			continue
		}
		form := forms[name]
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				var reading, rate, one atomic.Int64
				var still atomic.Bool
				w.answersList(func(page int) string {
					if page > 0 {
						return `{"results":[]}`
					}
					if !still.Load() {
						reading.Add(1)
					}
					var all []string
					for n := range 20 {
						value := reading.Load()
						if n == 0 {
							value += one.Load()
						}
						rent := int64(2000)
						if n < 3 {
							rent -= rate.Load()
						}
						all = append(all, flat(n, fmt.Sprintf(`,"rent":%d`+form.text, rent, value, n)))
					}
					return results(all, "")
				})
				w.options.PollInterval, w.options.WalkInterval = 24*time.Hour, 10*time.Minute
				w.start()
				w.pass(3 * time.Hour)
				list := w.log("A100")
				drifts := slices.DeleteFunc(slices.Clone(list), func(e told) bool { return e.Type != events.TypeWatchSchemaDrifted })
				if len(drifts) != 1 || drifts[0].body["change"] != "volatile" || !strings.Contains(drifts[0].body["found"].(string), form.path) {
					t.Fatalf("%d drifts: %v", len(drifts), drifts)
				}
				if n := count(list, events.TypeInsertionChanged); n > 80 {
					t.Errorf("%d changed", n)
				}
				if v := w.status("A100").Volatile; len(v) != 1 || v[0].Path != form.path {
					t.Errorf("status shows %+v", v)
				}
				before := len(list)
				changed := func(want int) {
					t.Helper()
					list := w.since("A100", before)
					if n := count(list, events.TypeInsertionChanged); n != want || len(list) != want {
						t.Errorf("%d changed of %d, want %d", n, len(list), want)
					}
				}
				rate.Store(100)
				w.pass(11 * time.Minute)
				rate.Store(200)
				w.pass(11 * time.Minute)
				changed(6)
				w.restart()
				w.pass(30 * time.Hour)
				changed(6)
				still.Store(true)
				w.pass(23 * time.Hour)
				if len(w.status("A100").Volatile) != 1 {
					t.Error("it is taken back before a day")
				}
				w.pass(4 * time.Hour)
				if v := w.status("A100").Volatile; len(v) != 0 {
					t.Errorf("after a day status shows %+v", v)
				}
				changed(6)
				one.Store(1)
				w.pass(30 * time.Minute)
				changed(7)
			})
		})
	}
}

// TestARateThatIsCutAgainAndAgainIsNeverVolatile cuts the rate of three flats of twenty at every walk.
func TestARateThatIsCutAgainAndAgainIsNeverVolatile(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(20)...)
		w.setMember("A100", references(20), "rent", same(2000))
		w.start()
		w.pass(10 * time.Minute)
		before := len(w.log("A100"))
		for n := range 6 {
			w.setMember("A100", references(20)[:3], "rent", same(1900-n))
			w.pass(5 * time.Minute)
		}
		list := w.since("A100", before)
		if n := count(list, events.TypeInsertionChanged); n != 18 || len(list) != 18 {
			t.Errorf("%d changed of %d, want 18", n, len(list))
		}
	})
}
