package poller_test

import (
	"math/rand/v2"
	"strconv"
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
	type form struct{ more, last string } // beside the records
	forms := map[string]form{
		"last":            {`,"last":false`, `,"last":true`},
		"hasNext":         {`,"page":{"hasNext":true}`, `,"page":{"hasNext":false}`},
		"totalPages":      {`,"paging":{"totalPages":7}`, `,"paging":{"totalPages":7}`},
		"next as a token": {`,"next":"eyJ"`, `,"next":null`},
		"a relative link": {`,"_links":{"next":{"href":"/insertions?page=$next"}}`, `,"_links":{}`},
		"a list of links": {`,"links":[{"rel":"self","href":"?"},{"rel":"next","href":"?page=$next"}]`, `,"links":[]`},
		"total":           {`,"total":130`, `,"total":130`},
	}
	inEachField(t, flatsNamed(130), forms, func(w *world, p *portal, form form) {
		hole := false
		p.pages = 20
		p.list = func(page int, records []string) fieldReply {
			beside := strings.ReplaceAll(form.more, "$next", strconv.Itoa(page+1))
			if page >= 7 {
				beside = form.last
			}
			if hole && page == 3 {
				records = nil
			}
			return results(records, beside)
		}
		w.options.PollInterval = 12 * time.Hour
		w.start()
		w.pass(10 * time.Minute)
		p.mustBaseline(130)
		p.change(func() { hole = true })
		w.pass(2 * time.Hour)
		if walk := w.status("A100").LastWalk; walk.Complete || walk.Insertions < 100 && form.more != form.last {
			w.t.Errorf("%+v", walk)
		}
		p.change(func() { hole = false })
		w.pass(20 * time.Minute)
		p.mustHaveNo(events.TypeInsertionDisappeared)
		if walk := w.status("A100").LastWalk; !walk.Complete {
			w.t.Errorf("%+v", walk)
		}
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
	inEachField(t, flatsNamed(60), orders, func(w *world, p *portal, order func([]string)) {
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
		p.mustHaveNo(events.TypeInsertionDisappeared)
		if n := w.status("A100").Insertions; n < 55 || count(p.log(), events.TypeWatchGapDetected) == 0 {
			w.t.Errorf("%d of 60 are known, gaps: %s", n, p.watch())
		}
	})
}
