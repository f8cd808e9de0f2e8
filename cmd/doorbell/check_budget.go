package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// bearable is how stale an insertion may be where no limit is configured before the report warns.
const bearable = 30 * time.Minute

// checkedBudget holds the requests that may be spent against the insertions there are, as if they took turns. The daemon
// does better on the mean: it polls more often where something is likely.
type checkedBudget struct {
	Insertions              int     `json:"insertions"`
	AtLeast                 bool    `json:"atLeast"` // there may be more
	RequestsPerSecond       float64 `json:"requestsPerSecond"`
	WalkRequestsPerSecond   float64 `json:"walkRequestsPerSecond"` // that walks take of it
	StalenessSeconds        float64 `json:"expectedStalenessSeconds"`
	MaxStalenessSeconds     float64 `json:"maxStalenessSeconds"`     // DOORBELL_MAX_STALENESS; 0: auto
	NeededRequestsPerSecond float64 `json:"neededRequestsPerSecond"` // for DOORBELL_MAX_STALENESS; with auto, for 30 min
}

// newBudget computes the budget of a number of insertions whose walks take so many pages together.
func newBudget(p Poll, insertions, pages int) checkedBudget {
	b := checkedBudget{Insertions: insertions, RequestsPerSecond: p.RequestsPerSecond, MaxStalenessSeconds: time.Duration(p.MaxStaleness).Seconds()}
	wished := float64(pages) / p.WalkInterval.Seconds()
	b.WalkRequestsPerSecond = min(wished, p.RequestsPerSecond/3) // what is left to walks while polls wait
	turns := float64(insertions) / (p.RequestsPerSecond - b.WalkRequestsPerSecond)
	b.StalenessSeconds = max(p.PollInterval.Seconds(), turns)
	polls := float64(insertions) / b.limit().Seconds()
	b.NeededRequestsPerSecond = roundUp(min(polls+wished, polls*1.5))
	return b
}

// limit is the staleness that the report judges by.
func (b checkedBudget) limit() time.Duration {
	if b.MaxStalenessSeconds > 0 {
		return time.Duration(b.MaxStalenessSeconds * float64(time.Second))
	}
	return bearable
}

func (b checkedBudget) staleness() time.Duration {
	return time.Duration(min(b.StalenessSeconds, math.MaxInt64/2e9) * float64(time.Second))
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
	least := ""
	if b.AtLeast {
		least = "at least "
	}
	text := fmt.Sprintf("%s%s at %g requests/s (walks take %.2g): each is looked at every %s",
		least, several(b.Insertions, "insertion"), b.RequestsPerSecond, b.WalkRequestsPerSecond, rounded(b.staleness()))
	switch {
	case b.Insertions == 0:
		r.ok(sectionBudget, "no insertion is known; nothing to spend requests on but walks")
	case b.StalenessSeconds <= b.limit().Seconds():
		if b.MaxStalenessSeconds > 0 {
			text += fmt.Sprintf("; DOORBELL_MAX_STALENESS allows %s", rounded(b.limit()))
		}
		r.ok(sectionBudget, "%s", text)
	case b.NeededRequestsPerSecond <= b.RequestsPerSecond:
		r.warn(sectionBudget, fmt.Sprintf("%s, more than the %s that are allowed, for DOORBELL_POLL_INTERVAL is longer", text, rounded(b.limit())),
			"lower DOORBELL_POLL_INTERVAL")
	default:
		allowed := "more than the %s of DOORBELL_MAX_STALENESS"
		if b.MaxStalenessSeconds == 0 {
			allowed = "more than %s"
		}
		r.warn(sectionBudget, fmt.Sprintf("%s, "+allowed, text, rounded(b.limit())),
			fmt.Sprintf("set DOORBELL_REQUESTS_PER_SECOND to %.4g if the provider allows that, or watch fewer insertions (DOORBELL_INSERTIONS_FILTER)", b.NeededRequestsPerSecond))
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
