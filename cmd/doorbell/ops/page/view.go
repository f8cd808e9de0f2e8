package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// view is the page in words, as the template needs it.
type view struct {
	Name, Title                  string
	Headline                     ops.Headline
	At                           moment
	Version, Up, BaseURL, Folder string

	Problems  []problem
	Figures   []figure
	Chart     chart
	Agencies  []agencyRow
	NATS      place
	Store     place
	Receivers []receiverRow
	Tail      []tailLine

	Live, People bool
}

func (h *handler) view(s ops.Status) *view {
	if s.Watch.At.IsZero() {
		s.Watch.At = time.Now()
	}
	v := &view{
		Name: strings.TrimSpace("doorbell " + ops.Short(s.Instance, 40)), Headline: ops.NewHeadline(s), At: at(s.Watch.At, s.Watch.At),
		Version: ops.Short(s.Version, 40), BaseURL: ops.Short(s.Watch.BaseURL, 120), Folder: ops.Short(s.DataDir, 120),
		Chart: newChart(s), Live: h.o.After != nil, People: h.o.ShowPeople, Tail: h.recent(s.Watch.At), Receivers: receiverRows(s),
	}
	v.Headline.Text, v.Headline.Sub = ops.Short(v.Headline.Text, 400), ops.Short(v.Headline.Sub, 300)
	mark := map[ops.Level]string{ops.Bad: "■ ", ops.Warn: "▲ ", ops.Busy: "◌ "}[v.Headline.Level]
	v.Title = mark + ops.Short(v.Headline.Title, 100) + " – " + v.Name
	if !s.Started.IsZero() {
		v.Up = "up " + ops.Span(s.Watch.At.Sub(s.Started))
	}
	for _, p := range s.Problems() {
		v.Problems = append(v.Problems, newProblem(p, s.Watch.At))
	}
	v.Figures = figures(s, v.Chart, v.Tail)
	v.Agencies = h.agencies(s)
	v.NATS, v.Store = natsPlace(s), storePlace(s)
	return v
}

// badge is a state by shape and word, and what it means.
type badge struct {
	Level       ops.Level
	Word, Means string
	Again       bool // the row above says the same
}

// shapes say the same as the levels, for those who see no colours.
var shapes = map[ops.Level]string{ops.Well: "disc", ops.Busy: "ring", ops.Warn: "triangle", ops.Bad: "square"}

// problem is one of ops, fit to stand in the page.
type problem struct {
	Level              ops.Level
	Title, Text, Error string
	Since              moment
	Run                string    // the command that ends it
	Items              []problem // of several that are one: the single ones
	More               int       // that are not even listed
}

// mostListed bounds the single ones of a problem: a key may be that of any number of agencies.
const mostListed = 250

func newProblem(p ops.Problem, now time.Time) problem {
	v := problem{
		Level: ops.Warn, Since: at(p.Since, now), Run: ops.Short(p.Command, 400),
		Title: ops.Short(p.Title, 200), Text: ops.Short(p.Text, 600), Error: ops.Short(p.Error, 300),
	}
	if p.Bad {
		v.Level = ops.Bad
	}
	for _, one := range p.Of[:min(len(p.Of), mostListed)] {
		item := problem{Title: ops.Short(one.Label, 160), Since: at(one.Since, now)}
		if one.Command != p.Command {
			item.Run = ops.Short(one.Command, 400)
		}
		v.Items = append(v.Items, item)
	}
	v.More = len(p.Of) - len(v.Items)
	return v
}

// figure is one number that a person looks for, and what it means.
type figure struct {
	Name, Means, Value, Unit, Sub string
	Halted                        string // agencies that it says nothing new of
	Level                         ops.Level
	Bar                           bool
	Share                         int // of 100, for the bar
}

func figures(s ops.Status, c chart, tail []tailLine) []figure {
	list := []figure{
		lastLead(s, tail),
		{
			Name: "Leads in 24 hours", Means: "Contact requests that are new since the watch began",
			Value: ops.Number(c.Total), Sub: ops.Number(c.Last) + " in this hour",
		},
		latency(s.Watch.Latency), longest(s), insertions(s), budget(s),
	}
	if fresh := ops.Learning(s.Watch.Agencies); fresh == len(s.Watch.Agencies) && c.Total == 0 {
		list[1].Value, list[1].Sub = ops.Unknown, "not watching yet"
	}
	if n := haltedAgencies(s); n > 0 {
		for i := range list[:5] {
			list[i].Halted = ops.Counted(n, "agency") + " halted"
		}
	}
	return list
}

