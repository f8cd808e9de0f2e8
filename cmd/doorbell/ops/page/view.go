package page

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/poller"
)

// view is the page in words, as the template needs it.
type view struct {
	Headline headline
	At       moment
	Version  string
	Up       string
	BaseURL  string
	DataDir  string

	Steps      []step
	Problems   []problem
	Figures    []figure
	Chart      chart
	Agencies   agencyList
	NATS       natsView
	Store      storeView
	Forwarders []forwarderRow
	Tail       []tailLine

	Live, People bool
}

func (h *handler) view(s ops.Status, q url.Values) *view {
	if s.Watch.At.IsZero() {
		s.Watch.At = time.Now()
	}
	v := &view{
		At: at(s.Watch.At, s.Watch.At), Version: ops.Short(s.Version, 40), Up: uptime(s), BaseURL: ops.Short(s.Watch.BaseURL, 120), DataDir: ops.Short(s.DataDir, 120),
		Live: h.o.After != nil, People: h.o.ShowPeople,
	}
	v.Problems = problems(s)
	v.Headline = newHeadline(s)
	v.Steps = steps(s)
	v.Chart = newChart(s)
	v.Figures = h.figures(s, v.Chart)
	if lead := v.Figures[0]; len(v.Problems) > 0 && lead.Value != unknown {
		v.Headline.Sub = strings.TrimSuffix("Last lead "+lead.Value+": "+lead.Sub, ": ")
	}
	v.Agencies = h.agencies(s, v.Chart, q)
	v.NATS, v.Store = newNATSView(s), newStoreView(s)
	v.Forwarders = forwarderRows(s)
	return v
}

// step is one of those from the start to the watch.
type step struct {
	Text       string
	Detail     string
	Done, Now  bool
	Share, All int // of progress; All 0: none is shown
}

// steps are shown until the first agency is watched.
func steps(s ops.Status) []step {
	agencies := s.Watch.Agencies
	if len(agencies) == 0 || ops.Learning(agencies) < len(agencies) {
		return nil
	}
	walked, insertions, never := 0, 0, 0
	for _, a := range agencies {
		if !a.LastCompleteWalk.IsZero() {
			walked++
		}
		insertions += a.Insertions
		never += firstPolls(a)
	}
	list := []step{
		{Text: "Read the lists of insertions", Detail: fmt.Sprintf("%d of %s, %s so far", walked, ops.Counted(len(agencies), "agency"), ops.Counted(insertions, "insertion")), Done: walked == len(agencies)},
		{Text: "Read them once more, to be sure that this is all", Detail: "until two readings agree"},
		{Text: "Poll the contact requests of every insertion", Detail: fmt.Sprintf("%s of %s", ops.Number(insertions-min(never, insertions)), ops.Number(insertions)), Share: insertions - min(never, insertions), All: insertions},
		{Text: "Watch", Detail: "anything new from now on is announced"},
	}
	if insertions == 0 { // their number is not known yet
		list[0].Detail, list[2].Detail = "", ""
	}
	list[2].Done = list[0].Done && insertions > 0 && never == 0
	for n := range list {
		if !list[n].Done {
			list[n].Now = true
			break
		}
	}
	return list
}

func firstPolls(a poller.AgencyStatus) int {
	switch {
	case !ops.Known(a):
		return 0
	case a.Freshness != nil:
		return a.Freshness.NeverPolled
	}
	return a.FirstPolls
}

// unknown stands where nothing is known yet.
const unknown = ops.Unknown

// figure is one number that a person looks for.
type figure struct {
	Name, Value, Unit, Sub string
	Tone                   tone
	Bar                    bool
	Share                  int // of 100, for the bar
}

func (h *handler) figures(s ops.Status, c chart) []figure {
	list := []figure{
		h.lastLeadFigure(s, c), leadsFigure(s, c), latencyFigure(s.Watch.Latency), oldestFigure(s), insertionsFigure(s), budgetFigure(s),
	}
	if w := waitingFigure(s); s.Pending() > 0 || w.Tone != "" {
		list = append(list, w)
	}
	return list
}

