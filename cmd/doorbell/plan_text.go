package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// fewLearned is how many contact requests are too few to learn rates from.
const fewLearned = 200

func (r *planReport) writeText(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	if r.Insertions > 0 {
		r.writeTable(&b)
		fmt.Fprintln(&b)
		for _, sentence := range []string{r.walksText(), r.wishText(), r.stalenessText(), r.knownText()} {
			if sentence != "" {
				fmt.Fprintln(&b, wrapped(sentence, 0))
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
	fmt.Fprintf(b, "%s of %s, %s; about %s contact requests a day\n\n", several(r.Insertions, "insertion"), agenciesText(r.Agencies), where,
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
		fmt.Fprintf(t, "%s%.3g\t%s\t%s\t%s\t%.0f %%\t%.0f %%\t%s\t%s\t%.1f×\t%.2g\t\n", mark, row.RequestsPerSecond, fromSeconds(row.MeanLatencySeconds),
			fromSeconds(row.MedianLatencySeconds), fromSeconds(row.P95LatencySeconds), 100*row.WithinOneMinute, 100*row.WithinFiveMinutes,
			fromSeconds(row.OldestSeconds), fromSeconds(row.TurnsMeanSeconds), row.Gain, row.PollsPerSecond+row.WalkRequestsPerSecond)
	}
	_ = t.Flush() // a Builder does not fail
}

// fromSeconds is a number of seconds as people say it.
func fromSeconds(s float64) string {
	text := rounded(time.Duration(min(s, math.MaxInt64/2e9) * float64(time.Second)))
	if minutes, whole := strings.CutSuffix(text, "m0s"); whole {
		return minutes + "m"
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
	text := fmt.Sprintf("Walks take %.2g requests/s: %s every %s (DOORBELL_WALK_INTERVAL)", w.RequestsPerSecond, several(w.Requests, "request"),
		fromSeconds(w.IntervalSeconds))
	if w.PageSize > 0 {
		text += fmt.Sprintf(", pages of %d (DOORBELL_PAGE_SIZE)", w.PageSize)
	}
	if w.Wished > w.RequestsPerSecond*1.01 {
		text += fmt.Sprintf(". They would need %.2g, but get a third while polls wait, so they come every %s", w.Wished,
			fromSeconds(w.IntervalSeconds*w.Wished/w.RequestsPerSecond))
	}
	text += fmt.Sprintf(". Every %s they take %.2g, and the mean is %s; but a new insertion, and what is written about it, is then seen that much later.",
		fromSeconds(w.LongerIntervalSeconds), w.LongerRequestsPerSecond, fromSeconds(w.LongerMeanLatencySeconds))
	return text
}

func (r *planReport) wishText() string {
	wished := fromSeconds(r.Wished.MeanLatencySeconds)
	if !r.Wished.Possible {
		return fmt.Sprintf("A mean of %s is not possible: no insertion is polled more often than every %s (DOORBELL_POLL_INTERVAL).", wished,
			fromSeconds(r.PollIntervalSeconds))
	}
	return fmt.Sprintf("A mean of %s takes %.4g requests/s.", wished, roundUp(r.Wished.RequestsPerSecond))
}

func (r *planReport) stalenessText() string {
	if r.MaxStalenessSeconds == 0 {
		return ""
	}
	text := fmt.Sprintf("That no insertion waits longer than %s (DOORBELL_MAX_STALENESS) takes %.4g requests/s", fromSeconds(r.MaxStalenessSeconds),
		roundUp(r.StalenessNeeds))
	for _, row := range r.Budgets {
		if row.Configured && r.StalenessNeeds > row.RequestsPerSecond {
			text += fmt.Sprintf(": more than the %.3g there are, so they take turns", row.RequestsPerSecond)
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
		return fmt.Sprintf("Learned from %s, which is little: the figures will change.", several(r.LearnedFrom, "contact request")) + missing
	}
	return fmt.Sprintf("Learned from %s.", several(r.LearnedFrom, "contact request")) + missing
}