func haltedAgencies(s ops.Status) (n int) {
	for _, a := range s.Watch.Agencies {
		if a.State == "halted" {
			n++
		}
	}
	return n
}

// lastLead is what people look for first.
func lastLead(s ops.Status, tail []tailLine) figure {
	f := figure{Name: "Last lead", Means: "The newest contact request", Value: ops.Unknown, Sub: "none lately"}
	for _, l := range tail {
		if l.Lead && !l.Old {
			f.Value, f.Sub = l.At.Ago, strings.TrimPrefix(l.Title+" · "+l.Agency, " · ")
			break
		}
	}
	return f
}

func latency(l poller.Latency) figure {
	f := figure{
		Name: "From lead to event", Means: "From the moment a lead was written to its event",
		Value: ops.Unknown, Sub: "no lead yet since the start",
	}
	if l.ContactRequests > 0 {
		f.Value, f.Unit, f.Sub = span(l.MedianSeconds), "median", "95 % within "+span(l.P95Seconds)
	}
	return f
}

// budget is what was spent in the last minute of what may be spent.
func budget(s ops.Status) figure {
	w, spent := s.Watch, float64(s.Watch.LastMinute)/60
	f := figure{
		Name: "Requests a second", Means: "Requests to the API in the last minute, of the ceiling DOORBELL_REQUESTS_PER_SECOND",
		Value: rate(spent), Unit: "of " + rate(w.RequestsPerSecond), Bar: true, Sub: ops.Number(int(min(w.Requests, 1e15))) + " since the start",
	}
	if w.RequestsPerSecond > 0 {
		f.Share = int(math.Round(100 * min(1, spent/w.RequestsPerSecond)))
	}
	if s.Throttled() {
		f.Level, f.Sub = ops.Warn, rate(w.Effective)+" now: throttled by the API"
	}
	return f
}

func rate(r float64) string { return strconv.FormatFloat(math.Round(10*r)/10, 'f', -1, 64) }

// longest is how long the insertion waits that waits the longest, of agencies that are polled.
func longest(s ops.Status) figure {
	f := figure{
		Name: "Longest unchecked", Means: "How long ago the contact requests were read of the insertion that waits the longest",
		Value: ops.Unknown, Sub: "nothing polled yet",
	}
	wait, most, past := -1.0, 0.0, 0
	for _, a := range s.Watch.Agencies {
		if a.State == "halted" || !ops.Known(a) || a.Freshness == nil || a.Freshness.Insertions == 0 {
			continue
		}
		wait, most, past = max(wait, a.Freshness.OldestSeconds), max(most, a.Freshness.CapSeconds), past+a.Freshness.PastCap
	}
	if wait >= 0 {
		f.Value, f.Sub = span(wait), "should stay below "+span(most)
	}
	if past > 0 {
		f.Level, f.Sub = ops.Warn, ops.Counted(past, "insertion")+" past "+span(most)
	}
	return f
}

func insertions(s ops.Status) figure {
	n, never := 0, 0
	for _, a := range s.Watch.Agencies {
		n, never = n+a.Insertions, never+firstPolls(a)
	}
	f := figure{Name: "Insertions", Means: "Insertions that the last walks have listed", Value: ops.Unknown, Sub: "of " + ops.Counted(len(s.Watch.Agencies), "agency")}
	if slices.ContainsFunc(s.Watch.Agencies, ops.Known) {
		f.Value = ops.Number(n)
	}
	if never > 0 {
		f.Sub = ops.Number(never) + " not polled yet"
	}
	return f
}

// firstPolls are insertions of an agency that were never polled.
func firstPolls(a poller.AgencyStatus) int {
	if !ops.Known(a) || a.Freshness == nil {
		return 0
	}
	return a.Freshness.NeverPolled
}

// agencyRow is one agency.
type agencyRow struct {
	ID, Name            string // Name is for people; may be empty
	State               badge
	Insertions, LeftOut string // members that change at each reading
	Walk                moment
	Partial             string // why the last walk was
	Oldest, Late        string // Late is how many wait too long
	Latency, P95        string
	Leads, Waiting      string
}

