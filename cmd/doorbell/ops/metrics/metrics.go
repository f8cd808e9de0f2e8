// Package metrics renders the Status of a daemon for Prometheus, once per scrape. It counts nothing
// itself. The metrics of the Go runtime and of the process are added.
//
// No metric contains a person, a key or a single insertion. Labels are the configured agencies, the
// streams of the embedded server, the forwarders, and words from short fixed lists.
package metrics

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// Handler answers scrapes. A status that is an error makes it answer 500. Many may ask at once: see
// ops.Shared.
func Handler(status func() (ops.Status, error)) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{status: status, descs: describe()},
	)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// collector is a prometheus.Collector that counts nothing itself.
type collector struct {
	status func() (ops.Status, error)
	descs  map[*family]*prometheus.Desc
}

func describe() map[*family]*prometheus.Desc {
	descs := make(map[*family]*prometheus.Desc, len(families))
	for _, f := range families {
		descs[f] = prometheus.NewDesc(f.name, f.help, f.labels, nil)
	}
	return descs
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
	out := sink{to, c.descs}
	out.value(buildInfo, 1, s.Version, runtime.Version())
	if s.Ready != nil {
		out.truth(ready, *s.Ready)
	}
	out.api(s)
	for _, a := range s.Watch.Agencies {
		out.agency(a, s.Watch.At)
	}
	out.log(s)
	out.nats(s.NATS)
	out.forwarders(s)
	out.store(s)
	if m := s.Watch.Metrics; m != nil {
		m.Collect(to)
	}
}

// sink takes what a status says.
type sink struct {
	to    chan<- prometheus.Metric
	descs map[*family]*prometheus.Desc
}

func (out sink) value(f *family, value float64, labels ...string) {
	out.send(prometheus.NewConstMetric(out.descs[f], f.kind, value, valid(labels)...))
}

// send leaves out what the library does not like: one odd label must not cost all figures, or the
// process.
func (out sink) send(m prometheus.Metric, err error) {
	if err == nil {
		out.to <- m
	}
}

// valid makes labels UTF-8, which a name from a configuration need not be.
func valid(labels []string) []string {
	for n := range labels {
		labels[n] = strings.ToValidUTF8(labels[n], "\uFFFD")
	}
	return labels
}

func (out sink) truth(f *family, is bool, labels ...string) {
	value := 0.0
	if is {
		value = 1
	}
	out.value(f, value, labels...)
}
