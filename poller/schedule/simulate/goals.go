package main

import (
	"fmt"
	"io"

	"doorbell/poller/schedule/trace"
)

// goals prints what must be reached, and what was.
func goals(to io.Writer, all map[string]*measured) {
	fmt.Fprintf(to, "\ngoals\n")
	say := func(ok bool, format string, args ...any) {
		mark := "ok"
		if !ok {
			mark = "NO"
		}
		fmt.Fprintf(to, "  %s  %s\n", mark, fmt.Sprintf(format, args...))
	}
	real, turns, oracle := trace.Real.String(), trace.Turns.String(), trace.CappedOracle.String()
	if m := all[plain]; m != nil {
		mean, least, _ := ratio(m.column(turns), m.column(real))
		say(mean >= 2.15, "against taking turns %.2f on average (2.15), %.2f at least", mean, least)
		for _, name := range []string{trace.Oracle.String(), oracle} {
			if m.column(name) == nil {
				continue
			}
			mean, _, most := ratio(m.column(real), m.column(name))
			say(mean <= 1.17, "against the %s %.3f on average (1.17), %.3f at most", name, mean, most)
		}
	}
	if m := all[betray]; m != nil {
		mean, least, _ := ratio(m.column(turns), m.column(real))
		say(mean >= 15, "records that betray, 100 on a page, against taking turns %.1f on average (15), %.1f at least", mean, least)
	}
	for _, name := range []string{volatil, "edits"} {
		if m, p := all[name], all[plain]; m != nil && p != nil {
			mean, _, most := ratio(m.column(real), p.column(real))
			say(mean <= 1.03, "loss through %s: %.1f %% on average (3), %.1f %% at most", m.about, 100*(mean-1), 100*(most-1))
		}
	}
	if m := all[two]; m != nil {
		sharing(m, say)
	}
	if m := all[eight]; m != nil {
		s := m.column(real).all.PerSecond()
		say(s <= 0.3, "8 insertions: %.3f requests a second (0.3)", s)
	}
	promises(all, say)
}

// sharing prints what two agencies get of the budget of one key.
func sharing(m *measured, say func(bool, string, ...any)) {
	real := m.column(trace.Real.String())
	for k, a := range real.all.Agencies {
		share := float64(a.Requests) * float64(len(real.all.Agencies)) / float64(real.all.Requests)
		say(share >= 0.5, "agency %d gets %.0f %% of its fair share (50), mean %s", k+1, 100*share, short(a.Mean()))
	}
	mean, _, most := ratio(real, m.column("one agency"))
	say(mean <= 1.05, "two agencies against one with all insertions: %.3f on average (1.05), %.3f at most", mean, most)
	mean, _, most = ratio(real, m.column(trace.CappedOracle.String()))
	say(true, "and against an oracle over both: %.3f on average, %.3f at most", mean, most)
}

// promises prints whether what is promised was kept in every run.
func promises(all map[string]*measured, say func(bool, string, ...any)) {
	kept, forced := true, 0
	for _, m := range all {
		if c := m.column(trace.Real.String()); c != nil {
			kept = kept && c.all.Kept()
			forced += c.all.Forced
		}
	}
	say(kept, "no insertion older than the cap, no second over the budget, nothing missed")
	say(forced == 0, "lists are read without being forced to")
}
