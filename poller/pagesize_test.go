package poller_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// sizes notes which page sizes walks begin with.
type sizes struct {
	mu    sync.Mutex
	began []string
	fault func(size string, q url.Values) *sandbox.Fault
}

func (s *sizes) watch(w *world) {
	w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		if c.Operation != "insertions" {
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		size := c.Query.Get("pageSize")
		if !c.Query.Has("page") {
			s.began = append(s.began, size)
		}
		if s.fault != nil {
			return s.fault(size, c.Query)
		}
		return nil
	})
}

func (s *sizes) fail(fault func(size string, q url.Values) *sandbox.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// take returns what was noted since the last time.
func (s *sizes) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.began = nil }()
	return strings.Join(s.began, " ")
}

// runs is take with repetitions left out.
func (s *sizes) runs() string {
	return strings.Join(slices.Compact(strings.Fields(s.take())), " ")
}

// inPages runs a test with an agency of so many insertions, and pages that may be so large.
func inPages(t *testing.T, insertions, most int, test func(*world, *sizes)) {
	t.Helper()
	rendering := sandbox.Flat()
	rendering.MaxPageSize = most
	inPagesOf(t, insertions, rendering, test)
}

func inPagesOf(t *testing.T, insertions int, rendering sandbox.Rendering, test func(*world, *sizes)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, rendering, []string{"A100"}, func(w *world) {
		for n := range insertions {
			w.publish("A100", fmt.Sprintf("a#%03d##", n))
		}
		s := &sizes{}
		s.watch(w)
		w.options.RequestsPerSecond, w.options.PollInterval = 100, 100*24*time.Hour
		w.options.WalkInterval = 3 * time.Hour
		w.start()
		test(w, s)
		if n := count(w.log("A100"), events.TypeInsertionDisappeared); n != 0 {
			t.Errorf("%d disappeared, and all are there", n)
		}
		w.wants(w.log("A100"), events.TypeWatchBaselined)
		if got := w.status("A100").LastWalk; !got.Complete || got.Insertions != insertions {
			t.Errorf("last walk %+v", got)
		}
	})
}

func TestLargerPagesAreTriedOneByOneAfterTheBaseline(t *testing.T) {
	inPages(t, 260, 1000, func(w *world, s *sizes) {
		w.pass(20 * time.Hour)
		// Two walks for the baseline, then one step for each until all are on one page.
		if got, want := s.take(), "50 50 100 200 500 500"; !strings.HasPrefix(got, want) || strings.Contains(got, "1000") {
			t.Errorf("walks began with %s, want %s", got, want)
		}
		w.restart()
		w.pass(20 * time.Hour)
		if got := s.runs(); got != "500" {
			t.Errorf("after a restart walks began with %s", got)
		}
	})
}

func TestAListOfOnePageTriesNoLargerOne(t *testing.T) {
	inPages(t, 45, 1000, func(w *world, s *sizes) {
		w.pass(20 * time.Hour)
		if got := s.runs(); got != "50" {
			t.Errorf("walks began with %s", got)
		}
	})
}

func TestAConfiguredPageSizeIsNeverExceeded(t *testing.T) {
	inPages(t, 120, 1000, func(w *world, s *sizes) {
		w.halt()
		s.take()
		w.options.PageSize = 30
		w.start()
		w.pass(20 * time.Hour)
		if got := s.runs(); got != "30" {
			t.Errorf("walks began with %s", got)
		}
	})
}

func TestACapOfPagesIsFoundAndTriedAgainAfterAWeek(t *testing.T) {
	long(t)
	for most, want := range map[int]string{50: "50 100 50", 100: "50 100 200 100", 120: "50 100 200 120", 20: "50 100 50"} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			inPages(t, 260, most, func(w *world, s *sizes) {
				w.pass(6 * 24 * time.Hour)
				if got := s.runs(); got != want {
					t.Errorf("at most %d: walks began with %s, want %s", most, got, want)
				}
				w.pass(2 * 24 * time.Hour)
				steps := strings.Fields(s.runs())
				if len(steps) != 3 || steps[0] != steps[2] || steps[1] <= steps[0] && len(steps[1]) == len(steps[0]) {
					t.Errorf("at most %d: after a week walks began with %v", most, steps)
				}
			})
		})
	}
}

func TestPagesThatAreRefusedAreNotTriedEveryTime(t *testing.T) {
	long(t)
	rendering := sandbox.Flat()
	rendering.MaxPageSize = 1000
	rendering.PageSizes = sandbox.Sizes{Most: 100}
	inPagesOf(t, 260, rendering, func(w *world, s *sizes) {
		w.pass(40 * time.Hour) // what comes back after a day, too, would be seen
		// The walk that was refused goes on with the usual size.
		if got := s.runs(); got != "50 100 200 50 100" {
			t.Errorf("walks began with %s", got)
		}
	})
}