// lastLeadFigure is what people look for first.
func (h *handler) lastLeadFigure(s ops.Status, c chart) figure {
	f := figure{Name: "Last lead", Value: unknown, Sub: "none in 24 hours"}
	if h.o.Recent != nil {
		for _, e := range slices.Backward(h.o.Recent()) {
			if e.Type == events.TypeContactRequestCreated && e.Origin != events.OriginBaseline {
				t := h.tell(e)
				f.Value, f.Sub = at(e.RecordedTime, s.Watch.At).Ago, strings.TrimPrefix(t.Title+" · "+t.Agency, " · ")
				return f
			}
		}
	}
	for n, hour := range slices.Backward(c.Hours) {
		if hour.leads > 0 {
			f.Value, f.Sub = "about "+ops.Span(time.Duration(len(c.Hours)-n)*time.Hour)+" ago", ""
			return f
		}
	}
	if ops.Learning(s.Watch.Agencies) == len(s.Watch.Agencies) {
		f.Sub = "none yet"
	}
	return f
}

func leadsFigure(s ops.Status, c chart) figure {
	f := figure{Name: "Leads in 24 hours", Value: ops.Number(c.Leads.Total), Sub: ops.Number(c.Leads.Last) + " in this hour"}
	if c.Leads.Total == 0 && ops.Learning(s.Watch.Agencies) == len(s.Watch.Agencies) {
		f.Value, f.Sub = unknown, "not watching yet"
	}
	return f
}

func latencyFigure(l poller.Latency) figure {
	f := figure{Name: "From lead to event", Value: unknown, Sub: "no lead yet since the start"}
	if l.ContactRequests > 0 {
		f.Value, f.Unit = ops.Span(seconds(l.MedianSeconds)), "median"
		f.Sub = "95 % within " + ops.Span(seconds(l.P95Seconds))
	}
	return f
}

// budgetFigure is what was spent in the last minute of what may be spent.
func budgetFigure(s ops.Status) figure {
	w := s.Watch
	spent := float64(w.LastMinute) / 60
	f := figure{Name: "Requests a second", Value: rate(spent), Unit: "of " + rate(w.RequestsPerSecond), Bar: true, Sub: ops.Number(int(min(w.Requests, 1e15))) + " since the start"}
	if w.RequestsPerSecond > 0 {
		f.Share = int(math.Round(100 * min(1, spent/w.RequestsPerSecond)))
	}
	if s.Throttled() {
		f.Tone, f.Sub = warn, fmt.Sprintf("%s now: throttled by the API", rate(w.Effective))
	}
	return f
}

func rate(r float64) string {
	if r >= 9.95 || r == math.Trunc(r) {
		return strconv.FormatFloat(r, 'f', 0, 64)
	}
	return strconv.FormatFloat(r, 'g', 2, 64)
}

func oldestFigure(s ops.Status) figure {
	f := figure{Name: "Longest unchecked", Value: unknown, Sub: "nothing polled yet"}
	longest, most, past, halted, starting := time.Duration(-1), time.Duration(0), 0, 0, false
	for _, a := range s.Watch.Agencies {
		if a.State == "halted" { // nothing is polled there, which is shown as such
			halted++
			continue
		}
		if !ops.Known(a) {
			starting = starting || a.State == "starting"
			continue
		}
		if o, ok := oldest(a, s.Watch.At); ok {
			longest = max(longest, o)
		}
		if a.Freshness != nil {
			most, past = max(most, seconds(a.Freshness.CapSeconds)), past+a.Freshness.PastCap
		}
	}
	if halted > 0 {
		f.Sub = "polling stopped"
	}
	if longest >= 0 {
		f.Value, f.Sub = ops.Span(longest.Round(time.Second)), "should stay below "+ops.Span(most)
		if starting { // the limit grows with the insertions that are found
			f.Sub = "of the insertions known so far"
		}
	}
	if past > 0 {
		f.Tone, f.Sub = warn, ops.Counted(past, "insertion")+" past "+ops.Span(most)
	}
	return f
}

