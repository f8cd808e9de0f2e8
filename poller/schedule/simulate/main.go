// Command simulate prints what the scheduler is worth: how long contact requests wait until they are found, against taking
// turns and against an oracle that knows the true rates, as far as these need no simulation.
//
//	go run ./poller/schedule/simulate -seeds 1-5
//	go run ./poller/schedule/simulate -seeds 1 -row 10k-5,two
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"doorbell/poller/schedule"
	"doorbell/poller/schedule/trace"
)

// row is one of the table. With together it is simulated once more with all insertions in one agency.
type row struct {
	name, about string
	market      trace.Market
	run         trace.Run
	together    bool
}

var rows = []row{
	{name: "10k-5", about: "10,000 insertions, 5 requests a second"},
	{name: "births", about: "records say when they were published", run: trace.Run{Births: true}},
	{name: "betray-100", about: "records betray contact requests, 100 on a page", run: trace.Run{Betray: true}},
	{name: "two", about: "two agencies, the first 20 times hotter", market: trace.Market{Agencies: 2, Hot: 20}, together: true},
	{name: "eight", about: "8 insertions, an interval of 30 s", market: trace.Market{Insertions: 8}, run: trace.Run{Interval: 30 * time.Second}},
}

// result is what a row showed with one seed.
type result struct {
	*trace.Figures
	together *trace.Figures // nil: not simulated
}

func (r result) better() float64  { return float64(r.Turns.Mean) / float64(r.Found.Mean) }
func (r result) against() float64 { return float64(r.Found.Mean) / float64(r.Oracle.Mean) }

// goals are what must be reached on average over the seeds.
var goals = []struct {
	row, what string
	most      bool // else least
	than      float64
	figure    func(result) float64
}{
	{"10k-5", "times better than taking turns", false, 2.15, result.better},
	{"10k-5", "times what an oracle needs", true, 1.17, result.against},
	{"betray-100", "times better than taking turns", false, 15, result.better},
	{"two", "times what all insertions in one agency need", true, 1.05, func(r result) float64 { return float64(r.Found.Mean) / float64(r.together.Found.Mean) }},
	{"two", "of its fair share gets the agency that has less", false, 0.5, func(r result) float64 { return 2 * float64(slices.Min(r.Requests)) / r.PerSecond() / r.Span.Seconds() }},
	{"eight", "requests a second", true, 0.3, func(r result) float64 { return r.PerSecond() }},
}

func main() {
	if err := simulate(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func simulate(args []string, to io.Writer) error {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	set := flag.NewFlagSet("simulate", flag.ContinueOnError)
	seeds := set.String("seeds", "1-5", "the seed of the market, or the first and the last")
	wished := set.String("row", strings.Join(names, ","), "rows, with commas")
	n := set.Int("n", 0, "insertions, in all rows")
	rate := set.Float64("rate", 0, "requests a second, in all rows")
	days := set.Float64("days", 14, "days that are measured, after one that is not")
	if err := set.Parse(args); err != nil {
		return err
	}
	var first, last uint32
	switch n, _ := fmt.Sscanf(*seeds, "%d-%d", &first, &last); {
	case n == 1:
		last = first
	case n == 0 || last < first:
		return fmt.Errorf("seeds: %q is no seed and no range like 1-5", *seeds)
	}
	all := map[string][]result{}
	for _, name := range strings.Split(*wished, ",") {
		k := slices.Index(names, name)
		if k < 0 {
			return fmt.Errorf("there is no row %q: %s", name, strings.Join(names, " "))
		}
		r := rows[k]
		r.run.Measured = time.Duration(*days * float64(trace.Day))
		if *n > 0 {
			r.market.Insertions = *n
		}
		if *rate > 0 {
			r.run.Budget = *rate
		}
		all[name] = r.simulate(first, last)
		r.print(to, all[name])
	}
	judge(to, all)
	return nil
}

// simulate runs a row with all seeds, as many at a time as there are processors.
func (r row) simulate(first, last uint32) []result {
	var running errgroup.Group
	running.SetLimit(runtime.GOMAXPROCS(0))
	start := func(f **trace.Figures, m trace.Market) {
		running.Go(func() error { *f = r.run.Simulate(m); return nil })
	}
	results := make([]result, last-first+1)
	for n := range results {
		market := r.market
		market.Seed = uint64(first) + uint64(n)
		start(&results[n].Figures, market)
		if market.Agencies = 1; r.together {
			start(&results[n].together, market)
		}
	}
	_ = running.Wait() // nothing fails
	return results
}

// mean is a figure on average over the seeds.
func mean(results []result, figure func(result) float64) (sum float64) {
	for _, r := range results {
		sum += figure(r) / float64(len(results))
	}
	return sum
}

func (r row) print(to io.Writer, results []result) {
	fmt.Fprintf(to, "\n%s: %s\n  %-9s %9s %9s %9s %9s\n", r.name, r.about, "", "mean", "median", "95 %", "in 5 min")
	for _, line := range []struct {
		name string
		of   func(result) schedule.Forecast
	}{
		{"turns", func(r result) schedule.Forecast { return r.Turns }},
		{"oracle", func(r result) schedule.Forecast { return r.Oracle }},
		{"doorbell", func(r result) schedule.Forecast { return r.Found }},
	} {
		fmt.Fprintf(to, "  %-9s", line.name)
		for k := range 3 {
			d := mean(results, func(r result) float64 {
				f := line.of(r)
				return float64([]time.Duration{f.Mean, f.Median, f.P95}[k])
			})
			fmt.Fprintf(to, " %9s", short(time.Duration(d)))
		}
		fmt.Fprintf(to, " %8.0f%%\n", 100*mean(results, func(r result) float64 { return line.of(r).WithinFive }))
	}
	fmt.Fprintf(to, "  %.2f × turns, %.3f × oracle; %.3f a second, walks %.1f %%\n",
		mean(results, result.better), mean(results, result.against), mean(results, func(r result) float64 { return r.PerSecond() }),
		100*mean(results, func(r result) float64 { return r.Walks }))
}

// judge says which goals are reached, and which promises were broken.
func judge(to io.Writer, all map[string][]result) {
	fmt.Fprintf(to, "\ngoals\n")
	mark := map[bool]string{true: "ok", false: "NO"}
	for _, g := range goals {
		if results := all[g.row]; results != nil {
			x := mean(results, g.figure)
			fmt.Fprintf(to, "  %s  %s: %.3f %s (%g)\n", mark[x == g.than || (x < g.than) == g.most], g.row, x, g.what, g.than)
		}
	}
	for name, results := range all {
		for _, r := range results {
			for _, f := range []*trace.Figures{r.Figures, r.together} {
				if f != nil && !f.Kept() {
					fmt.Fprintf(to, "  NO  %s: oldest %s with a cap of %s, %d missed, %d early\n", name, short(f.Oldest), short(f.Cap), f.Missed, f.Early)
				}
			}
		}
	}
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
