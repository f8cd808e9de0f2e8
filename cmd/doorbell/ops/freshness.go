package ops

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"doorbell/poller"
)

// ceiling is the requests a second that may be sent, and what is left of them.
func (s Status) ceiling() string {
	text := fmt.Sprintf("%g", s.Watch.RequestsPerSecond)
	if left := s.Watch.Effective; left < s.Watch.RequestsPerSecond {
		text += fmt.Sprintf(" (%.4g now, since the API asked for patience)", left)
	}
	return text
}

// freshness says how long insertions wait for a poll and contact requests for their event, a line for each agency.
func (s Status) freshness(o TextOptions) []string {
	if !slices.ContainsFunc(s.Watch.Agencies, func(a poller.AgencyStatus) bool { return a.Freshness != nil }) {
		return nil
	}
	t := table{}
	t.add(styleBold, "AGENCY", "OLDEST POLL", "CAP", "PAST CAP", "MEAN", "MEDIAN", "95 %", "WITHIN 5 MIN", "ASKED WHY")
	for _, a := range InOrder(s.Watch.Agencies) {
		if f := a.Freshness; f != nil {
			l := latency(f.Latency)
			t.add(styleNone, a.AgencyID, seconds(f.OldestSeconds), seconds(f.CapSeconds), fmt.Sprint(f.PastCap), l[0], l[1], l[2], l[3],
				reasons(f.Turns)+hints(f.Hints)+first(f.NeverPolled))
		}
	}
	title := o.wrap("How long insertions wait for a poll, and contact requests of the last 24 h waited for their event:", 0)
	return slices.Concat([]string{""}, title, t.lines(o))
}

func latency(l poller.Latency) [4]string {
	if l.ContactRequests == 0 {
		return [4]string{"-", "-", "-", "-"}
	}
	return [4]string{
		seconds(l.MeanSeconds), seconds(l.MedianSeconds), seconds(l.P95Seconds), fmt.Sprintf("%.0f %% of %d", 100*l.WithinFiveMinutes, l.ContactRequests),
	}
}

// reasons are those for which something was asked, the most frequent first.
func reasons(turns map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(turns), func(x, y string) int {
		return cmp.Or(cmp.Compare(turns[y], turns[x]), strings.Compare(x, y))
	})
	var list []string
	for _, name := range names {
		if turns[name] > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, turns[name]))
		}
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

// hints says how much changes of records betray, where that is used.
func hints(h poller.Hints) string {
	if !h.Acting {
		return ""
	}
	return fmt.Sprintf("; records betray %.0f %%", 100*h.Recall)
}

// first says how many insertions are still to be polled for the first time.
func first(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; never polled yet: %d", n)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
