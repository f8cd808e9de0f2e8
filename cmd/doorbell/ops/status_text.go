package ops

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// WriteText renders the status for people, whole.
func (s Status) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(s.Lines(TextOptions{}), "\n")+"\n")
	return err
}

// Lines renders the status for people. Agencies that want a look come first. What is wrong stands at the end, where the eye is when
// all of it has passed; but where only so many lines are seen at once it stands above the agencies, of which some are left out.
func (s Status) Lines(o TextOptions) []string {
	head, agencies, fresh := s.head(o), s.agencyTable(o), s.freshness(o)
	forwarders, troubles := s.forwarderTable(o), append(s.forwarderTroubles(o), s.troubles(o)...)
	if o.Height <= 0 {
		return slices.Concat(head, agencies, fresh, forwarders, troubles)
	}
	if most := max(o.Height/2, 1); len(troubles) > most {
		troubles = append(troubles[:most-1], o.cut(fmt.Sprintf("… and %d more lines: doorbell status prints all", len(troubles)-most+1)))
	}
	shown := slices.Concat(head, troubles, forwarders)
	if len(shown)+len(agencies)+len(fresh) <= o.Height {
		return slices.Concat(shown, agencies, fresh)
	}
	if room := max(o.Height-len(shown), 4); len(agencies) > room {
		agencies = append(agencies[:room-1], o.cut(fmt.Sprintf("… and %d more agencies", len(agencies)-room+1)))
	}
	shown = append(shown, agencies...)
	return shown[:min(len(shown), o.Height)]
}

func (s Status) head(o TextOptions) (lines []string) {
	add := func(style, format string, args ...any) {
		for _, l := range o.wrap(fmt.Sprintf(format, args...), 0) {
			lines = append(lines, o.styled(l, style))
		}
	}
	if !s.Running {
		add(styleYellow, "doorbell is not running; this is what %s remembers", s.DataDir)
	} else {
		add(styleNone, "doorbell %s, up %s, %s (%d in the last minute), at most %s a second, to %s",
			s.Version, age(s.Started, s.Watch.At), Counted(int(s.Watch.Requests), "request"), s.Watch.LastMinute, s.ceiling(), s.Watch.BaseURL)
		style := styleNone
		if !s.NATS.Connected || s.NATS.Problem != "" {
			style = styleRed
		}
		add(style, "%s", s.NATS.text())
		if s.Page != "" {
			add(styleNone, "Page: %s", s.Page)
		}
	}
	for _, text := range s.Store.sentences() {
		add(styleRed, "%s", text)
	}
	if s.Watch.NoSpace && !s.Store.Full {
		add(styleRed, "The disk is full: nothing is asked until there is space for %s", s.DataDir)
	}
	if s.Watch.Down != "" {
		add(styleRed, "The API does not answer; next try %s", s.Watch.Down)
	}
	if text := s.counted(); text != "" {
		add(styleNone, "%s", text)
	}
	return lines
}

// fewAgencies are counted at a glance.
const fewAgencies = 9

// counted says of many agencies how many stand how.
func (s Status) counted() string {
	all := s.Watch.Agencies
	if len(all) <= fewAgencies {
		return ""
	}
	insertions, states, count := 0, []string{}, map[string]int{}
	for _, a := range InOrder(all) {
		if count[a.State]++; count[a.State] == 1 {
			states = append(states, a.State)
		}
		insertions += a.Insertions
	}
	for n, state := range states {
		states[n] = fmt.Sprintf("%d %s", count[state], state)
	}
	return fmt.Sprintf("%d agencies with %s: %s", len(all), Counted(insertions, "insertion"), strings.Join(states, ", "))
}

func (s Status) agencyTable(o TextOptions) []string {
	t := table{}
	t.add(styleBold, "AGENCY", "STATE", "INSERTIONS", "LAST COMPLETE WALK", "EVENTS", "WAITING")
	for _, a := range InOrder(s.Watch.Agencies) {
		style := styleNone
		switch rank(a) {
		case 0:
			style = styleRed
		case 1:
			style = styleYellow
		}
		t.add(style, a.AgencyID, a.State, fmt.Sprint(a.Insertions), ago(a.LastCompleteWalk, s.Watch.At), fmt.Sprint(a.LastSequence), fmt.Sprint(s.pending(a.AgencyID)))
	}
	return append([]string{""}, t.lines(o)...)
}

func (s Status) pending(agencyID string) uint64 {
	for _, r := range s.Relay {
		if r.AgencyID == agencyID {
			return r.Pending
		}
	}
	return 0
}

func (n NATSStatus) text() string {
	kind, state := "external", "connected"
	if n.Embedded {
		kind = "embedded"
	}
	if !n.Connected {
		state = "not connected"
	}
	text := fmt.Sprintf("NATS: %s, %s, stream %s", kind, state, n.Stream)
	if n.URL != "" {
		text += ", " + n.URL
	}
	if n.Problem != "" {
		text += "; " + n.Problem
	}
	return text
}

func age(since, now time.Time) string { return now.Sub(since).Round(time.Second).String() }

func ago(at, now time.Time) string {
	if at.IsZero() {
		return "none yet"
	}
	return age(at, now) + " ago"
}
