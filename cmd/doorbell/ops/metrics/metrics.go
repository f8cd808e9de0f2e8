// Package metrics renders the Status of a daemon for Prometheus, once per scrape. It counts nothing
// itself. The metrics of the Go runtime and of the process are added.
//
// No metric contains a person, a key or a single insertion. Labels are the configured agencies, the
// forwarders, types of events, HTTP statuses, versions, and words from short fixed lists.
package metrics

import (
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// Handler answers scrapes. A status that is an error makes it answer 500. Many may call at the same
// time: see ops.Shared.
func Handler(status func() (ops.Status, error)) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newCollector(status),
	)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// collector is a prometheus.Collector that counts nothing itself.
type collector struct {
	status func() (ops.Status, error)
	descs  map[*family]*prometheus.Desc
}

func newCollector(status func() (ops.Status, error)) *collector {
	c := &collector{status, map[*family]*prometheus.Desc{}}
	for _, f := range families {
		c.descs[f] = prometheus.NewDesc(f.name, f.help, f.labels, nil)
	}
	return c
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
	poller.NewMetrics().Describe(to)
}

// Collect sends the status as metrics.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s, err := c.status()
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.descs[buildInfo], err)
		return
	}
	read(s, func(f *family, value float64, labels ...string) {
		for n := range labels {
			// a name from a configuration need not be
			labels[n] = strings.ToValidUTF8(labels[n], "\uFFFD")
		}
		// One odd label must not cost all figures, or the process.
		if m, err := prometheus.NewConstMetric(c.descs[f], f.kind, value, labels...); err == nil {
			to <- m
		}
	})
	if m := s.Watch.Metrics; m != nil {
		m.Collect(to)
	}
}

// read puts what a status says.
func read(s ops.Status, put func(f *family, value float64, labels ...string)) {
	put(buildInfo, 1, s.Version, runtime.Version())
	if s.Ready != nil {
		put(ready, truth(*s.Ready))
	}
	put(apiUp, truth(s.Watch.Down == ""))
	put(budgetLimit, s.Watch.RequestsPerSecond)
	put(budgetSpent, float64(s.Watch.Requests))
	for _, a := range s.Watch.Agencies {
		id := a.AgencyID
		put(agencyState, 1, id, a.State)
		// a 0 too, so that an end is seen
		halted := map[string]int{"agency": 0, "contact_requests": 0, "insertion": 0}
		for _, h := range a.Halts {
			halted[string(h.Scope)]++
		}
		for scope, n := range halted {
			put(halts, float64(n), id, scope)
		}
		raised := map[string]int{"stale": 0, "schema_drifted": 0, "gap_detected": 0}
		for _, l := range a.Alarms {
			raised[l.Kind]++
		}
		for kind, n := range raised {
			put(alarms, float64(n), id, kind)
		}
		put(alarms, truth(a.Held != nil), id, "change_held")
		put(insertions, float64(a.Insertions), id)
		if at := a.LastCompleteWalk; !at.IsZero() {
			put(lastWalk, float64(at.UnixMilli())/1000, id)
		}
		if a.Freshness != nil {
			put(oldestPoll, a.Freshness.OldestSeconds, id)
		}
	}
	for _, e := range s.Events {
		put(published, float64(e.Published), e.Type)
	}
	for _, r := range s.Relay {
		put(pending, float64(r.Pending), r.AgencyID)
		put(oldest, since(r.OldestWaiting, s.Watch.At), r.AgencyID)
	}
	for reason, n := range s.PublishFailures {
		put(failures, float64(n), reason)
	}
	put(streamUsable, truth(s.NATS.Connected && s.NATS.Problem == ""))
	readForwarders(s, put)
	put(storeUsed, float64(s.Store.InUse))
	if s.Store.Max > 0 {
		put(storeLimit, float64(s.Store.Max))
	}
}

// readForwarders adds up the destinations of each forwarder: their addresses are no labels.
func readForwarders(s ops.Status, put func(f *family, value float64, labels ...string)) {
	type sum struct {
		waiting, sent, dead uint64
		longest             float64
		failed              map[string]uint64
	}
	sums := map[string]*sum{}
	for _, w := range s.Forwarders {
		if w.Destination == "" {
			continue
		}
		if sums[w.Forwarder] == nil {
			sums[w.Forwarder] = &sum{failed: map[string]uint64{}}
		}
		of := sums[w.Forwarder]
		of.waiting, of.sent, of.dead = of.waiting+w.Waiting, of.sent+w.Events, of.dead+w.DeadLetters
		of.longest = max(of.longest, since(w.WaitingSince, s.Watch.At))
		for reason, n := range w.Failed {
			of.failed[reason] += n
		}
	}
	for name, of := range sums {
		put(forwarderWaiting, float64(of.waiting), name)
		put(forwarderEvents, float64(of.sent), name)
		put(forwarderDead, float64(of.dead), name)
		put(forwarderWaits, of.longest, name)
		for reason, n := range of.failed {
			put(forwarderFailed, float64(n), name, reason)
		}
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// since is how long ago something was; 0 where it was not.
func since(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}
