package page

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/poller"
)

// agencyList is the table of agencies, as a person wants to see it.
type agencyList struct {
	Query string
	Sort  string
	Sorts []sorting
	Total int
	Rows  []agencyRow
}

// sorting is one order of the table.
type sorting struct {
	Name, Text string
	less       func(a, b *agencyRow) int
}

var sortings = []sorting{
	{"state", "problems first", nil}, // as ops.InOrder has it
	{"name", "name", func(a, b *agencyRow) int { return strings.Compare(a.ID, b.ID) }},
	{"leads", "most leads", func(a, b *agencyRow) int { return cmp.Compare(b.leads, a.leads) }},
	{"insertions", "most insertions", func(a, b *agencyRow) int { return cmp.Compare(b.insertions, a.insertions) }},
	{"oldest", "oldest poll", func(a, b *agencyRow) int { return cmp.Compare(b.oldest, a.oldest) }},
	{"latency", "slowest leads", func(a, b *agencyRow) int { return cmp.Compare(b.latency, a.latency) }},
}

// agencyRow is one agency.
type agencyRow struct {
	Key, ID    string
	Name       string // for people; may be empty
	State      badge
	Note       string
	Insertions string
	LeftOut    string // members that change at each reading
	Walk       moment
	Verdict    string // of the last walk, where it was partial
	Oldest     string
	Late       string // how many wait too long
	Latency    string
	P95        string
	Leads      string
	Spark      string // a path
	Waiting    string

	insertions int
	leads      int
	oldest     time.Duration
	latency    float64
}

func (h *handler) agencies(s ops.Status, c chart, q url.Values) agencyList {
	l := agencyList{Query: ops.Short(q.Get("q"), 100), Sort: sortings[0].Name, Sorts: sortings, Total: len(s.Watch.Agencies)}
	order := sortings[0]
	if n := slices.IndexFunc(sortings, func(o sorting) bool { return o.Name == q.Get("sort") }); n >= 0 {
		order, l.Sort = sortings[n], sortings[n].Name
	}
	waiting := map[string]uint64{}
	for _, r := range s.Relay {
		waiting[r.AgencyID] = r.Pending
	}
	for _, a := range ops.InOrder(s.Watch.Agencies) {
		r := newAgencyRow(a, s.Watch.At)
		r.Name = strings.TrimSpace(strings.TrimPrefix(h.name(a.AgencyID), r.ID))
		if r.State.Tone == well && ops.Ill(a) {
			r.Note = "see above"
		}
		r.leads, r.Spark = c.agency(a.AgencyID)
		if r.Leads = ops.Number(r.leads); r.leads == 0 && r.State.Tone == busy {
			r.Leads = unknown // so far
		}
		if n := waiting[a.AgencyID]; n > 0 {
			r.Waiting = ops.Number(int(min(n, 1e15)))
		}
		if r.matches(l.Query) {
			l.Rows = append(l.Rows, r)
		}
	}
	if order.less != nil {
		slices.SortStableFunc(l.Rows, func(a, b agencyRow) int { return order.less(&a, &b) })
	}
	return l
}

func newAgencyRow(a poller.AgencyStatus, now time.Time) agencyRow {
	r := agencyRow{
		Key: "a-" + events.Token(a.AgencyID), ID: ops.Short(a.AgencyID, 64), State: newBadge(ops.StateOf(a).Level, ops.StateOf(a).Word),
		Insertions: insertionsText(a.Insertions, ops.Known(a)), insertions: a.Insertions, LeftOut: ops.LeftOut(a),
		Walk: at(a.LastCompleteWalk, now), Oldest: unknown, Latency: unknown,
	}
	if l := a.LastWalk; !l.Complete && l.Reason != "" {
		r.Verdict = partial(l.Reason)
	}
	if o, ok := oldest(a, now); ok && ops.Known(a) {
		r.oldest, r.Oldest = o, ops.Span(o.Round(time.Second))
	}
	if n := firstPolls(a); n > 0 {
		r.Late = ops.Number(n) + " never yet"
	}
	if f := a.Freshness; f != nil && ops.Known(a) {
		if f.PastCap > 0 {
			r.Late = ops.Number(f.PastCap) + " too long"
		}
		if f.Latency.ContactRequests > 0 {
			r.latency = f.Latency.MedianSeconds
			r.Latency, r.P95 = ops.Span(seconds(f.Latency.MedianSeconds)), ops.Span(seconds(f.Latency.P95Seconds))
		}
	}
	return r
}

// matches says whether all words of a query are in the agency's id or state.
func (r *agencyRow) matches(query string) bool {
	text := strings.ToLower(r.ID + " " + r.Name + " " + r.State.Word + " " + r.Note)
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// insertionsText shows no zero that is not known yet.
func insertionsText(n int, known bool) string {
	if !known {
		return unknown
	}
	return ops.Number(n)
}
