package cli

import (
	"fmt"
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

// text is for people. Where the terminal is too narrow for a row of each budget, each has a column.
func (r *planReport) text(t Terminal) string {
	if r.Insertions == 0 {
		return "No insertions are known yet. To plan for a number, use --insertions 1000\n"
	}
	where := map[string]string{fromDaemon: "as the daemon knows them", fromStore: "as the store remembers them", fromRequest: "made up"}[r.Source]
	text := fmt.Sprintf("%s of %s, %s; about %s contact requests a day\n\n", ops.Counted(r.Insertions, "insertion"), ops.Counted(r.Agencies, "agency"), where,
		counted(r.ContactRequestsPerDay))
	rows := r.table()
	table := ops.Aligned(rows, tabwriter.AlignRight)
	if line, _, _ := strings.Cut(table, "\n"); t.is && len(line) > t.Width {
		columns := make([]string, strings.Count(rows[0], "\t"))
		for _, row := range rows {
			for n, cell := range strings.Split(row, "\t")[:len(columns)] {
				columns[n] += cell + "\t"
			}
		}
		table = ops.Aligned(columns, tabwriter.AlignRight)
	}
	text += table + "\n"
	for _, sentence := range []string{r.walksText(), r.wishText(), r.stalenessText(), r.knownText()} {
		if sentence != "" {
			text += t.Prose(sentence, 0) + "\n"
		}
	}
	return text
}

func (r *planReport) table() []string {
	rows := []string{"REQUESTS/S\tMEAN\tMEDIAN\t95 %\tIN 1 MIN\tIN 5 MIN\tOLDEST\tTURNS TAKE\tGAIN\tSPENT\t"}
	for _, row := range r.Budgets {
		mark := ""
		if row.Configured {
			mark = "→ "
		}
		rows = append(rows, fmt.Sprintf("%s%s\t%s\t%s\t%s\t%.0f %%\t%.0f %%\t%s\t%s\t%.1f×\t%s\t", mark, figure(row.RequestsPerSecond, 3), fromSeconds(row.MeanLatencySeconds),
			fromSeconds(row.MedianLatencySeconds), fromSeconds(row.P95LatencySeconds), 100*row.WithinOneMinute, 100*row.WithinFiveMinutes,
			fromSeconds(row.OldestSeconds), fromSeconds(row.TurnsMeanSeconds), row.Gain, figure(row.PollsPerSecond+row.WalkRequestsPerSecond, 2)))
	}
	return rows
}

// fromSeconds is a number of seconds as people say it.
func fromSeconds(s float64) string {
	d, unit := time.Duration(min(s, math.MaxInt64/2e9)*float64(time.Second)), time.Minute
	switch {
	case d < time.Second:
		unit = time.Millisecond
	case d < 10*time.Minute:
		unit = time.Second
	}
	text := d.Round(unit).String()
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
	return ops.Number(int(math.Round(n)))
}

func (r *planReport) walksText() string {
	w := r.Walks
	text := fmt.Sprintf("Walks take %s requests/s: %s every %s (DOORBELL_WALK_INTERVAL)", figure(w.RequestsPerSecond, 2), ops.Counted(w.Requests, "request"),
		fromSeconds(w.IntervalSeconds))
	switch {
	case w.PageSize > 0:
		text += fmt.Sprintf(", pages of %d (DOORBELL_PAGE_SIZE)", w.PageSize)
	case r.Source == fromRequest:
		text += fmt.Sprintf(", pages of %d; fewer if the API allows larger pages, which is tried (DOORBELL_PAGE_SIZE)", poller.DefaultPage)
	}
	if w.Wished > w.RequestsPerSecond*1.01 {
		text += fmt.Sprintf(". They would need %s, but get at most a third while polls wait, so one comes every %s", figure(w.Wished, 2),
			fromSeconds(w.IntervalSeconds*w.Wished/w.RequestsPerSecond))
	}
	text += fmt.Sprintf(". With one every %s they take %s and the mean is %s, but new insertions, and contact requests for them, are found later.",
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
	text := fmt.Sprintf("Polling every insertion within %s (DOORBELL_MAX_STALENESS) takes %s requests/s", fromSeconds(r.MaxStalenessSeconds),
		figure(roundUp(r.StalenessNeeds), 4))
	for _, row := range r.Budgets {
		if row.Configured && r.StalenessNeeds > row.RequestsPerSecond {
			text += fmt.Sprintf(": more than the %s there are, so they are polled in turn, as fast as that allows", figure(row.RequestsPerSecond, 3))
		}
	}
	return text + "."
}

func (r *planReport) knownText() string {
	text := fmt.Sprintf("Learned from %s.", ops.Counted(r.LearnedFrom, "contact request"))
	switch {
	case r.LearnedFrom == 0:
		text = "The rates are assumed, after public figures. Yours will differ, and the daemon learns them."
	case r.LearnedFrom < fewLearned:
		text = fmt.Sprintf("Learned from only %s: the figures will change.", ops.Counted(r.LearnedFrom, "contact request"))
	}
	text += " Not counted: failures, and that a new insertion waits for a walk"
	if r.AnswerSeconds == 0 {
		text += "; nor the time an answer takes, which is not known yet"
	}
	return text + "."
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
