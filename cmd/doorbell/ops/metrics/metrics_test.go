package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/forward"
	"doorbell/poller"
	"doorbell/store"
)

var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// busy is a status in which everything happens that can.
func busy() ops.Status {
	yes := true
	counted := poller.NewMetrics()
	counted.Requests.WithLabelValues("insertions", "200").Add(7)
	counted.Requests.WithLabelValues("contact_requests", "timeout").Inc()
	for _, seconds := range []float64{5, 20, 20} {
		counted.Durations.WithLabelValues("insertions").Observe(seconds)
		counted.Latencies.WithLabelValues("A100").Observe(seconds)
	}
	return ops.Status{
		Version: "1.2", Ready: &yes,
		Watch: poller.Status{
			At: now, RequestsPerSecond: 5, Effective: 2.5, Requests: 1000, Down: "2026-11-20T09:01:00Z",
			Metrics: counted,
			Agencies: []poller.AgencyStatus{{
				AgencyID: "A100", State: "halted", Insertions: 12, LastGoodAnswer: now.Add(-time.Minute), LastCompleteWalk: now.Add(-time.Hour),
				LastSequence: 20,
				Halts: []poller.HaltStatus{
					{Scope: "insertion", PropertyReferenceID: "reference-zq7"}, {Scope: "insertion", PropertyReferenceID: "other-zq7"},
				},
				Held: &poller.HeldStatus{}, Alarms: []poller.Alarm{{Kind: "stale", PropertyReferenceID: "reference-zq7"}}, LastError: "error of reference-zq7",
				Freshness: &poller.Freshness{OldestSeconds: 40, CapSeconds: 90, PastCap: 2, NeverPolled: 1},
			}, {AgencyID: "B\xff200", State: "starting"}},
		},
		Events: []ops.EventCount{{Type: "contact_request.created", Published: 4}},
		Relay: []ops.RelayStatus{
			{AgencyID: "A100", Progress: store.Progress{Acknowledged: 18, Pending: 2, OldestWaiting: now.Add(-30 * time.Second)}}, {AgencyID: "C300"},
		},
		PublishFailures: map[string]uint64{"full": 2},
		NATS: ops.NATSStatus{
			Embedded: true, Connected: true, URL: "nats://user:sentinel0key@host", Problem: "problem-zq7",
		},
		Store: store.Space{InUse: 80, Max: 100, Alarm: true},
		Forwarders: []forward.WorkerStatus{
			{Forwarder: "slack", Destination: "host-zq7 a", Waiting: 1, Events: 3, DeadLetters: 1, Failed: map[string]uint64{"busy": 2}, LastSent: now.Add(-time.Minute), WaitingSince: now.Add(-time.Minute)},
			{Forwarder: "slack", Destination: "host-zq7 b", Waiting: 2, Failed: map[string]uint64{"busy": 3}, LastSent: now.Add(-time.Hour), FailingSince: now.Add(-10 * time.Minute), LastError: "no-zq7"},
			{Forwarder: "slack", Destination: "host-zq7 b"},
			{Forwarder: "email", Problem: "problem-zq7"},
		},
	}
}

// scrape is the answer to one scrape of a status.
func scrape(t testing.TB, s ops.Status) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(func() (ops.Status, error) { return s, nil }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestFiguresAreThoseOfTheStatus(t *testing.T) {
	text := scrape(t, busy())
	if strings.Contains(text, `forwarder="email"`) {
		t.Error("a forwarder that does not run has figures")
	}
	for _, want := range []string{
		`doorbell_ready 1`,
		`doorbell_api_up 0`,
		`doorbell_requests_total{operation="insertions",outcome="200"} 7`,
		`doorbell_requests_total{operation="contact_requests",outcome="timeout"} 1`,
		`doorbell_request_duration_seconds_bucket{operation="insertions",le="60"} 3`,
		`doorbell_budget_limit_requests_per_second 5`,
		`doorbell_agency_state{agency="A100",state="halted"} 1`,
		`doorbell_halts{agency="A100",scope="insertion"} 2`,
		`doorbell_halts{agency="A100",scope="agency"} 0`,
		`doorbell_alarms{agency="A100",kind="stale"} 1`,
		`doorbell_alarms{agency="A100",kind="gap_detected"} 0`,
		`doorbell_alarms{agency="A100",kind="change_held"} 1`,
		`doorbell_alarms{agency="B` + "\uFFFD" + `200",kind="change_held"} 0`,
		`doorbell_oldest_poll_age_seconds{agency="A100"} 40`,
		`doorbell_lead_latency_seconds_bucket{agency="A100",le="10"} 1`,
		`doorbell_lead_latency_seconds_bucket{agency="A100",le="+Inf"} 3`,
		`doorbell_lead_latency_seconds_sum{agency="A100"} 45`,
		`doorbell_events_published_total{type="contact_request.created"} 4`,
		`doorbell_event_log_pending_events{agency="A100"} 2`,
		`doorbell_event_log_oldest_pending_age_seconds{agency="A100"} 30`,
		`doorbell_event_log_oldest_pending_age_seconds{agency="C300"} 0`,
		`doorbell_publish_failures_total{reason="full"} 2`,
		`doorbell_stream_usable 0`,
		`doorbell_forwarder_waiting_messages{forwarder="slack"} 3`,
		`doorbell_forwarder_events_sent_total{forwarder="slack"} 3`,
		`doorbell_forwarder_failed_deliveries_total{forwarder="slack",reason="busy"} 5`,
		`doorbell_forwarder_dead_letters_total{forwarder="slack"} 1`,
		`doorbell_forwarder_waiting_seconds{forwarder="slack"} 60`,
		`doorbell_store_in_use_bytes 80`,
		`doorbell_store_limit_bytes 100`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
}

func TestMetricsPassTheLinterAndHoldNoPersonKeyOrInsertion(t *testing.T) {
	text := scrape(t, busy())
	if strings.Contains(text, "zq7") || strings.Contains(text, "sentinel0key") {
		t.Error("a sentinel is exported")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	must(t, err)
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "doorbell_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestANewDaemonHasMetricsAndAFailingOneRespondsWithAnError(t *testing.T) {
	text := scrape(t, ops.Status{})
	if !strings.Contains(text, "doorbell_build_info") || strings.Contains(text, "timestamp_seconds{") {
		t.Error(text)
	}
	w := httptest.NewRecorder()
	broken := func() (ops.Status, error) { return ops.Status{}, errors.New("the store is closed") }
	Handler(broken).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("it responded with %d", w.Code)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
