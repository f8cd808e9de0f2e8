package page

import (
	"fmt"
	"math"
	"slices"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// unknown is shown where nothing is known yet.
const unknown = "–"

// figure is one number that a person looks for, and what it means.
type figure struct {
	Name, Means, Value, Unit, Sub string
	Halted                        string // agencies of which it says nothing new
	Level                         ops.Level
}

func (v *view) figures() []figure {
	list := []figure{
		lastLead(v.Events, v.Now),
		{
			Name: "Leads in 24 hours", Means: "Contact requests that are new since the watch began",
			Value: ops.Number(v.Chart.Total), Sub: ops.Number(v.Chart.Last) + " in this hour",
		},
		latency(v.Watch.Latency), longest(v.Watch.Agencies), insertions(v.Watch.Agencies),
	}
	halted := 0
	for _, a := range v.Watch.Agencies {
		if a.State == "halted" {
			halted++
		}
	}
	for i := range list {
		if halted > 0 {
			list[i].Halted = ops.Counted(halted, "agency") + " halted"
		}
	}
	return append(list, budget(v.Watch))
}

// lastLead is what people look for first.
func lastLead(newest []line, now time.Time) figure {
	f := figure{Name: "Last lead", Means: "The newest contact request", Value: unknown, Sub: "none recently"}
	if n := slices.IndexFunc(newest, func(l line) bool { return isNews(l.Event) }); n >= 0 {
		f.Value, f.Sub = ops.Ago(newest[n].RecordedTime, now), ops.Short(newest[n].AgencyID, 64)
	}
	return f
}

func latency(l poller.Latency) figure {
	f := figure{
		Name: "From lead to event", Means: "From the moment a lead was written to its event",
		Value: unknown, Sub: "no lead yet since the start",
	}
	if l.ContactRequests > 0 {
		f.Value, f.Unit, f.Sub = ops.Seconds(l.MedianSeconds), "median",
			"95 % within "+ops.Seconds(l.P95Seconds)
	}
	return f
}

// longest is how long the insertion waits that waits the longest, of agencies that are polled.
func longest(agencies []poller.AgencyStatus) figure {
	f := figure{
		Name: "Longest unchecked", Value: unknown, Sub: "nothing polled yet",
		Means: "How long ago the contact requests of the longest-waiting insertion were read",
	}
	wait, most, past := -1.0, 0.0, 0
	for _, a := range agencies {
		if a.State != "halted" && a.Freshness != nil && a.Freshness.Insertions > 0 {
			wait, most = max(wait, a.Freshness.OldestSeconds), max(most, a.Freshness.CapSeconds)
			past += a.Freshness.PastCap
		}
	}
	if wait >= 0 {
		f.Value, f.Sub = ops.Seconds(wait), "should stay below "+ops.Seconds(most)
	}
	if past > 0 {
		f.Level, f.Sub = ops.Warn, ops.Counted(past, "insertion")+" past "+ops.Seconds(most)
	}
	return f
}

func insertions(agencies []poller.AgencyStatus) figure {
	n, never := 0, 0
	for _, a := range agencies {
		if n += a.Insertions; a.Freshness != nil {
			never += a.Freshness.NeverPolled
		}
	}
	f := figure{
		Name: "Insertions", Means: "Insertions that the last walks listed",
		Value: ops.Number(n), Sub: "of " + ops.Counted(len(agencies), "agency"),
	}
	if never > 0 {
		f.Sub = ops.Number(never) + " not polled yet"
	}
	return f
}

// budget is what was spent in the last minute of what may be spent.
func budget(w poller.Status) figure {
	f := figure{
		Name: "Requests a second", Unit: fmt.Sprintf("of %.4g", w.RequestsPerSecond),
		Sub:   ops.Counted(int(w.Requests), "request"),
		Means: "Requests to the API in the last minute, of the ceiling DOORBELL_REQUESTS_PER_SECOND",
		Value: fmt.Sprint(math.Round(float64(w.LastMinute)/6) / 10),
	}
	f.Sub += " since the start"
	if w.Effective < 0.999*w.RequestsPerSecond { // both are rounded
		f.Level, f.Sub = ops.Warn, fmt.Sprintf("%.4g now: throttled by the API", w.Effective)
	}
	return f
}
