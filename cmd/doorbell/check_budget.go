package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"doorbell/poller/schedule"
)

// bearable is how long a contact request may wait on average, where no staleness is configured, before the report warns.
const bearable = 15 * time.Minute

// checkedBudget holds the requests that may be spent against the insertions there are. How contact requests spread over
// them is assumed.
type checkedBudget struct {
	Insertions              int     `json:"insertions"`
	AtLeast                 bool    `json:"atLeast"` // there may be more
	RequestsPerSecond       float64 `json:"requestsPerSecond"`
	WalkRequestsPerSecond   float64 `json:"walkRequestsPerSecond"` // that walks take of it
	MeanLatencySeconds      float64 `json:"expectedMeanLatencySeconds"`
	MedianLatencySeconds    float64 `json:"expectedMedianLatencySeconds"`
	StalenessSeconds        float64 `json:"expectedStalenessSeconds"` // of the insertion that waits the longest
	MaxStalenessSeconds     float64 `json:"maxStalenessSeconds"`      // DOORBELL_MAX_STALENESS; 0: auto
	NeededRequestsPerSecond float64 `json:"neededRequestsPerSecond"`  // for DOORBELL_MAX_STALENESS; with auto, for a mean of 15 min
}

// newBudget computes the budget of a number of insertions whose walks take so many pages together.
func newBudget(p Poll, insertions, pages int) checkedBudget {
	plan := schedule.Plan{
		Rates: schedule.Market(float64(insertions)), Budget: p.RequestsPerSecond, Walks: float64(pages) / p.WalkInterval.Seconds(),
		Interval: p.PollInterval, Staleness: time.Duration(p.MaxStaleness),
	}
	f := plan.Forecast()
	b := checkedBudget{
		Insertions: insertions, RequestsPerSecond: p.RequestsPerSecond, WalkRequestsPerSecond: f.Walks, StalenessSeconds: f.Oldest.Seconds(),
		MeanLatencySeconds: f.Mean.Seconds(), MedianLatencySeconds: f.Median.Seconds(), MaxStalenessSeconds: plan.Staleness.Seconds(),
	}
	needed, ok := plan.NeededForStaleness(plan.Staleness), true
	if plan.Staleness == 0 {
		needed, ok = plan.Needed(bearable, schedule.MeanLatency)
	}
	if ok {
		b.NeededRequestsPerSecond = roundUp(needed)
	}
	return b
}

// roundUp keeps two digits.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	up, _ := strconv.ParseFloat(fmt.Sprintf("%.2g", math.Ceil(v/unit-1e-9)*unit), 64) // is a number
	return up
}

func (b checkedBudget) report(r *checkReport) {
	if b.Insertions == 0 {
		r.ok(sectionBudget, "no insertion is known; nothing to spend requests on but walks")
		return
	}
	least := ""
	if b.AtLeast {
		least = "at least "
	}
	text := fmt.Sprintf("%s%s at %g requests/s (walks take %s): a contact request is found after about %s, half of them within %s; no insertion waits longer than %s",
		least, several(b.Insertions, "insertion"), b.RequestsPerSecond, figure(b.WalkRequestsPerSecond, 2), fromSeconds(b.MeanLatencySeconds),
		fromSeconds(b.MedianLatencySeconds), fromSeconds(b.StalenessSeconds))
	remedy := fmt.Sprintf("set DOORBELL_REQUESTS_PER_SECOND to %s if the provider allows that, or watch fewer insertions (DOORBELL_INSERTIONS_FILTER); `doorbell plan` has more figures",
		figure(b.NeededRequestsPerSecond, 4))
	allowed := fromSeconds(b.MaxStalenessSeconds)
	switch {
	case b.MaxStalenessSeconds == 0 && b.MeanLatencySeconds <= bearable.Seconds():
		r.ok(sectionBudget, "%s", text)
	case b.MaxStalenessSeconds == 0 && b.NeededRequestsPerSecond <= b.RequestsPerSecond: // only the interval is in its way
		r.warn(sectionBudget, text+", for DOORBELL_POLL_INTERVAL is long", "lower DOORBELL_POLL_INTERVAL")
	case b.MaxStalenessSeconds == 0:
		r.warn(sectionBudget, text, remedy)
	case b.StalenessSeconds <= b.MaxStalenessSeconds*(1+1e-9):
		r.ok(sectionBudget, "%s; DOORBELL_MAX_STALENESS allows %s", text, allowed)
	default:
		r.warn(sectionBudget, fmt.Sprintf("%s, more than the %s of DOORBELL_MAX_STALENESS", text, allowed), remedy)
	}
}

// rounded is a duration as people say it.
func rounded(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Minute:
		return d.Round(time.Second).String()
	}
	text := d.Round(time.Minute).String()
	return text[:len(text)-len("0s")]
}
