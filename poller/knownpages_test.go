package poller_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// lists is an API whose n-th walk shows what show says, on one page, and that has no contact requests.
type lists struct {
	show  func(walk int) []string
	walks atomic.Int64
}

func (l *lists) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `[]`
	if strings.Contains(r.URL.Path, "/insertions") {
		page := r.URL.Query().Get("page")
		if page == "" {
			l.walks.Add(1)
		}
		if page == "" || page == "1" {
			body = `[` + strings.Join(l.show(int(l.walks.Load())), ",") + `]`
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func listed(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`{"propertyReferenceId":"a#%d##","title":"x"}`, i))
	}
	return all
}

// withLists watches such an API for so many walks, and returns what is told once it is baselined.
func withLists(t *testing.T, walks int, show func(walk int) []string, test func(w *world, log []told)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		api := &lists{show: show}
		w.options.API.Transport = api
		w.start()
		for int(api.walks.Load()) < walks {
			w.pass(time.Second)
		}
		w.pass(time.Minute)
		test(w, w.log("A100"))
	})
}

func TestAPageThatComesBackAsItWasEndsAnAbsence(t *testing.T) {
	all := listed(8)
	withLists(t, 20, func(walk int) []string {
		if walk > 5 && walk%2 == 0 {
			return all[1:] // never twice in a row
		}
		return all
	}, func(w *world, log []told) {
		if n := count(log, events.TypeInsertionDisappeared); n > 0 {
			t.Errorf("%d disappeared that were never absent from two walks in a row", n)
		}
	})
}

func TestAPageThatComesBackAsItWasBringsItsInsertionsBack(t *testing.T) {
	all := listed(8)
	withLists(t, 16, func(walk int) []string {
		if walk > 5 && walk < 11 {
			return all[1:]
		}
		return all
	}, func(w *world, log []told) {
		gone, back := count(log, events.TypeInsertionDisappeared), count(log, events.TypeInsertionReappeared)
		if gone != 1 || back != 1 {
			t.Errorf("%d disappeared, %d reappeared: %v", gone, back, log)
		}
	})
}

func TestAKnownPageHidesNoChange(t *testing.T) {
	all := listed(8)
	withLists(t, 12, func(walk int) []string {
		now := append([]string(nil), all...)
		if walk > 6 {
			now[3] = strings.Replace(now[3], `"x"`, `"y"`, 1)
		}
		return now
	}, func(w *world, log []told) {
		if n := count(log, events.TypeInsertionChanged); n != 1 {
			t.Errorf("%d changes: %v", n, log)
		}
	})
}

// TestAKnownPageIsReadAgainWhenTheStreamWasToldOtherwise: another store has told of a change that the API took back before we
// looked. Every page is as it was.
func TestAKnownPageIsReadAgainWhenTheStreamWasToldOtherwise(t *testing.T) {
	all := listed(8)
	withLists(t, 6, func(int) []string { return all }, func(w *world, log []told) {
		w.imports(&events.InsertionChanged{
			Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: "a#3##", Episode: 1, Revision: 1,
			Record: []byte(strings.Replace(all[3], `"x"`, `"y"`, 1)),
		})
		w.pass(5 * time.Minute)
		var back []told
		for _, e := range w.log("A100") {
			if e.Type == events.TypeInsertionChanged && e.StoreID != "theother" {
				back = append(back, e)
			}
		}
		if len(back) != 1 || back[0].body["revision"] != 2.0 || !strings.Contains(string(back[0].Data), `"before":"y","after":"x"`) {
			t.Errorf("it told %v", back)
		}
	})
}

// TestWhatTheStreamTookForGoneIsToldAsBack: another store has told that an insertion disappeared, which the API lists.
func TestWhatTheStreamTookForGoneIsToldAsBack(t *testing.T) {
	all := listed(8)
	withLists(t, 6, func(int) []string { return all }, func(w *world, log []told) {
		w.imports(&events.InsertionDisappeared{
			Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: "a#3##", Episode: 1, LastSeenAt: time.Now(), WalksWithout: 2, Record: []byte(all[3]),
		})
		w.pass(30 * time.Minute)
		if back := count(w.log("A100"), events.TypeInsertionReappeared); back != 1 {
			t.Errorf("told %d times that it is back", back)
		}
	})
}

// TestWhatTheStreamWasToldAsBackIsToldAsGone: another store has seen it go and come back, and now the API withdraws it.
func TestWhatTheStreamWasToldAsBackIsToldAsGone(t *testing.T) {
	all := listed(8)
	var withdrawn atomic.Bool
	withLists(t, 6, func(int) []string {
		if withdrawn.Load() {
			return all[1:]
		}
		return all
	}, func(w *world, _ []told) {
		common := events.Common{AgencyID: "A100", ObservedAt: time.Now()}
		w.imports(
			&events.InsertionDisappeared{Common: common, PropertyReferenceID: "a#0##", Episode: 1, LastSeenAt: time.Now(), WalksWithout: 2, Record: []byte(all[0])},
			&events.InsertionReappeared{Common: common, PropertyReferenceID: "a#0##", Episode: 2, DisappearedAt: time.Now(), Record: []byte(all[0])},
		)
		w.pass(10 * time.Minute)
		withdrawn.Store(true)
		w.pass(30 * time.Minute)
		log := w.log("A100")
		gone, back := count(log, events.TypeInsertionDisappeared), count(log, events.TypeInsertionReappeared)
		if gone != 2 || back != 1 {
			t.Errorf("%d disappeared, %d reappeared, of which one each was imported: %v", gone, back, log)
		}
	})
}

// imports lets the stream hold what another store has published.
func (w *world) imports(list ...events.Payload) {
	w.t.Helper()
	var all []events.Event
	for n, p := range list {
		e, err := events.New(p)
		w.must(err)
		all = append(all, e.Stamp(uint64(n+1), time.Now(), "theother").WithSequence(uint64(n+1)))
	}
	last := all[len(all)-1]
	w.must(w.store.Import("A100", all, events.Cursor{Sequence: last.Sequence, ID: last.ID}))
}
