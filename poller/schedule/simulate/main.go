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
	"strconv"
	"strings"
	"sync"
	"time"

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
	{name: "1k-5", about: "1,000 insertions, 5 a second", market: trace.Market{Insertions: 1000}},
	{name: "10k-1", about: "10,000 insertions, 1 a second", run: trace.Run{Budget: 1}},
	{name: "betray-100", about: "records betray contact requests, 100 on a page", run: trace.Run{Records: trace.Records{Betray: true}}},
	{name: "betray-20", about: "the same, 20 on a page", run: trace.Run{Page: 20, Records: trace.Records{Betray: true}}},
	{name: "volatile", about: "records change on every reading", run: trace.Run{Records: trace.Records{Always: true}}},
	{name: "edits", about: "20 edits a day of each record", run: trace.Run{Records: trace.Records{Edits: 20}}},
	{name: "betray-edits", about: "records betray, and others of their members are edited and change on every reading", run: trace.Run{Records: trace.Records{Betray: true, Edits: 20, Always: true}}},
	{name: "two", about: "two agencies, the first 20 times hotter", market: trace.Market{Agencies: 2, Hot: 20}, together: true},
	{name: "eight", about: "8 insertions, an interval of 30 s", market: trace.Market{Insertions: 8}, run: trace.Run{Interval: 30 * time.Second}},
}

// goals are what must be reached on average over the seeds.
var goals = []struct {
	row, what string
	most      bool // else least
	than      float64
	figure    func(m *measured) float64
}{
	{"10k-5", "times better than taking turns", false, 2.15, (*measured).better},
	{"10k-5", "times what an oracle needs", true, 1.17, (*measured).against},
	{"betray-100", "times better than taking turns", false, 15, (*measured).better},
	{"two", "times what all insertions in one agency need", true, 1.05, (*measured).apart},
	{"two", "of its fair share gets the agency that has less", false, 0.5, (*measured).least},
	{"eight", "requests a second", true, 0.3, func(m *measured) float64 { return m.seeds[0].perSecond() }},
}

// measured are the figures of a row, by seed.
type measured struct {
	row
	seeds, one []*figures
}

type figures struct{ *trace.Figures }

func (f *figures) perSecond() float64 { return float64(f.Requests) / f.Span.Seconds() }

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
	first, last, two := strings.Cut(*seeds, "-")
	if !two {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 32)
	if err != nil {
		return fmt.Errorf("seeds: %q is no number", first)
	}
	until, err := strconv.ParseUint(last, 10, 32)
	if err != nil || until < from {
		return fmt.Errorf("seeds: %q is no number from %d on", last, from)
	}
	var all []*measured
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
		m := &measured{row: r}
		m.measure(from, until)
		m.print(to)
		all = append(all, m)
	}
	judge(to, all)
	return nil
}

// measure simulates a row with all seeds, as many at a time as there are processors.
func (m *measured) measure(from, until uint64) {
	var all sync.WaitGroup
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	start := func(market trace.Market) *figures {
		f := &figures{}
		all.Go(func() {
			places <- struct{}{}
			f.Figures = m.run.Simulate(market)
			<-places
		})
		return f
	}
	for seed := from; seed <= until; seed++ {
		market := m.market
		market.Seed = seed
		m.seeds = append(m.seeds, start(market))
		if market.Agencies = 1; m.together {
			m.one = append(m.one, start(market))
		}
	}
	all.Wait()
}

// mean is a figure on average over the seeds.
func (m *measured) mean(figure func(n int) float64) (sum float64) {
	for n := range m.seeds {
		sum += figure(n) / float64(len(m.seeds))
	}
	return sum
}

func (m *measured) better() float64 {
	return m.mean(func(n int) float64 { return float64(m.seeds[n].Turns.Mean) / float64(m.seeds[n].Mean()) })
}

func (m *measured) against() float64 {
	return m.mean(func(n int) float64 { return float64(m.seeds[n].Mean()) / float64(m.seeds[n].Oracle.Mean) })
}

func (m *measured) apart() float64 {
	return m.mean(func(n int) float64 { return float64(m.seeds[n].Mean()) / float64(m.one[n].Mean()) })
}

func (m *measured) least() float64 {
	return m.mean(func(n int) float64 {
		f := m.seeds[n]
		return float64(min(f.Agencies[0].Requests, f.Agencies[1].Requests)) / float64(f.Requests) * 2
	})
}

func (m *measured) print(to io.Writer) {
	fmt.Fprintf(to, "\n%s: %s\n  %-9s %9s %9s %9s %9s\n", m.name, m.about, "", "mean", "median", "95 %", "in 5 min")
	line := func(name string, of func(f *figures) schedule.Forecast) {
		fmt.Fprintf(to, "  %-9s", name)
		for k := range 3 {
			fmt.Fprintf(to, " %9s", short(time.Duration(m.mean(func(n int) float64 {
				f := of(m.seeds[n])
				return float64([]time.Duration{f.Mean, f.Median, f.P95}[k])
			}))))
		}
		fmt.Fprintf(to, " %8.0f%%\n", 100*m.mean(func(n int) float64 { return of(m.seeds[n]).WithinFive }))
	}
	line("turns", func(f *figures) schedule.Forecast { return f.Turns })
	line("oracle", func(f *figures) schedule.Forecast { return f.Oracle })
	line("doorbell", func(f *figures) schedule.Forecast {
		return schedule.Forecast{Mean: f.Mean(), Median: f.Quantile(0.5), P95: f.Quantile(0.95), WithinFive: f.Within(5 * time.Minute)}
	})
	fmt.Fprintf(to, "  %.2f × turns, %.3f × oracle; %.3f a second, walks %.1f %%, urgent %.1f %%\n", m.better(), m.against(),
		m.mean(func(n int) float64 { return m.seeds[n].perSecond() }),
		100*m.mean(func(n int) float64 { return float64(m.seeds[n].Walks) / float64(m.seeds[n].Requests) }),
		100*m.mean(func(n int) float64 { return float64(m.seeds[n].Urgents) / float64(m.seeds[n].Requests) }))
}

func judge(to io.Writer, all []*measured) {
	fmt.Fprintf(to, "\ngoals\n")
	mark := map[bool]string{true: "ok", false: "NO"}
	for _, m := range all {
		for _, g := range goals {
			if g.row != m.name {
				continue
			}
			x := g.figure(m)
			fmt.Fprintf(to, "  %s  %s: %.3f %s (%g)\n", mark[x == g.than || (x < g.than) == g.most], m.name, x, g.what, g.than)
		}
		for n, f := range append(slices.Clone(m.seeds), m.one...) {
			if !f.Kept() {
				fmt.Fprintf(to, "  NO  %s, run %d: oldest %s with a cap of %s, %d missed, %d early, one more than the budget in %s\n",
					m.name, n+1, short(f.Oldest), short(f.Cap), f.Missed, f.Early, f.Tightest)
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