func (h *handler) agencies(s ops.Status) (rows []agencyRow) {
	waiting, leads := map[string]uint64{}, map[string]int{}
	for _, r := range s.Relay {
		waiting[r.AgencyID] = r.Pending
	}
	for _, a := range s.Hours {
		for _, hour := range a.Hours {
			leads[a.AgencyID] += hour.Leads
		}
	}
	for _, a := range ops.InOrder(s.Watch.Agencies) {
		r := newAgencyRow(a, s.Watch.At)
		r.Name = strings.TrimSpace(strings.TrimPrefix(h.name(a.AgencyID), r.ID))
		if r.State.Level != ops.Busy || leads[a.AgencyID] > 0 {
			r.Leads = ops.Number(leads[a.AgencyID])
		}
		if n := waiting[a.AgencyID]; n > 0 {
			r.Waiting = ops.Number(int(min(n, 1e15))) + " wait for NATS"
		}
		r.State.Again = len(rows) > 0 && rows[len(rows)-1].State.Word == r.State.Word
		rows = append(rows, r)
	}
	return rows
}

func newAgencyRow(a poller.AgencyStatus, now time.Time) agencyRow {
	state := ops.StateOf(a)
	r := agencyRow{
		ID: ops.Short(a.AgencyID, 64), State: badge{Level: state.Level, Word: ops.Short(state.Word, 30), Means: state.Means},
		Insertions: ops.Unknown, LeftOut: ops.Short(ops.LeftOut(a), 300), Walk: at(a.LastCompleteWalk, now), Oldest: ops.Unknown, Latency: ops.Unknown, Leads: ops.Unknown,
	}
	if state.Level == ops.Well && ops.Ill(a) {
		r.State = badge{Level: ops.Warn, Word: "see above", Means: "It is watched, but for what is said above."}
	}
	if l := a.LastWalk; !l.Complete && l.Reason != "" {
		r.Partial = "last was partial: " + ops.Short(strings.ReplaceAll(l.Reason, "_", " "), 40)
	}
	if !ops.Known(a) {
		return r
	}
	r.Insertions = ops.Number(a.Insertions)
	if f := a.Freshness; f != nil {
		if f.Insertions > 0 {
			r.Oldest = span(f.OldestSeconds)
		}
		if f.NeverPolled > 0 {
			r.Late = ops.Number(f.NeverPolled) + " never yet"
		}
		if f.PastCap > 0 {
			r.Late = ops.Number(f.PastCap) + " too long"
		}
		if f.Latency.ContactRequests > 0 {
			r.Latency, r.P95 = span(f.Latency.MedianSeconds), "95 % in "+span(f.Latency.P95Seconds)
		}
	}
	return r
}

// place is where events are kept.
type place struct {
	State           badge
	Text, URL, Name string
}

func natsPlace(s ops.Status) place {
	n := place{State: badge{Level: ops.Well, Word: "connected"}, Text: "external", URL: ops.Short(s.NATS.URL, 200), Name: ops.Short(s.NATS.Stream, 80)}
	if s.NATS.Embedded {
		n.Text = "embedded"
	}
	switch {
	case !s.NATS.Connected:
		n.State = badge{Level: ops.Bad, Word: "not connected"}
	case s.NATS.Problem != "":
		n.State = badge{Level: ops.Bad, Word: "not usable"}
	}
	if waiting := s.Pending(); waiting > 0 {
		n.Text = ops.Counted(int(waiting), "event") + " waiting, " + n.Text
	}
	return n
}

func storePlace(s ops.Status) place {
	p := place{State: badge{Level: ops.Well, Word: "has room"}, Text: ops.BytesText(s.Store.InUse)}
	if s.Store.Max > 0 {
		p.Text += " of " + ops.BytesText(s.Store.Max)
	}
	switch {
	case s.Store.Full:
		p.State = badge{Level: ops.Bad, Word: "full"}
	case s.Store.Alarm:
		p.State = badge{Level: ops.Warn, Word: "nearly full"}
	}
	return p
}

// receiverRow is one kind of events to one destination.
type receiverRow struct {
	Name, To      string
	State         badge
	Sent, Waiting string
	Last          moment
	DeadLetters   int
}

