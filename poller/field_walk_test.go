package poller_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// results writes a page of the list, with members beside the records.
func results(records []string, beside string) fieldReply {
	return fieldReply{body: `{"results":[` + strings.Join(records, ",") + `]` + beside + `}`}
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
	eachForm(t, forms, func(t *testing.T, beside func(page, pages int) string) {
		inField(t, flatsNamed(130), func(w *world, p *portal) {
			hole := false
			p.pages = 20
			p.list = func(page int, records []string) fieldReply {
				if hole && page == 3 {
					records = nil
				}
				return results(records, beside(page-1, 7))
			}
			w.options.PollInterval = 12 * time.Hour
			w.start()
			w.pass(10 * time.Minute)
			p.mustBaseline(130)
			p.change(func() { hole = true })
			w.pass(2 * time.Hour)
			if walk := w.status("A100").LastWalk; walk.Complete || walk.Insertions < 100 && beside(0, 7) != `,"total":130` {
				t.Errorf("%+v", walk)
			}
			p.change(func() { hole = false })
			w.pass(20 * time.Minute)
			p.mustCount(events.TypeInsertionDisappeared, 0)
			if walk := w.status("A100").LastWalk; !walk.Complete {
				t.Errorf("%+v", walk)
			}
		})
	})
}

// TestAListWithoutAStableOrderMakesNothingVanish draws every page in an order of its own for half a
// day.
func TestAListWithoutAStableOrderMakesNothingVanish(t *testing.T) {
	long(t)
	random := rand.New(rand.NewPCG(6, 6))
	shuffle := func(some []string) {
		random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	orders := map[string]func(all []string){
		"each page":           shuffle,
		"ties":                func(all []string) { shuffle(all[10:30]) }, // twenty of one score
		"a replica that lags": func(all []string) { first := all[0]; copy(all, all[1:]); all[len(all)-1] = first },
	}
	eachForm(t, orders, func(t *testing.T, order func([]string)) {
		inField(t, flatsNamed(60), func(w *world, p *portal) {
			p.pages = 20
			p.list = func(_ int, records []string) fieldReply {
				order(p.flats) // of the next page
				return results(records, "")
			}
			w.options.PollInterval, w.options.WalkInterval = 24*time.Hour, 10*time.Minute
			w.start()
			lasts := 12 * time.Hour
			if *rounds > 1 {
				lasts = time.Duration(*rounds) * 48 * time.Hour
			}
			w.pass(lasts)
			p.mustCount(events.TypeInsertionDisappeared, 0)
			if n := w.status("A100").Insertions; n < 55 || count(p.log(), events.TypeWatchGapDetected) == 0 {
				t.Errorf("%d of 60 are known, gaps: %s", n, p.watch())
			}
		})
	})
}

// besides are members beside the records of a list, once something is wrong.
func besides(members ...string) map[string]string {
	forms := map[string]string{}
	for _, m := range members {
		forms[m] = "," + m
	}
	return forms
}

// TestAListThatIsNotWholeMakesNothingVanish lacks four of nineteen and says so.
func TestAListThatIsNotWholeMakesNothingVanish(t *testing.T) {
	forms := besides(`"incomplete_results":true`, `"partial":true`, `"warnings":["shard 3 did not answer"]`,
		`"timed_out":true`, `"_shards":{"total":5,"failed":1}`, `"meta":{"truncated":true}`, `"isComplete":false`,
		`"status":"PARTIAL"`)
	eachForm(t, forms, func(t *testing.T, beside string) {
		inField(t, flatsNamed(19), func(w *world, p *portal) {
			w.options.PollInterval = 12 * time.Hour
			w.start()
			w.pass(10 * time.Minute)
			p.change(func() {
				p.list = func(page int, records []string) fieldReply {
					if page > 1 {
						return results(nil, "")
					}
					return results(records[:15], beside)
				}
			})
			w.pass(2 * time.Hour)
			w.wants(w.since("A100", 1), events.TypeWatchGapDetected)
		})
	})
}

// TestAnEmptyListBesideAnErrorIsAFailure shows it for two days, longer than an empty list is held.
func TestAnEmptyListBesideAnErrorIsAFailure(t *testing.T) {
	forms := besides(`"code":"LIMIT_EXCEEDED","message":"too many calls"`, `"errorMessage":"index is rebuilt"`,
		`"exceptionType":"Timeout"`, `"faultString":"no backend"`, `"messages":[{"severity":"ERROR","text":"try later"}]`,
		`"errors":[{"id":7}]`, `"status":"UNAVAILABLE"`, `"meta":{"code":"E_QUOTA"}`)
	eachForm(t, forms, func(t *testing.T, beside string) {
		inField(t, flatsNamed(19), func(w *world, p *portal) {
			p.list = func(page int, records []string) fieldReply {
				return results(records, `,"code":"OK","messages":[],"errors":null`)
			}
			w.options.PollInterval, w.options.WalkInterval = 48*time.Hour, 2*time.Hour
			w.start()
			w.pass(30 * time.Minute)
			p.mustBaseline(19)
			p.change(func() { p.list = func(int, []string) fieldReply { return results(nil, beside) } })
			w.pass(48 * time.Hour)
			p.mustCount(events.TypeInsertionDisappeared, 0)
			p.mustCount(events.TypeWatchChangeHeld, 0)
			if count(p.log(), events.TypeWatchStale)+count(p.log(), events.TypeWatchSchemaDrifted) == 0 {
				t.Error("nothing says that the list fails")
			}
		})
	})
}

// TestOneInsertionOfAnotherAgencyIsOdd has one record that names a partner, beside others that name
// the agency.
func TestOneInsertionOfAnotherAgencyIsOdd(t *testing.T) {
	forms := map[string]object{
		"agencyId":          {"agencyId": "B200"},
		"agency_id":         {"agencyId": absent, "agency_id": "b200"},
		"agencyId, partner": {"agencyId": "X9", "partner": true},
	}
	eachForm(t, forms, func(t *testing.T, odd object) {
		inField(t, flatsNamed(30), func(w *world, p *portal) {
			p.insertion = func(flat string, record object) {
				if record["agencyId"] = "A100"; flat == p.flats[29] {
					for name, v := range odd {
						record[name] = v
					}
				}
			}
			w.start()
			w.pass(10 * time.Minute)
			p.mustBaseline(30)
			p.mustBeCalm()
		})
	})
}

// TestAMemberThatChangesAtEachWalkIsNamedOnce has 20 insertions with a member that is another one
// at each reading, until it is still. A rate that is cut meanwhile is announced.
func TestAMemberThatChangesAtEachWalkIsNamedOnce(t *testing.T) {
	long(t)
	forms := map[string]struct {
		path  string
		value func(reading, flat int) object
	}{
		"a signed address": {"/picture", func(n, flat int) object {
			return object{"picture": fmt.Sprintf("https://img.example/%d.jpg?sig=%d", flat, n)}
		}},
		"a counter": {"/stats/views", func(n, flat int) object {
			return object{"stats": object{"views": n, "of": fmt.Sprint(flat)}}
		}},
		"a list of pictures": {"/pictures", func(n, flat int) object {
			return object{"pictures": []any{object{"url": fmt.Sprintf("https://img.example/%d?%d", flat, n)}}}
		}},
		"a time": {"/renderedAt", func(n, flat int) object {
			return object{"renderedAt": fmt.Sprintf("2026-11-20T10:00:00.%09dZ", n), "no": flat}
		}},
	}
	eachForm(t, forms, func(t *testing.T, form struct {
		path  string
		value func(reading, flat int) object
	},
	) {
		inField(t, flatsNamed(20), func(w *world, p *portal) {
			reading, cut, one, still := 0, 0, 0, false
			p.list = func(page int, records []string) fieldReply {
				if !still {
					reading++
				}
				return results(records, "")
			}
			p.insertion = func(flat string, record object) {
				n := 0
				fmt.Sscanf(flat, "a100#%d##", &n)
				if record["rent"] = 2000; n <= 3 {
					record["rent"] = 2000 - cut
				}
				value := reading
				if n == 1 {
					value += one
				}
				for name, v := range form.value(value, n) {
					record[name] = v
				}
			}
			w.options.PollInterval, w.options.WalkInterval = 24*time.Hour, 10*time.Minute
			w.start()
			w.pass(3 * time.Hour)
			p.mustCount(events.TypeWatchSchemaDrifted, 1)
			if watch := p.watch(); !strings.Contains(watch, "change=volatile") || !strings.Contains(watch, form.path) {
				t.Error(watch)
			}
			if n := count(p.log(), events.TypeInsertionChanged); n > 80 {
				t.Errorf("%d changed", n)
			}
			if v := w.status("A100").Volatile; len(v) != 1 || v[0].Path != form.path {
				t.Errorf("status shows %+v", v)
			}
			before := len(p.log())
			changed := func(want int) {
				t.Helper()
				list := w.since("A100", before)
				if n := count(list, events.TypeInsertionChanged); n != want || len(list) != want {
					t.Errorf("%d changed of %d, want %d", n, len(list), want)
				}
			}
			for range 2 {
				p.change(func() { cut += 100 })
				w.pass(11 * time.Minute)
			}
			changed(6)
			w.restart()
			w.pass(30 * time.Hour)
			changed(6)
			p.change(func() { still = true })
			w.pass(23 * time.Hour)
			if len(w.status("A100").Volatile) != 1 {
				t.Error("it is taken back before a day")
			}
			w.pass(4 * time.Hour)
			if v := w.status("A100").Volatile; len(v) != 0 {
				t.Errorf("after a day status shows %+v", v)
			}
			changed(6)
			p.change(func() { one = 1 })
			w.pass(30 * time.Minute)
			changed(7)
		})
	})
}
