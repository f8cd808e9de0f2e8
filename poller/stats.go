package poller

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"doorbell/poller/listings"
)

// RequestCount counts requests to the API that ended alike, since the start of the process.
type RequestCount struct {
	Operation string `json:"operation"` // insertions or contact_requests
	// Outcome is an HTTP status, the class of one that is unusual as 4xx, or what broke: dns, dial, refused, tls, timeout, read,
	// or canceled by our own end. An answer with status 200 may still be one that is not believed.
	Outcome string `json:"outcome"`
	Count   uint64 `json:"count"`
}

// Histogram counts durations since the start of the process.
type Histogram struct {
	Count   uint64   `json:"count"`
	Seconds float64  `json:"seconds"` // their sum
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts those that took no longer than a bound, those of the buckets before it among them.
type Bucket struct {
	Seconds float64 `json:"seconds"`
	Count   uint64  `json:"count"`
}

// OperationDuration is how long the requests of an operation took, from sending to the end of the answer.
type OperationDuration struct {
	Operation string    `json:"operation"`
	Duration  Histogram `json:"duration"`
}

// Bounds of the buckets, in seconds.
var (
	requestBounds = []float64{0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	latencyBounds = []float64{5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400}
)

// histogram counts durations for a Histogram. The zero value has counted none.
type histogram struct {
	buckets []uint64 // as many as there are bounds; not cumulative; nil: nothing was counted
	count   uint64
	seconds float64
}

func (t *histogram) add(bounds []float64, d time.Duration) {
	if t.buckets == nil {
		t.buckets = make([]uint64, len(bounds))
	}
	seconds := max(d, 0).Seconds()
	t.count++
	t.seconds += seconds
	if n, _ := slices.BinarySearch(bounds, seconds); n < len(bounds) {
		t.buckets[n]++
	}
}

func (t *histogram) export(bounds []float64) Histogram {
	h := Histogram{Count: t.count, Seconds: t.seconds, Buckets: make([]Bucket, len(bounds))}
	sum := uint64(0)
	for n, bound := range bounds {
		if t.buckets != nil {
			sum += t.buckets[n]
		}
		h.Buckets[n] = Bucket{bound, sum}
	}
	return h
}

// stats counts requests to the API. The zero value has counted none.
type stats struct {
	mu       sync.Mutex
	outcomes map[operationOutcome]uint64
	took     map[listings.Operation]*histogram
	mean     time.Duration // of the answers to polls
}

type operationOutcome struct {
	operation listings.Operation
	outcome   string
}

func (f *stats) add(op listings.Operation, o listings.Outcome) {
	name := outcome(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outcomes == nil {
		f.outcomes, f.took = map[operationOutcome]uint64{}, map[listings.Operation]*histogram{}
	}
	f.outcomes[operationOutcome{op, name}]++
	if f.took[op] == nil {
		f.took[op] = &histogram{}
	}
	f.took[op].add(requestBounds, o.Duration)
	if op == listings.OperationContactRequests {
		if f.mean == 0 {
			f.mean = o.Duration
		}
		f.mean += (o.Duration - f.mean) / 8
	}
}

// answer is how long polls take to be answered, smoothed; zero before there was one.
func (f *stats) answer() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mean
}

// stages are what can break; see RequestCount.
var stages = []string{
	listings.StageDNS, listings.StageDial, listings.StageRefused, listings.StageTLS, listings.StageTimeout, listings.StageRead,
	listings.StageCanceled,
}

func outcome(o listings.Outcome) string {
	var broken *listings.TransportError
	if errors.As(o.Err, &broken) && slices.Contains(stages, broken.Stage) {
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

// requests are the counts in order.
func (f *stats) requests() []RequestCount {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]RequestCount, 0, len(f.outcomes))
	for of, n := range f.outcomes {
		list = append(list, RequestCount{Operation: string(of.operation), Outcome: of.outcome, Count: n})
	}
	slices.SortFunc(list, func(a, b RequestCount) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Outcome, b.Outcome))
	})
	return list
}

