package poller_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"doorbell/poller/sandbox"
)

func TestTheStatusReportsFreshnessLatencyAndOutcomes(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(8)...)
		w.write("A100", "a#001##", time.Hour) // was there before
		w.start()
		w.pass(10 * time.Minute)
		for n := range 20 {
			w.write("A100", references(8)[n%8], 0)
			w.pass(97 * time.Second)
		}
		f := w.status("A100").Freshness
		if l := f.Latency; l.ContactRequests != 20 || l.MedianSeconds <= 0 || l.MedianSeconds > 35 || l.P95Seconds < l.MedianSeconds {
			t.Errorf("latency %+v", l)
		}
		if f.Insertions != 8 || f.NeverPolled != 0 || f.PastCap != 0 || f.CapSeconds != 90 || f.OldestSeconds <= 0 || f.OldestSeconds > 40 {
			t.Errorf("%+v", f)
		}
		asked := func() uint64 {
			return uint64(w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}))
		}
		s := w.poller.Status()
		if s.LastMinute < 10 || s.LastMinute > 60 || s.Effective != s.RequestsPerSecond || s.Latency != f.Latency || !s.Agencies[0].LastWalk.Complete {
			t.Errorf("%+v", s)
		}
		w.model.SetFault(failing("contact_requests", 500))
		w.pass(5 * time.Minute)
		s = w.poller.Status()
		if f := s.Agencies[0].Freshness; f.PastCap != 8 || f.OldestSeconds < 300 {
			t.Errorf("after five minutes without a good response: %+v", f)
		}
		figures := prometheus.NewRegistry()
		figures.MustRegister(s.Metrics)
		out := httptest.NewRecorder()
		promhttp.HandlerFor(figures, promhttp.HandlerOpts{}).ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/", nil))
		counts, sum := map[string]uint64{}, uint64(0)
		for _, m := range regexp.MustCompile(`requests_total\{operation="(\w+)",outcome="(\w+)"\} (\d+)`).FindAllStringSubmatch(out.Body.String(), -1) {
			n, _ := strconv.ParseUint(m[3], 10, 64)
			counts[m[1]+" "+m[2]] = n
			sum += n
		}
		if good, bad := counts["contact_requests 200"], counts["contact_requests 500"]; good+bad != asked() || bad == 0 || sum != s.Requests {
			t.Errorf("%v of %d polls and %d requests", counts, asked(), s.Requests)
		}
		for operation, want := range map[string]uint64{"contact_requests": asked(), "insertions": sum - asked()} {
			if line := fmt.Sprintf("duration_seconds_count{operation=%q} %d\n", operation, want); !strings.Contains(out.Body.String(), line) {
				t.Errorf("no %s in %s", line, out.Body)
			}
		}
	})
}

func TestTheLoopsBeatWhateverTheAPIDoes(t *testing.T) {
	for name, failure := range map[string]func(*world){
		"nothing":   func(*world) {},
		"a halt":    func(w *world) { w.must(w.model.DeactivateKey(testKey)) },
		"an outage": func(w *world) { w.model.SetFault(failing("", 500)) },
		"little left": func(w *world) {
			w.halt()
			w.options.RequestsPerSecond = 0.001
			w.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", "a#1##")
				w.start()
				w.pass(10 * time.Minute)
				failure(w)
				p := w.poller
				for range 20 {
					w.pass(17 * time.Minute)
					polls, staleness := p.Turned()
					if since := time.Since(polls); since > 2*time.Minute {
						t.Errorf("polls: none since %s", since)
					}
					if since := time.Since(staleness); since > 2*time.Minute {
						t.Errorf("staleness: none since %s", since)
					}
				}
				w.halt()
				time.Sleep(time.Hour)
				if polls, staleness := p.Turned(); time.Since(polls) < time.Hour || time.Since(staleness) < time.Hour {
					t.Error("one after their end")
				}
			})
		})
	}
}

func TestNoInsertionWaitsLongerThanIsAllowed(t *testing.T) {
	inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(8)...)
		w.options.PollInterval, w.options.MaxStaleness = time.Minute, 10*time.Second
		w.start()
		w.pass(10 * time.Minute)
		last, polls := map[string]time.Time{}, 0
		for _, r := range w.model.Log(sandbox.Filter{Operation: sandbox.OperationContactRequests}) {
			if gap := r.At.Sub(last[r.Reference]); !last[r.Reference].IsZero() && gap > 10*time.Second {
				t.Errorf("%s waited %v", r.Reference, gap)
			}
			last[r.Reference] = r.At
			polls++
		}
		if len(last) != 8 || polls > 8*80 {
			t.Errorf("%d insertions were asked %d times in ten minutes", len(last), polls)
		}
	})
}

func TestTooManyInsertionsForTheAllowedStalenessAreReportedOnce(t *testing.T) {
	inWorld(t, sandbox.Options{WithdrawnStatus: 404}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(70)...)
		var log bytes.Buffer
		w.options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		w.options.MaxStaleness = 10 * time.Second
		w.start()
		w.pass(5 * time.Minute)
		if strings.Count(log.String(), "more insertions than can be polled") != 1 {
			t.Fatalf("logged: %q", log.String())
		}
		for _, want := range []string{"insertions=70", "allowed=10s", "reached=14s", "requests_per_second=5"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s is not in %s", want, log.String())
			}
		}
	})
}
