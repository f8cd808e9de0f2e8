// Command simulate prints what the scheduler is worth: how long contact requests wait until they are found, against other
// ways to spend the same budget.
//
//	go run ./poller/schedule/simulate -help
//	go run ./poller/schedule/simulate -seeds 1-5
//	go run ./poller/schedule/simulate -seeds 1 -row 10k-5,two
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/poller/schedule/trace"
)

// options of the command.
type options struct {
	from, to uint64 // seeds
	names    []string
	policies []string
	change   func(*row)
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = simulate(os.Stdout, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func parse(args []string) (o options, err error) {
	set := flag.NewFlagSet("simulate", flag.ExitOnError)
	seeds := set.String("seeds", "1-5", "the seed of the market, or the first and the last")
	names := set.String("row", "", "rows, with commas; all if none is given: "+strings.Join(rowNames(), " "))
	policies := set.String("policies", "", "what is simulated in these rows, with commas; else as the row says: turns, proportional, oracle, capped, doorbell")
	n := set.Int("n", 0, "insertions, in all rows")
	rate := set.Float64("rate", 0, "requests a second, in all rows")
	days := set.Float64("days", 0, "days that are measured, after one that is not")
	births := set.Bool("births", false, "records say when they were published")
	_ = set.Parse(args)
	o.change = func(r *row) {
		if *n > 0 {
			r.market.Insertions = *n
		}
		if *rate > 0 {
			r.run.Budget = *rate
		}
		r.run.Measured = time.Duration(*days * float64(trace.Day))
		r.run.Births = r.run.Births || *births
	}
	o.names, o.policies = fields(*names), fields(*policies)
	o.from, o.to, err = span(*seeds)
	return o, err
}

func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

// span reads a number, or two with a hyphen between.
func span(s string) (from, to uint64, err error) {
	first, last, two := strings.Cut(s, "-")
	if !two {
		last = first
	}
	from, err = strconv.ParseUint(first, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("seeds: %q is no number", first)
	}
	to, err = strconv.ParseUint(last, 10, 32)
	if err != nil || to < from {
		return 0, 0, fmt.Errorf("seeds: %q is no number from %d on", last, from)
	}
	return from, to, nil
}

func rowNames() (names []string) {
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}

var policyNames = map[string]trace.Policy{
	"turns": trace.Turns, "proportional": trace.Proportional, "oracle": trace.Oracle, "capped": trace.CappedOracle, "doorbell": trace.Real,
}

// chosen are the rows that are wished for.
func chosen(o options) (all []row, err error) {
	var policies []trace.Policy
	for _, name := range o.policies {
		p, ok := policyNames[name]
		if !ok {
			return nil, fmt.Errorf("there is no policy %q", name)
		}
		policies = append(policies, p)
	}
	for _, name := range o.names {
		if !slices.Contains(rowNames(), name) {
			return nil, fmt.Errorf("there is no row %q: %s", name, strings.Join(rowNames(), " "))
		}
	}
	for _, r := range rows {
		if len(o.names) > 0 && !slices.Contains(o.names, r.name) {
			continue
		}
		if policies != nil {
			r.policies = policies
		}
		o.change(&r)
		all = append(all, r)
	}
	return all, nil
}

func simulate(to io.Writer, o options) error {
	all, err := chosen(o)
	if err != nil {
		return err
	}
	w, measures, byName := newWork(), []*measured{}, map[string]*measured{}
	for _, r := range all {
		m := wish(w, r, o.from, o.to)
		measures, byName[r.name] = append(measures, m), m
	}
	w.begin()
	for _, m := range measures {
		m.wait()
		m.print(to)
	}
	if len(o.policies) == 0 {
		goals(to, byName)
	}
	return nil
}