// durations are those of both operations.
func (f *stats) durations() (list []OperationDuration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range operations {
		t := f.took[op]
		if t == nil {
			t = &histogram{}
		}
		list = append(list, OperationDuration{string(op), t.export(requestBounds)})
	}
	return list
}

// Latency is how long contact requests that came in waited for their event, over the last 24 hours of this process. A
// restart forgets it: it is a figure to look at, and nothing is decided by it.
type Latency struct {
	ContactRequests   int     `json:"contactRequests"` // that are counted; without any all else is 0
	MeanSeconds       float64 `json:"meanSeconds"`
	MedianSeconds     float64 `json:"medianSeconds"` // to within a tenth, as what follows
	P95Seconds        float64 `json:"p95Seconds"`
	WithinOneMinute   float64 `json:"withinOneMinute"` // share, 0 to 1
	WithinFiveMinutes float64 `json:"withinFiveMinutes"`
}

// latencies counts them by the hour.
type latencies [latencyHours]latencyHour

type latencyHour struct {
	hour int64 // since 1970
	histogram
}

const latencyHours = 24

// dayBounds are those of the buckets of latencies: a second, then steps of a quarter of an octave up to 48 days, and the minutes
// of which the share is told.
var dayBounds = func() (bounds []float64) {
	for n := range 88 {
		bounds = append(bounds, math.Exp2(float64(n)/4))
	}
	bounds = append(bounds, 60, 300)
	slices.Sort(bounds)
	return bounds
}()

// add counts one that was seen at a moment.
func (l *latencies) add(latency time.Duration, at time.Time) {
	hour := at.Unix() / 3600
	h := &l[hour%latencyHours]
	if h.hour != hour {
		*h = latencyHour{hour: hour}
	}
	h.histogram.add(dayBounds, latency)
}

// addTo adds what was counted in the last 24 hours.
func (l *latencies) addTo(all *histogram, now time.Time) {
	for _, h := range l {
		if h.count == 0 || h.hour <= now.Unix()/3600-latencyHours {
			continue
		}
		if all.buckets == nil {
			all.buckets = make([]uint64, len(dayBounds))
		}
		all.count += h.count
		all.seconds += h.seconds
		for n, count := range h.buckets {
			all.buckets[n] += count
		}
	}
}

// latency is that of the last 24 hours.
func (l *latencies) latency(now time.Time) Latency {
	var all histogram
	l.addTo(&all, now)
	return all.latency()
}

func (t *histogram) latency() Latency {
	if t.count == 0 {
		return Latency{}
	}
	n := float64(t.count)
	return Latency{
		ContactRequests: int(t.count), MeanSeconds: rounded(t.seconds / n),
		MedianSeconds: t.quantile(0.5), P95Seconds: t.quantile(0.95),
		WithinOneMinute: rounded(t.within(60) / n), WithinFiveMinutes: rounded(t.within(300) / n),
	}
}

// within is how many took no longer than a bound of days.
func (t *histogram) within(bound float64) (n float64) {
	for k, count := range t.buckets {
		if dayBounds[k] <= bound {
			n += float64(count)
		}
	}
	return n
}

// quantile is, in seconds, what a share of them took at the most: the middle of the bucket in which it lies.
func (t *histogram) quantile(share float64) float64 {
	rank, sum := uint64(math.Ceil(share*float64(t.count))), uint64(0)
	for n, count := range t.buckets {
		if sum += count; sum >= rank {
			return rounded(math.Sqrt(dayBounds[max(n-1, 0)] * dayBounds[n]))
		}
	}
	return rounded(dayBounds[len(dayBounds)-1])
}

// rounded leaves what a figure says, and no digits of chance.
func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

// announced counts contact requests whose events were committed.
func (a *agency) announced(waited []time.Duration, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range waited {
		a.latencies.add(d, at)
		a.waited.add(latencyBounds, d)
	}
}
