package main

import (
	"fmt"
	"io"
	"time"

	"doorbell/poller/schedule/trace"
)

// column is a policy in a row, one result for each seed.
type column struct {
	name    string
	policy  trace.Policy
	results []*result
	seeds   []*trace.Figures
	all     *trace.Figures // of all seeds
}

// measured is a row that was simulated.
type measured struct {
	row
	columns []*column
}

// wish adds the simulations of a row to the work.
func wish(w *work, r row, from, to uint64) *measured {
	if r.seeds > 0 {
		to = min(to, from+uint64(r.seeds)-1)
	}
	m := &measured{row: r}
	for _, p := range r.policies {
		m.columns = append(m.columns, &column{name: p.String(), policy: p})
	}
	if r.together {
		m.columns = append(m.columns, &column{name: "one agency", policy: trace.Real})
	}
	for seed := from; seed <= to; seed++ {
		for k, c := range m.columns {
			j := job{r.market, r.run, c.policy}
			j.market.Seed = seed
			if j.market.Insertions == 0 {
				j.market.Insertions = 10_000
			}
			j.market.Span = j.run.Needs(j.market.Insertions)
			if k >= len(r.policies) {
				j.market.Agencies = 1
			}
			c.results = append(c.results, w.add(j))
		}
	}
	return m
}

// wait waits until a row has been simulated.
func (m *measured) wait() {
	for _, c := range m.columns {
		for _, r := range c.results {
			<-r.done
			c.seeds = append(c.seeds, r.figures)
		}
		all := *c.seeds[0]
		all.Agencies = append([]trace.Share(nil), all.Agencies...)
		for _, f := range c.seeds[1:] {
			all.Merge(f)
		}
		c.all = &all
	}
}

// column returns that of a name, or nil.
func (m *measured) column(name string) *column {
	for _, c := range m.columns {
		if c.name == name {
			return c
		}
	}
	return nil
}

// ratio returns by how much the mean latency of one is larger than that of another with the same seed: on average, and
// the least and the most of all seeds.
func ratio(over, under *column) (mean, least, most float64) {
	if over == nil || under == nil {
		return 0, 0, 0
	}
	for k := range over.seeds {
		x := float64(over.seeds[k].Mean()) / float64(under.seeds[k].Mean())
		mean += x / float64(len(over.seeds))
		if k == 0 || x < least {
			least = x
		}
		most = max(most, x)
	}
	return mean, least, most
}

func (m *measured) print(to io.Writer) {
	fmt.Fprintf(to, "\n%s: %s, %s\n", m.name, m.about, count(len(m.columns[0].seeds), "seed"))
	fmt.Fprintf(to, "  %-13s %8s %8s %8s %7s  %-18s %-18s %7s %6s %7s %9s  %s\n",
		"", "mean", "median", "p99", "≤ 5 min", "better than turns", "against oracle", "a s", "walks", "urgent", "oldest", "kept")
	for _, c := range m.columns {
		f := c.all
		fmt.Fprintf(to, "  %-13s %8s %8s %8s %6.1f%%  %-18s %-18s %7.3f %5.1f%% %6.1f%% %9s  %s\n",
			c.name, short(f.Mean()), short(f.Quantile(.5)), short(f.Quantile(.99)), 100*f.Within(),
			spread(ratio(m.column(trace.Turns.String()), c)), spread(ratio(c, m.column(trace.CappedOracle.String()))),
			f.PerSecond(), part(f.Walks, f.Requests), part(f.Urgents, f.Requests), short(f.Oldest), kept(f))
	}
}

func kept(f *trace.Figures) string {
	switch {
	case f.Kept() && f.Forced > 0:
		return fmt.Sprintf("yes, but %d pages had to be forced", f.Forced)
	case f.Kept():
		return "yes"
	case f.Cap == 0 || f.Oldest <= f.Cap:
		return fmt.Sprintf("NO: %d missed, %d early, one more than the budget in %s", f.Missed, f.Early, f.Tightest)
	}
	return "NO: the cap is " + short(f.Cap)
}

func spread(mean, least, most float64) string {
	if mean == 0 {
		return ""
	}
	return fmt.Sprintf("%5.2f (%.2f–%.2f)", mean, least, most)
}

func part(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d < 100*time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d < 100*time.Minute:
		return fmt.Sprintf("%.3g min", d.Minutes())
	}
	return fmt.Sprintf("%.3g h", d.Hours())
}