// oldest is how long the insertion of an agency waits that waits the longest.
func oldest(a poller.AgencyStatus, now time.Time) (time.Duration, bool) {
	switch {
	case a.Freshness != nil && a.Freshness.Insertions > 0:
		return seconds(a.Freshness.OldestSeconds), true
	case !a.OldestPoll.IsZero():
		return now.Sub(a.OldestPoll), true
	}
	return 0, false
}

func insertionsFigure(s ops.Status) figure {
	n, never := 0, 0
	for _, a := range s.Watch.Agencies {
		n, never = n+a.Insertions, never+firstPolls(a)
	}
	f := figure{Name: "Insertions", Value: insertionsText(n, slices.ContainsFunc(s.Watch.Agencies, ops.Known)), Sub: "of " + ops.Counted(len(s.Watch.Agencies), "agency")}
	if never > 0 {
		f.Sub = ops.Number(never) + " not polled yet"
	}
	return f
}

func waitingFigure(s ops.Status) figure {
	n := int(min(s.Pending(), 1e12))
	f := figure{Name: "Waiting for NATS", Value: ops.Number(n), Sub: "events, kept in the log"}
	if !s.NATS.Connected || s.NATS.Problem != "" {
		f.Tone, f.Sub = bad, "kept in the log until NATS works"
	}
	return f
}

// natsView is where events go.
type natsView struct {
	State       badge
	Kind        string
	URL, Stream string
}

func newNATSView(s ops.Status) natsView {
	n := natsView{State: badge{well, "disc", "connected"}, Kind: "external", URL: ops.Short(s.NATS.URL, 200), Stream: ops.Short(s.NATS.Stream, 80)}
	if s.NATS.Embedded {
		n.Kind = "embedded"
	}
	switch {
	case !s.NATS.Connected:
		n.State = badge{bad, "triangle", "not connected"}
	case s.NATS.Problem != "":
		n.State = badge{bad, "triangle", "not usable"}
	}
	return n
}

// storeView is how full the store is.
type storeView struct {
	State badge
	Text  string
	Share int
}

func newStoreView(s ops.Status) storeView {
	v := storeView{State: badge{well, "disc", "has room"}, Text: ops.BytesText(s.Store.InUse)}
	if s.Store.Max > 0 {
		v.Text += " of " + ops.BytesText(s.Store.Max)
		v.Share = int(min(100, 100*float64(s.Store.InUse)/float64(s.Store.Max)))
	}
	switch {
	case s.Store.Full:
		v.State = badge{bad, "square", "full"}
	case s.Store.Alarm:
		v.State = badge{warn, "triangle", "nearly full"}
	}
	return v
}

// forwarderRow is one kind of events to one destination.
type forwarderRow struct {
	Key               string
	State             badge
	Name, Destination string
	Sent, Waiting     string
	Last              moment
	DeadLetters       int
}

func forwarderRows(s ops.Status) (rows []forwarderRow) {
	for _, f := range s.Forwarders {
		r := forwarderRow{
			Key: "f" + key(f.Name, f.Kind, f.Destination), Name: ops.Short(f.Name+" "+f.Kind, 60), Destination: ops.Middle(f.To(), 80), State: badge{well, "disc", "works"},
			Sent: ops.Number(int(min(f.Events, 1e15))), Waiting: ops.Number(int(min(f.Waiting, 1e15))), Last: at(f.LastSent, s.Watch.At), DeadLetters: int(min(f.DeadLetters, 1e9)),
		}
		if trouble := f.Trouble(s.Watch.At); trouble != "" {
			r.State = badge{warn, "triangle", trouble}
		}
		rows = append(rows, r)
	}
	return rows
}