func TestLargePagesThatAreSlowBrokenOrTooMuchAreGivenUp(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"slow":           {Delay: 20 * time.Second},
		"too slow":       {Delay: 45 * time.Second},
		"a failure":      {Status: 500},
		"a bad gateway":  sandbox.Instead("text/html", "<html>"),
		"nothing":        sandbox.Instead("application/json", `{"results":[],"page":1,"pageSize":20,"total":0}`),
		"cut in its end": {Cut: 0.9},
	} {
		if raced && name != "slow" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inPages(t, 260, 1000, func(w *world, s *sizes) {
				s.mu.Lock()
				s.fault = func(size string, _ url.Values) *sandbox.Fault {
					if len(size) >= 3 && size >= "200" {
						return &fault
					}
					return nil
				}
				s.mu.Unlock()
				w.pass(40 * time.Hour) // as above
				if got := s.runs(); got != "50 100 200 50 100" && (got != "50 100 200 100" || name != "slow") {
					t.Errorf("walks began with %s", got)
				}
			})
		})
	}
}

func TestLargePagesThatWereFineAndAreNotAnyMoreAreNoDrift(t *testing.T) {
	long(t)
	inPages(t, 260, 1000, func(w *world, s *sizes) {
		w.pass(20 * time.Hour)
		if got := s.runs(); got != "50 100 200 500" {
			t.Errorf("walks began with %s", got)
		}
		s.mu.Lock()
		capped := sandbox.Flat()
		s.fault = func(string, url.Values) *sandbox.Fault { return &sandbox.Fault{Rendering: &capped} }
		s.mu.Unlock()
		w.pass(20 * time.Hour)
		s.mu.Lock()
		s.fault = func(size string, _ url.Values) *sandbox.Fault {
			if len(size) >= 3 {
				return &sandbox.Fault{Status: 400}
			}
			return nil
		}
		s.mu.Unlock()
		w.pass(40 * time.Hour)
		if got := s.runs(); !strings.HasSuffix(got, " 50 100 50") {
			t.Errorf("walks began with %s", got)
		}
		w.pass(20 * time.Hour)
		if got := s.runs(); got != "50" {
			t.Errorf("long after, walks began with %s", got)
		}
	})
}

func TestWhileWalksFailEachTryIsOneRequest(t *testing.T) {
	long(t)
	inPages(t, 260, 1000, func(w *world, s *sizes) {
		w.pass(20 * time.Hour)
		s.take()
		s.fail(func(string, url.Values) *sandbox.Fault { return &sandbox.Fault{Status: 500} })
		w.pass(3 * time.Hour)
		// The first walk that fails finds out that the usual size does no better; the others need not.
		if got, want := s.runs(), "500 50"; got != want {
			t.Errorf("walks began with %s, want %s", got, want)
		}
		w.restart()
		w.pass(time.Hour)
		if got, want := s.runs(), "50"; got != want {
			t.Errorf("after a restart walks began with %s, want %s", got, want)
		}
		s.fail(nil)
		w.pass(10 * time.Hour)
		if got := s.runs(); !strings.HasPrefix(got, "50 ") {
			t.Errorf("when all is well again walks began with %s, and never with a larger page", got)
		}
	})
}

// resting is an API whose list of 120 insertions never changes. It notes the sizes that walks begin with.
type resting struct {
	sizes
	clamped bool // past the end is the last page again
}

func (l *resting) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	page, _ := strconv.Atoi(q.Get("page"))
	size, _ := strconv.Atoi(q.Get("pageSize"))
	var list []string
	if strings.Contains(r.URL.Path, "/insertions") {
		if page == 0 {
			l.mu.Lock()
			l.began = append(l.began, q.Get("pageSize"))
			l.mu.Unlock()
		}
		all := listed(120)
		if l.clamped {
			page = min(page, 119/size)
		}
		list = all[min(page*size, 120):min(page*size+size, 120)]
	}
	body := "[" + strings.Join(list, ",") + "]"
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func TestAPageThatWouldBeTooMuchIsNotTriedBecauseTheListRests(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		api := &resting{}
		w.options.API.Transport, w.options.API.MaxBody = api, 6<<10 // a page of 50 takes less than half of it, one of 100 more
		w.options.WalkInterval, w.options.PollInterval = 3*time.Hour, 100*24*time.Hour
		w.start()
		w.pass(20 * time.Hour)
		if got := api.runs(); got != "50" {
			t.Errorf("walks began with %s", got)
		}
	})
}

func TestALargerPageIsNotKeptWhereItCostsMoreRequests(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		api := &resting{clamped: true}
		w.options.API.Transport = api
		w.options.WalkInterval, w.options.PollInterval = 3*time.Hour, 100*24*time.Hour
		w.start()
		w.pass(20 * time.Hour)
		// All 120 on one page might be the first of many: that is looked at with smaller ones, every time.
		if got := api.runs(); got != "50 100 200 60 100" {
			t.Errorf("walks began with %s", got)
		}
	})
}
