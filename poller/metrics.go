package poller

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"doorbell/poller/listings"
)

// Metrics are counted for Prometheus from the start of the process.
type Metrics struct {
	Requests  *prometheus.CounterVec   // by operation and outcome
	Durations *prometheus.HistogramVec // by operation
	Latencies *prometheus.HistogramVec // by agency; see Latency
}

// NewMetrics returns metrics that have counted nothing.
func NewMetrics() *Metrics {
	return &Metrics{
		Requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "doorbell_requests_total",
			Help: "Requests to the API by outcome: the HTTP status, or the failure (dns, dial, refused, tls, timeout, read, canceled).",
		}, []string{"operation", "outcome"}),
		Durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "doorbell_request_duration_seconds",
			Help:    "Duration of a request to the API, from sending it to the end of the response.",
			Buckets: []float64{0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"operation"}),
		Latencies: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "doorbell_lead_latency_seconds",
			Help: "How long a contact request waited, from its createdAt (if unknown, the previous poll) to the response that showed it; " +
				"its event follows immediately.",
			Buckets: []float64{5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400},
		}, []string{"agency"}),
	}
}

// count counts a request that has ended.
func (m *Metrics) count(op listings.Operation, o listings.Outcome) {
	m.Requests.WithLabelValues(string(op), outcome(o)).Inc()
	m.Durations.WithLabelValues(string(op)).Observe(o.Duration.Seconds())
}

// Describe and Collect make it a prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.Requests, m.Durations, m.Latencies} {
		c.Describe(to)
	}
}

func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.Requests, m.Durations, m.Latencies} {
		c.Collect(to)
	}
}

// latenciesOf are those of an agency. An id from a configuration need not be UTF-8.
func (m *Metrics) latenciesOf(agencyID string) prometheus.Observer {
	return m.Latencies.WithLabelValues(strings.ToValidUTF8(agencyID, "\uFFFD"))
}

func outcome(o listings.Outcome) string {
	if broken, is := errors.AsType[*listings.TransportError](o.Err); is {
		return broken.Stage
	}
	if http.StatusText(o.Status) != "" { // a service may answer anything, and figures must not grow
		return strconv.Itoa(o.Status)
	}
	if class := o.Status / 100; 1 <= class && class <= 5 {
		return fmt.Sprintf("%dxx", class)
	}
	return "other"
}

// Latency is how long contact requests that came in waited for their event, over the last 24 hours
// of this process. A restart forgets it: it is a figure to look at, and nothing is decided by it.
type Latency struct {
	ContactRequests int     `json:"contactRequests"` // that are counted; without any the rest is 0
	MedianSeconds   float64 `json:"medianSeconds"`
	P95Seconds      float64 `json:"p95Seconds"`
}

// latencies are the newest of an agency, of a day at the most.
type latencies []latency

type latency struct {
	at      time.Time // it was seen
	seconds float64
}

// mostLatencies bounds what is kept of an agency.
const mostLatencies = 10_000

func (l *latencies) add(waited time.Duration, at time.Time) {
	*l = append((*l)[max(0, len(*l)+1-mostLatencies):], latency{at, max(waited, 0).Seconds()})
}

// lastDay are the latencies of the last 24 hours, in seconds.
func (l latencies) lastDay(now time.Time) (seconds []float64) {
	for _, one := range l {
		if now.Sub(one.at) < 24*time.Hour {
			seconds = append(seconds, one.seconds)
		}
	}
	return seconds
}

// latencyOf describes some latencies, which it sorts.
func latencyOf(seconds []float64) Latency {
	if len(seconds) == 0 {
		return Latency{}
	}
	slices.Sort(seconds)
	quantile := func(share float64) float64 {
		return rounded(seconds[int(math.Ceil(share*float64(len(seconds))))-1])
	}
	return Latency{ContactRequests: len(seconds), MedianSeconds: quantile(0.5), P95Seconds: quantile(0.95)}
}

// rounded leaves three decimals.
func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

// heartbeats say when the loops of Run turned last.
type heartbeats struct {
	polls     heartbeat // takes what is next from the schedule; turns once a minute at least
	staleness heartbeat // checks for silence, once a minute
}

// heartbeat is the last one of a loop.
type heartbeat struct{ at atomic.Pointer[time.Time] }

func (h *heartbeat) beat() {
	now := time.Now() // with its monotonic reading: the wall clock may be set
	h.at.Store(&now)
}

func (h *heartbeat) last() time.Time {
	if at := h.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}