func receiverRows(s ops.Status) (rows []receiverRow) {
	for _, f := range s.Forwarders {
		r := receiverRow{
			Name: ops.Short(f.Name, 60), To: ops.Short(f.To(), 80), State: badge{Level: ops.Well, Word: "works"},
			Sent: ops.Number(int(min(f.Events, 1e15))), Waiting: ops.Number(int(min(f.Waiting, 1e15))),
			Last: at(f.LastSent, s.Watch.At), DeadLetters: int(min(f.DeadLetters, 1e9)),
		}
		if trouble := f.Trouble(s.Watch.At); trouble != "" {
			r.State = badge{Level: ops.Warn, Word: trouble, Means: ops.Short(f.LastError, 300)}
		}
		r.State.Again = len(rows) > 0 && rows[len(rows)-1].State.Word == r.State.Word
		rows = append(rows, r)
	}
	return rows
}

const chartHours = 24

// chart is the last 24 hours as bars; they stand on a ground of 240 by 100.
type chart struct {
	Total, Most, Last int // Last is the hour that runs
	Bars              []bar
	Description       string
}

type bar struct {
	X             int
	Y, Height     string
	Title         string
	Running, Away bool // Away: nothing was watched
}

func newChart(s ops.Status) (c chart) {
	first := s.Watch.At.UTC().Truncate(time.Hour).Add(-(chartHours - 1) * time.Hour)
	leads, watched := [chartHours]int{}, [chartHours]bool{}
	away := map[string]map[time.Time]bool{}
	for _, a := range s.Hours {
		away[a.AgencyID] = map[time.Time]bool{}
		for _, h := range a.Hours {
			away[a.AgencyID][h.At.UTC()] = h.Away
			if n := int(h.At.Sub(first) / time.Hour); !h.At.Before(first) && n < chartHours {
				leads[n] += h.Leads
			}
		}
	}
	for n := range chartHours {
		from := first.Add(time.Duration(n) * time.Hour)
		for _, a := range s.Watch.Agencies {
			watched[n] = watched[n] || !away[a.AgencyID][from] && watchedIn(a, from)
		}
	}
	c.Most, c.Last = slices.Max(leads[:]), leads[chartHours-1]
	for n, count := range leads {
		c.Total += count
		from := first.Add(time.Duration(n)*time.Hour).Format("15:04") + " UTC: "
		b := bar{X: 10*n + 1, Running: n == chartHours-1, Title: from + ops.Counted(count, "lead")}
		switch {
		case count > 0:
			height := max(2.5, 100*float64(count)/float64(c.Most))
			b.Y, b.Height = fmt.Sprintf("%.4g", 100-height), fmt.Sprintf("%.4g", height)
		case !watched[n]:
			b.Away, b.Title, b.Y, b.Height = true, from+"nothing was watched", "0", "100"
		default:
			continue
		}
		c.Bars = append(c.Bars, b)
	}
	if c.Description = "None in the last 24 hours."; c.Total > 0 {
		c.Description = fmt.Sprintf("%s in the last 24 hours, at most %s in an hour.", ops.Counted(c.Total, "lead"), ops.Number(c.Most))
	}
	return c
}

// watchedIn reports whether an agency was watched in the hour from a moment, as far as its state now
// tells.
func watchedIn(a poller.AgencyStatus, from time.Time) bool {
	if !a.WatchStart.Before(from.Add(time.Hour)) {
		return false
	}
	for _, h := range a.Halts {
		if h.Scope != "insertion" && !h.Since.After(from) {
			return false
		}
	}
	return !slices.ContainsFunc(a.Alarms, func(l poller.Alarm) bool { return l.Kind == "stale" && !l.Since.After(from) })
}

// span is a duration in seconds, which may be any number, for people.
func span(seconds float64) string {
	if !(seconds > 0) { // NaN too
		seconds = 0
	}
	return ops.Span(time.Duration(min(seconds, 1e9) * float64(time.Second)))
}

// moment is a time: UTC as it is rendered, which the script tells in the reader's zone.
type moment struct{ ISO, Text, Full, Ago string }

func (m moment) Known() bool { return m.ISO != "" }

// at describes a moment seen from now: the clock today, the date else.
func at(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	t, now = t.UTC(), now.UTC()
	m := moment{ISO: t.Format(time.RFC3339), Full: t.Format("2006-01-02 15:04:05") + " UTC", Text: t.Format("15:04"), Ago: "now"}
	age := now.Sub(t).Round(time.Second)
	if age.Abs() > 20*time.Hour {
		m.Text = t.Format("Jan 2, 15:04")
	}
	if age >= 2*time.Second {
		m.Ago = ops.Span(age) + " ago"
	}
	return m
}
