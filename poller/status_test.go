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
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"doorbell/poller/sandbox"
)

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
		if l := f.Latency; l.ContactRequests != 20 || l.MedianSeconds <= 0 || l.MedianSeconds > 35 || l.P95Seconds < l.MedianSeconds {
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

func TestTheLoopsBeatWhateverTheAPIDoes(t *testing.T) {
	for name, failure := range map[string]func(*world){
		"nothing": func(*world) {},
		"a halt":  func(w *world) { w.must(w.model.DeactivateKey(testKey)) },
		"an outage": func(w *world) {
			w.model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Status: 500} })
		},
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
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(8)...)
		var mu sync.Mutex
		asked := map[string][]time.Time{}
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			mu.Lock()
			defer mu.Unlock()
			if c.Operation == sandbox.OperationContactRequests {
				asked[c.Reference] = append(asked[c.Reference], c.At)
			}
			return nil
		})
		w.options.PollInterval, w.options.MaxStaleness = time.Minute, 10*time.Second
		w.start()
		w.pass(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for reference, moments := range asked {
			for i, at := range moments[1:] {
				if gap := at.Sub(moments[i]); gap > 10*time.Second {
					t.Errorf("%s waited %v", reference, gap)
				}
			}
			if n := len(moments); n > 80 {
				t.Errorf("%s was asked %d times in ten minutes", reference, n)
			}
		}
		if len(asked) != 8 {
			t.Errorf("%d insertions were asked", len(asked))
		}
	})
}

// journal is what was logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) lines(with string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

func TestMoreInsertionsThanTheAllowedStalenessHasTimeForAreSaidOnce(t *testing.T) {
	inWorld(t, sandbox.Options{WithdrawnStatus: 404}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(70)...)
		j := &journal{}
		w.options.Logger = slog.New(slog.NewTextHandler(j, nil))
		w.options.MaxStaleness = 10 * time.Second
		w.start()
		w.pass(5 * time.Minute)
		const over, held = "more insertions than can be polled", "can be held again"
		said := j.lines(over)
		if len(said) != 1 || !strings.Contains(said[0], "level=WARN") {
			t.Fatalf("it was said: %q", said)
		}
		for _, want := range []string{"insertions=70", "allowed=10s", "reached=14s", "requests_per_second=5", "needed=7"} {
			if !strings.Contains(said[0], want) {
				t.Errorf("%s is not in %s", want, said[0])
			}
		}
		w.restart()
		if again := j.lines(over); len(again) != 2 {
			t.Errorf("after a restart it was said: %q", again)
		}
		if got := j.lines(held); len(got) != 0 {
			t.Errorf("it was taken back: %q", got)
		}
		for _, reference := range references(21) {
			w.must(w.model.Withdraw("A100", reference))
		}
		for range 40 { // walks get little of the budget here, and each that is gone is asked for once more
			if w.pass(time.Minute); len(j.lines(held)) > 0 {
				break
			}
		}
		w.pass(5 * time.Minute)
		if got := j.lines(held); len(got) != 1 {
			t.Errorf("it was taken back: %q", got)
		}
	})
}
