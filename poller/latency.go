package poller

import (
	"math"
	"time"
)

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

// latencies counts them by the hour and, within it, by how long they took, from a second on in steps of a quarter of an
// octave.
type latencies struct{ hours [latencyHours]*latencyHour }

const (
	latencyHours = 24
	latencySteps = 4  // an octave
	latencyBins  = 88 // up to 48 days
)

type latencyHour struct {
	hour        int64 // since 1970
	bins        [latencyBins]uint32
	count       uint32
	oneMinute   uint32
	fiveMinutes uint32
	seconds     float64
}

// add counts one that was seen at a moment.
func (l *latencies) add(latency time.Duration, at time.Time) {
	latency = max(latency, 0)
	number := at.Unix() / 3600
	h := l.hours[number%latencyHours]
	if h == nil || h.hour != number {
		h = &latencyHour{hour: number}
		l.hours[number%latencyHours] = h
	}
	h.count++
	h.seconds += latency.Seconds()
	h.bins[latencyBin(latency)]++
	if latency <= time.Minute {
		h.oneMinute++
	}
	if latency <= 5*time.Minute {
		h.fiveMinutes++
	}
}

func latencyBin(latency time.Duration) int {
	if latency <= time.Second {
		return 0
	}
	return min(1+int(latencySteps*math.Log2(latency.Seconds())), latencyBins-1)
}

// figures are those of the last 24 hours.
func (l *latencies) figures(now time.Time) Latency {
	var all latencyHour
	all.addAll(l, now)
	return all.figures()
}

// addAll adds what was counted in the last 24 hours.
func (h *latencyHour) addAll(l *latencies, now time.Time) {
	for _, one := range l.hours {
		if one == nil || one.hour <= now.Unix()/3600-latencyHours {
			continue
		}
		h.count += one.count
		h.seconds += one.seconds
		h.oneMinute += one.oneMinute
		h.fiveMinutes += one.fiveMinutes
		for n, count := range one.bins {
			h.bins[n] += count
		}
	}
}

func (h *latencyHour) figures() Latency {
	if h.count == 0 {
		return Latency{}
	}
	n := float64(h.count)
	return Latency{
		ContactRequests: int(h.count), MeanSeconds: rounded(h.seconds / n),
		MedianSeconds: h.quantile(0.5), P95Seconds: h.quantile(0.95),
		WithinOneMinute: rounded(float64(h.oneMinute) / n), WithinFiveMinutes: rounded(float64(h.fiveMinutes) / n),
	}
}

// quantile is, in seconds, what a share of them took at the most: the middle of the bin in which it lies.
func (h *latencyHour) quantile(share float64) float64 {
	rank, sum := uint32(math.Ceil(share*float64(h.count))), uint32(0)
	for n, count := range h.bins {
		if sum += count; sum >= rank {
			return rounded(math.Exp2((float64(n) - 0.5) / latencySteps))
		}
	}
	return 0
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
