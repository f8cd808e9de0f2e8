package poller_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// slow lets contact requests take almost as long as they may.
func slow(c sandbox.Call) *sandbox.Fault {
	if c.Operation == sandbox.OperationContactRequests {
		return &sandbox.Fault{Delay: 29 * time.Second}
	}
	return nil
}

// TestAnAPIThatIsTooSlowToBeAskedInTimeIsNotStale lets each response take as long as it may: none fails, and the status tells how long
// insertions wait.
func TestAnAPIThatIsTooSlowToBeAskedInTimeIsNotStale(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 500 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.RequestsPerSecond = 20
		w.start()
		w.pass(2 * time.Minute)
		before := len(w.log("A100"))
		w.model.SetFault(slow)
		w.pass(12 * time.Minute)
		if s := w.status("A100"); s.State != "watching" || s.Freshness.PastCap < 50 || s.Freshness.OldestSeconds < s.Freshness.CapSeconds {
			t.Errorf("%s: %+v", s.State, s.Freshness)
		}
		w.model.SetFault(nil)
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before))
		if s := w.status("A100"); s.Freshness.PastCap != 0 {
			t.Errorf("%+v", s.Freshness)
		}
	})
}

// TestAnAPIThatHangsIsStale lets each request of contact requests end with its timeout.
func TestAnAPIThatHangsIsStale(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests {
				return &sandbox.Fault{Delay: time.Hour}
			}
			return nil
		})
		w.pass(15 * time.Minute)
		w.wants(w.since("A100", 1), events.TypeWatchStale)
		w.model.SetFault(nil)
		w.pass(15 * time.Minute)
		w.wants(w.since("A100", 2), events.TypeWatchRecovered)
	})
}

func TestALongDowntimeIsNoReasonToCallAnythingLate(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 200 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.RequestsPerSecond, w.options.WalkInterval = 0.4, 20*time.Minute
		w.start()
		w.pass(2 * time.Hour)
		before := len(w.log("A100"))
		w.halt()
		time.Sleep(30 * time.Hour)
		w.start()
		w.pass(2 * time.Hour)
		w.wants(w.since("A100", before))
	})
}

func TestTheStatusTellsFreshnessAndLatencyAndWhyItAsks(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##", "a#5##", "a#6##", "a#7##", "a#8##")
		w.write("A100", "a#1##", time.Hour) // was there before
		w.start()
		w.pass(10 * time.Minute)
		for n := range 20 {
			w.write("A100", fmt.Sprintf("a#%d##", n%8+1), 0)
			w.pass(97 * time.Second)
		}
		f := w.status("A100").Freshness
		if l := f.Latency; l.ContactRequests != 20 || l.MeanSeconds <= 0 || l.MeanSeconds > 35 || l.P95Seconds < l.MedianSeconds || l.WithinOneMinute != 1 {
			t.Errorf("latency %+v", l)
		}
		if f.Insertions != 8 || f.NeverPolled != 0 || f.PastCap != 0 || f.CapSeconds != 90 || f.OldestSeconds <= 0 || f.OldestSeconds > 40 {
			t.Errorf("%+v", f)
		}
		polls := uint64(w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}))
		if got := f.Turns["index"] + f.Turns["cap"] + f.Turns["urgent"]; got < polls-10 || got > polls+10 {
			t.Errorf("%d turns, %d polls: %v", got, polls, f.Turns)
		}
		s := w.poller.Status()
		if s.LastMinute < 10 || s.LastMinute > 60 || s.Effective != s.RequestsPerSecond || s.Latency != f.Latency {
			t.Errorf("%+v", s)
		}
	})
}

func TestTheStatusCountsRequestsByWhatCameOfThem(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.start()
		w.pass(5 * time.Minute)
		w.write("A100", "a#1##", 0)
		w.pass(time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests {
				return &sandbox.Fault{Status: 500}
			}
			return nil
		})
		w.pass(5 * time.Minute)
		s := w.poller.Status()
		figures := prometheus.NewRegistry()
		figures.MustRegister(s.Metrics)
		out := httptest.NewRecorder()
		promhttp.HandlerFor(figures, promhttp.HandlerOpts{}).ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/", nil))
		counts := map[string]uint64{}
		sum := uint64(0)
		for _, m := range regexp.MustCompile(`requests_total\{operation="(\w+)",outcome="(\w+)"\} (\d+)`).FindAllStringSubmatch(out.Body.String(), -1) {
			count, _ := strconv.ParseUint(m[3], 10, 64)
			counts[m[1]+" "+m[2]] = count
			sum += count
		}
		polls := uint64(w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}))
		if counts["contact_requests 200"]+counts["contact_requests 500"] != polls || counts["contact_requests 500"] == 0 || counts["insertions 200"] == 0 ||
			sum != s.Requests {
			t.Errorf("%v of %d polls and %d requests", counts, polls, s.Requests)
		}
		for operation, want := range map[string]uint64{"contact_requests": polls, "insertions": sum - polls} {
			if line := fmt.Sprintf("duration_seconds_count{operation=%q} %d\n", operation, want); !strings.Contains(out.Body.String(), line) {
				t.Errorf("no %s in %s", line, out.Body)
			}
		}
		if s.Latency.ContactRequests != 1 || s.Latency != s.Agencies[0].Freshness.Latency {
			t.Errorf("%+v", s.Latency)
		}
		if a := s.Agencies[0]; !a.LastWalk.Complete {
			t.Errorf("%+v", a.LastWalk)
		}
	})
}
