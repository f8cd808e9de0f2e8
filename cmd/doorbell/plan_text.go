package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// fewLearned is how many contact requests are too few to learn rates from.
const fewLearned = 200

func (r *planReport) writeText(w io.Writer, t terminal) error {
	var b strings.Builder
	r.writeHead(&b)
	if r.Insertions > 0 {
		r.writeTable(&b)
		fmt.Fprintln(&b)
		for _, sentence := range []string{r.walksText(), r.wishText(), r.stalenessText(), r.knownText()} {
			if sentence != "" {
				fmt.Fprintln(&b, t.fit(sentence, 0))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *planReport) writeHead(b *strings.Builder) {
	if r.Insertions == 0 {
		fmt.Fprintln(b, "no insertion is known yet; plan for a number with --insertions 1000")
		return
	}
	where := map[string]string{fromDaemon: "as the daemon knows them", fromStore: "as the store remembers them", fromRequest: "made up"}[r.Source]
	fmt.Fprintf(b, "%s of %s, %s; about %s contact requests a day\n\n", ops.Counted(r.Insertions, "insertion"), ops.Counted(r.Agencies, "agency"), where,
		counted(r.ContactRequestsPerDay))
}

func (r *planReport) writeTable(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "REQUESTS/S\tMEAN\tMEDIAN\t95 %\tIN 1 MIN\tIN 5 MIN\tOLDEST\tTURNS TAKE\tGAIN\tSPENT\t")
	for _, row := range r.Budgets {
		mark := ""
		if row.Configured {
			mark = "→ "
		}
		fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\t%.0f %%\t%.0f %%\t%s\t%s\t%.1f×\t%s\t\n", mark, figure(row.RequestsPerSecond, 3), fromSeconds(row.MeanLatencySeconds),
			fromSeconds(row.MedianLatencySeconds), fromSeconds(row.P95LatencySeconds), 100*row.WithinOneMinute, 100*row.WithinFiveMinutes,
			fromSeconds(row.OldestSeconds), fromSeconds(row.TurnsMeanSeconds), row.Gain, figure(row.PollsPerSecond+row.WalkRequestsPerSecond, 2))
	}
	_ = t.Flush() // a Builder does not fail
}

// fromSeconds is a number of seconds as people say it.
func fromSeconds(s float64) string {
	text := rounded(time.Duration(min(s, math.MaxInt64/2e9) * float64(time.Second)))
	if minutes, whole := strings.CutSuffix(text, "m0s"); whole {
		text = minutes + "m"
	}
	if hours, whole := strings.CutSuffix(text, "h0m"); whole {
		return hours + "h"
	}
	return text
}

// figure keeps so many digits, and all that stand before the point: nobody reads 1e+03 as a thousand.
func figure(v float64, digits int) string {
	if math.Abs(v) >= math.Pow10(digits) {
		return fmt.Sprintf("%.0f", v)
	}
	text := fmt.Sprintf("%.*g", digits, v)
	if strings.Contains(text, "e+") { // rounded up to one digit more
		return fmt.Sprintf("%.0f", v)
	}
	return text
}

// counted is a number of things of which a tenth more or less does not matter.
func counted(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.2g", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func (r *planReport) walksText() string {
	w := r.Walks
	text := fmt.Sprintf("Walks take %s requests/s: %s every %s (DOORBELL_WALK_INTERVAL)", figure(w.RequestsPerSecond, 2), ops.Counted(w.Requests, "request"),
		fromSeconds(w.IntervalSeconds))
	switch {
	case w.PageSize > 0:
		text += fmt.Sprintf(", pages of %d (DOORBELL_PAGE_SIZE)", w.PageSize)
	case r.Source == fromRequest:
		text += fmt.Sprintf(", pages of %d; fewer where the API gives larger ones, which is tried (DOORBELL_PAGE_SIZE)", poller.DefaultPage)
	}
	if w.Wished > w.RequestsPerSecond*1.01 {
		text += fmt.Sprintf(". They would need %s, but get a third while polls wait, so they come every %s", figure(w.Wished, 2),
			fromSeconds(w.IntervalSeconds*w.Wished/w.RequestsPerSecond))
	}
	text += fmt.Sprintf(". Every %s they take %s, and the mean is %s; but a new insertion, and what is written about it, is then seen that much later.",
		fromSeconds(w.LongerIntervalSeconds), figure(w.LongerRequestsPerSecond, 2), fromSeconds(w.LongerMeanLatencySeconds))
	return text
}

func (r *planReport) wishText() string {
	wished := fromSeconds(r.Wished.MeanLatencySeconds)
	if !r.Wished.Possible {
		return fmt.Sprintf("A mean of %s is not possible: no insertion is polled more often than every %s (DOORBELL_POLL_INTERVAL).", wished,
			fromSeconds(r.PollIntervalSeconds))
	}
	return fmt.Sprintf("A mean of %s takes %s requests/s.", wished, figure(roundUp(r.Wished.RequestsPerSecond), 4))
}

func (r *planReport) stalenessText() string {
	if r.MaxStalenessSeconds == 0 {
		return ""
	}
	text := fmt.Sprintf("That no insertion waits longer than %s (DOORBELL_MAX_STALENESS) takes %s requests/s", fromSeconds(r.MaxStalenessSeconds),
		figure(roundUp(r.StalenessNeeds), 4))
	for _, row := range r.Budgets {
		if row.Configured && r.StalenessNeeds > row.RequestsPerSecond {
			text += fmt.Sprintf(": more than the %s there are, so they take turns", figure(row.RequestsPerSecond, 3))
		}
	}
	return text + "."
}

func (r *planReport) knownText() string {
	const missing = " Not counted: the time an answer takes, failures, and that a new insertion waits for a walk."
	switch {
	case r.LearnedFrom == 0:
		return "Assumed: how contact requests spread over insertions, after public figures; with other insertions the figures are others, " +
			"and the daemon must learn which these are." + missing
	case r.LearnedFrom < fewLearned:
		return fmt.Sprintf("Learned from %s, which is little: the figures will change.", ops.Counted(r.LearnedFrom, "contact request")) + missing
	}
	return fmt.Sprintf("Learned from %s.", ops.Counted(r.LearnedFrom, "contact request")) + missing
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
