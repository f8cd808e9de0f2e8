// Command simulate prints what the scheduler is worth: how long contact requests wait until they are found, against other
// ways to spend the same budget.
//
//	go run ./poller/schedule/simulate
package main

import (
	"fmt"
	"time"

	"doorbell/poller/schedule/trace"
)

func main() {
	run := trace.Run{}
	t := trace.New(trace.Market{Seed: 1, Span: run.Needs(10_000)})
	for _, p := range []trace.Policy{trace.Turns, trace.Proportional, trace.Oracle, trace.CappedOracle, trace.Real} {
		f := run.Simulate(t, p)
		fmt.Printf("%-14s mean %8s p50 %8s p99 %8s within5 %4.1f%% req/s %.3f walks %d forced %d urgent %d oldest %s/%s tight %s missed %d kept %v  %s\n", p, f.Mean().Round(time.Second),
			f.Quantile(.5).Round(time.Second), f.Quantile(.99).Round(time.Second), 100*f.Within(), f.PerSecond(), f.Walks, f.Forced, f.Urgents, f.Oldest.Round(time.Second), f.Cap, f.Tightest, f.Missed, f.Kept(), f.Spent.Round(time.Millisecond))
	}
}
