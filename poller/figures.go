package poller

import (
	"cmp"
	"errors"
	"fmt"
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

// lengths counts durations for a Histogram. The zero value has counted none.
type lengths struct {
	buckets []uint64 // as many as there are bounds; not cumulative; nil: nothing was counted
	count   uint64
	seconds float64
}

func (t *lengths) add(bounds []float64, d time.Duration) {
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

func (t *lengths) histogram(bounds []float64) Histogram {
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

// figures counts requests to the API. The zero value has counted none.
type figures struct {
	mu       sync.Mutex
	outcomes map[operationOutcome]uint64
	took     map[listings.Operation]*lengths
}

type operationOutcome struct {
	operation listings.Operation
	outcome   string
}

// counted counts what comes of requests before it is handed on.
func (f *figures) counted(then func(listings.Request, listings.Outcome)) func(listings.Request, listings.Outcome) {
	return func(r listings.Request, o listings.Outcome) {
		f.add(r.Operation, o)
		then(r, o)
	}
}

func (f *figures) add(op listings.Operation, o listings.Outcome) {
	name := outcome(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outcomes == nil {
		f.outcomes, f.took = map[operationOutcome]uint64{}, map[listings.Operation]*lengths{}
	}
	f.outcomes[operationOutcome{op, name}]++
	if f.took[op] == nil {
		f.took[op] = &lengths{}
	}
	f.took[op].add(requestBounds, o.Duration)
}

// usual are the statuses with a name of their own among outcomes: a service may answer anything, and figures must not grow.
var usual = func() map[int]string {
	names := map[int]string{}
	for status := 100; status < 600; status++ {
		if http.StatusText(status) != "" {
			names[status] = strconv.Itoa(status)
		}
	}
	return names
}()

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
	if name := usual[o.Status]; name != "" {
		return name
	}
	if class := o.Status / 100; 1 <= class && class <= 5 {
		return fmt.Sprintf("%dxx", class)
	}
	return "other"
}

// requests are the counts in order.
func (f *figures) requests() []RequestCount {
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
func (f *figures) durations() (list []OperationDuration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range operations {
		t := f.took[op]
		if t == nil {
			t = &lengths{}
		}
		list = append(list, OperationDuration{string(op), t.histogram(requestBounds)})
	}
	return list
}
