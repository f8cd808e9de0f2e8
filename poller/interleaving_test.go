package poller_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// interleavings is how many cases each rendering gets besides the one that is always the same. For more than a hundred give
// -rapid.checks as well. A failure prints the flags that repeat it.
var interleavings = flag.Int("interleavings", 0, "drawn cases of TestAnyInterleavingEndsWithExactlyTheEventsOfTheModel per rendering")

// plan is what happens in one case, drawn before it runs, so that it can be made smaller.
type plan struct {
	announce bool
	switches bool  // settings change at every restart
	old      []int // contact requests of each insertion that exists at the beginning
	steps    []happening
}

// happening is one thing that happens, and how long nothing else does afterwards.
type happening struct {
	what       string
	which, how int // of what there is, modulo
	wait       time.Duration
}

func (h happening) String() string {
	return fmt.Sprintf("%s(%d,%d)+%s", h.what, h.which, h.how, h.wait)
}

var (
	ages = []time.Duration{0, time.Second, 50 * time.Minute, 30 * time.Hour, 400 * time.Hour}
	// happenings are weighted by how often they stand here.
	happenings = strings.Fields(`publish publish withdraw withdraw again again edit edit edit contact contact contact contact
		late late burst burst twin untimed score score status status redact forget forget fault fault fault fault clear restart restart shift shift`)
)

func drawPlan(rt *rapid.T) plan {
	step := rapid.Custom(func(rt *rapid.T) happening {
		return happening{
			what: rapid.SampledFrom(happenings).Draw(rt, "what"), which: rapid.IntRange(0, 99).Draw(rt, "which"), how: rapid.IntRange(0, 99).Draw(rt, "how"),
			wait: rapid.SampledFrom([]time.Duration{0, 0, 7 * time.Second, time.Minute, 4 * time.Minute, 11 * time.Minute, 25 * time.Minute}).Draw(rt, "wait"),
		}
	})
	return plan{
		announce: rapid.IntRange(0, 3).Draw(rt, "announce") == 0,
		switches: rapid.IntRange(0, 2).Draw(rt, "switches") == 0,
		old:      rapid.SliceOfN(rapid.IntRange(0, 3), 0, 10).Draw(rt, "old"),
		steps:    rapid.SliceOfN(step, 0, 40).Draw(rt, "steps"),
	}
}

// TestAnyInterleavingEndsWithExactlyTheEventsOfTheModel lets anything happen in any order, faults and restarts too. Once
// faults have stopped and time has passed, the log holds exactly what the model expects.
func TestAnyInterleavingEndsWithExactlyTheEventsOfTheModel(t *testing.T) {
	for n, r := range append(sandbox.Renderings(), styles()...) {
		if raced && n%8 != 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			usual := rapid.Custom(drawPlan).Example(n)
			usual.steps = append(usual.steps, // in each of them a person is erased, after a poll or before it
				happening{what: "contact", wait: time.Duration(n%2) * 4 * time.Minute}, happening{what: "forget", wait: 4 * time.Minute})
			if wrong := interleave(t, r, usual); wrong != "" {
				t.Error(wrong)
			}
			cases, failed := 0, false
			rapid.Check(t, func(rt *rapid.T) {
				if cases++; cases > *interleavings && !failed {
					return
				}
				wrong := interleave(t, r, drawPlan(rt))
				if failed = wrong != ""; failed {
					rt.Fatal(wrong)
				}
			})
		})
	}
}

// interleave runs a plan and returns what is wrong at its end.
func interleave(t *testing.T, r sandbox.Rendering, p plan) string {
	r.MaxPageSize = min(r.MaxPageSize, 3) // so that the few insertions of a plan fill pages
	var wrong []string
	inBubble(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
		s := &simulation{world: w, plan: p, ids: r.IDs, endless: r.NoTotals, nameless: r.IDs == sandbox.IDAbsent, zoneless: r.TimeLayout == sandbox.TimeZoneless}
		wrong = s.run()
	})
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%s\nafter %v", strings.Join(wrong[:min(len(wrong), 10)], "\n"), p)
}

// styles are ways of paging and of naming that the families leave out. Windows of them all show everything: what cannot be
// seen at all is another test.
func styles() []sandbox.Rendering {
	style := func(name string, change func(*sandbox.Rendering)) sandbox.Rendering {
		r := sandbox.Flat()
		r.Name = "flat, " + name
		change(&r)
		return r
	}
	return []sandbox.Rendering{
		style("without ids", func(r *sandbox.Rendering) { r.IDs = sandbox.IDAbsent }),
		style("without totals", func(r *sandbox.Rendering) { r.NoTotals = true }),
		style("from page 0", func(r *sandbox.Rendering) { r.PageBase = 0 }),
		style("from page 1, ten at most", func(r *sandbox.Rendering) { r.PageBase, r.MaxPageSize = 1, 10 }),
		style("from page 0, four at most", func(r *sandbox.Rendering) { r.PageBase, r.MaxPageSize, r.NoTotals = 0, 4, true }),
		style("404 past the end", func(r *sandbox.Rendering) { r.MaxPageSize, r.PastEnd = 5, 404 }),
		style("416 past the end", func(r *sandbox.Rendering) { r.MaxPageSize, r.PastEnd = 5, 416 }),
		style("the last page again", func(r *sandbox.Rendering) { r.MaxPageSize, r.PastEnd = 5, sandbox.LastPageAgain }),
		style("sizes refused", func(r *sandbox.Rendering) {
			r.PageSizes = sandbox.Sizes{Least: math.MaxInt, Status: 422}
			r.WindowSizes = sandbox.Sizes{Most: 100, Status: 413}
		}),
		style("epoch milliseconds", func(r *sandbox.Rendering) { r.TimeLayout = sandbox.EpochMilliseconds }),
	}
}

// simulation is a plan that happens to a world.
type simulation struct {
	*world
	plan
	ids      sandbox.IDs
	nameless bool // contact requests have no id
	loose    bool // they have none at times
	zoneless bool // times name no zone
	restarts int
	endless  bool      // no total distinguishes a refused page from the end of the list
	made     time.Time // of every insertion
	begin    time.Time

	references []string
	leads      []*inquiry

	mu     sync.Mutex
	shifts int // pages that move under a walk
	calls  int
	fault  *sandbox.Fault
	kind   happening
	failed []time.Time // answers of contact requests
}

// inquiry is a contact request as the model of this test knows it.
type inquiry struct {
	id, reference string
	number        int // in its address; twins share it
	created       time.Time
	added         time.Time
	untimed       bool
	old           bool // there at the begin
	redacted      time.Time
	statuses      int
	forgotten     string // the id under which it was erased from the log; empty: it was not
	announced     int    // how often it was by then
	length        uint64 // of the log after that
}

func (s *simulation) run() (wrong []string) {
	s.options.Announce, s.loose = s.announce, s.nameless || s.switches
	s.options.PollInterval, s.options.WalkInterval = 2*time.Minute, 5*time.Minute
	s.made = time.Now()
	for _, n := range s.old {
		s.newInsertion()
		for i := range n {
			s.newLead(len(s.references)-1, ages[2+i], 0).old = true
		}
	}
	s.begin = time.Now()
	s.start()
	s.pass(20 * time.Minute)
	s.model.SetFault(s.decide)
	for _, h := range s.steps {
		s.happen(h)
		s.pass(h.wait)
	}
	s.model.SetFault(nil)
	s.pass(3 * time.Hour)
	listed := func(i sandbox.InsertionTruth) bool { return i.VisibleAt(time.Now()) }
	if !slices.ContainsFunc(s.model.Truth().Insertions, listed) {
		s.pass(24 * time.Hour) // so long an empty list is not believed
	}
	return s.judge()
}

const form = "2027-01-%02d"

func (s *simulation) newInsertion() {
	s.references = append(s.references, fmt.Sprintf("a#%d##", len(s.references)))
	s.republish(len(s.references)-1, 1)
}

func (s *simulation) republish(n, version int) {
	err := s.model.Publish("A100", sandbox.Insertion{
		Reference: s.references[n], OfferType: "RENT", RankType: "TOP", AvailableFrom: fmt.Sprintf(form, version), CreatedAt: s.made,
	})
	s.must(err)
}

func (s *simulation) newLead(n int, age, delay time.Duration) *inquiry {
	l := &inquiry{reference: s.references[n], number: len(s.leads), created: time.Now().Add(-age), added: time.Now()}
	if s.loose { // two of one moment whose persons are erased would be one
		l.created = l.created.Add(-time.Duration(l.number) * time.Second)
	}
	return s.add(l, delay)
}

func (s *simulation) add(l *inquiry, delay time.Duration) *inquiry {
	c := sandbox.ContactRequest{
		CreatedAt: l.created, VisibleFrom: time.Now().Add(delay), Score: 50, FirstName: "Nora", Status: "S0",
		Email: fmt.Sprintf("nora%d@example.org", l.number), Message: "Guten Tag",
	}
	if l.untimed {
		c.Extra = map[string]json.RawMessage{"createdAt": json.RawMessage(`"soon"`)}
	}
	var err error
	l.id, err = s.model.AddContactRequest("A100", l.reference, c)
	s.must(err)
	s.leads = append(s.leads, l)
	return l
}

// restartOtherwise restarts, with other settings where they change.
func (s *simulation) restartOtherwise() {
	s.halt()
	if s.restarts++; s.switches {
		s.options.API.IDFields = [][]string{nil, {"none"}}[s.restarts%2]
		s.options.IgnoreContact = [][]string{nil, {"/message"}, {"/viewingTimes", "/firstName"}}[s.restarts%3]
		s.options.API.IgnoreInsertions = [][]string{{"/views"}, nil}[s.restarts%2]
	}
	s.start()
}

// happen does one thing; what cannot be done is left out.
func (s *simulation) happen(h happening) {
	switch {
	case h.what == "restart":
		s.restartOtherwise()
		return
	case h.what == "forget" && len(s.leads) > 0:
		l := s.leads[h.which%len(s.leads)]
		if h.how%2 == 0 {
			l = s.leads[len(s.leads)-1] // perhaps no poll has shown it yet
		}
		s.forget(l)
		s.happenToLead(happening{what: "status", how: h.how}, l) // what changes then is no news
		return
	}
	s.mu.Lock() // the API publishes, too
	defer s.mu.Unlock()
	switch h.what {
	case "publish":
		if len(s.references) < 14 {
			s.newInsertion()
		}
		return
	case "fault":
		s.kind, s.fault = h, faults[h.which%len(faults)]
		return
	case "clear":
		s.fault = nil
		return
	case "shift":
		s.shifts += 1 + h.how%3
		return
	}
	if len(s.references) > 0 {
		s.happenTo(h, h.which%len(s.references))
	}
	if len(s.leads) > 0 {
		s.happenToLead(h, s.leads[h.which%len(s.leads)])
	}
}

func (s *simulation) happenTo(h happening, n int) {
	switch reference := s.references[n]; h.what {
	case "withdraw":
		_ = s.model.Withdraw("A100", reference) // perhaps it is already
	case "again":
		s.republish(n, 1+h.how%3)
	case "edit":
		_ = s.model.Edit("A100", reference, func(i *sandbox.Insertion) { i.AvailableFrom = fmt.Sprintf(form, 1+h.how%3) })
	case "contact":
		if s.room(reference) {
			s.newLead(n, ages[h.how%len(ages)], 0)
		}
	case "late":
		if s.room(reference) {
			s.newLead(n, ages[h.how%3], time.Duration(1+h.how)*30*time.Second)
		}
	case "burst":
		for i := range 25 { // of different moments: of one alone nothing could be proved
			if s.room(reference) {
				s.newLead(n, time.Duration(i)*time.Second, 0)
			}
		}
	case "untimed":
		if s.room(reference) {
			s.add(&inquiry{reference: reference, number: len(s.leads), created: time.Now(), added: time.Now(), untimed: true}, 0)
		}
	}
}

// room keeps windows smaller than what every rendering shows at once.
func (s *simulation) room(reference string) bool {
	n := 0
	for _, l := range s.leads {
		if l.reference == reference {
			n++
		}
	}
	return n < 48
}

// forget erases a contact request from the log, also one that was never announced or polled. One without an id is known by its events alone.
func (s *simulation) forget(l *inquiry) {
	id := s.shown(l)
	if s.loose {
		id = ""
	}
	announced := 0
	for _, e := range s.log("A100") {
		if e.Type == events.TypeContactRequestCreated && !e.Erased() && (id == e.body["contactRequestId"] || id == "" && s.byAddress(e) == l) {
			id, announced = e.body["contactRequestId"].(string), 1
		}
	}
	if id == "" || l.forgotten != "" {
		return
	}
	before := len(s.log("A100"))
	_, err := s.store.Erase("A100", []store.Request{{Reference: l.reference, ID: id}})
	s.must(err)
	s.logs = map[string]readSoFar{} // what was read before is no longer true
	after := s.log("A100")
	last := after[len(after)-1]
	if len(after) != before+1 || last.Type != events.TypeContactRequestRedacted || last.body["contactRequestId"] != id {
		s.t.Errorf("%d events announced, the last is %v", len(after)-before, last)
	}
	l.forgotten, l.announced, l.length = id, announced, last.Sequence
}

func (s *simulation) happenToLead(h happening, l *inquiry) {
	switch h.what {
	case "twin":
		if !s.loose && l.forgotten == "" && l.redacted.IsZero() && l.statuses == 0 && s.room(l.reference) {
			twin := *l
			twin.old, twin.added = false, time.Now()
			s.add(&twin, 0)
		}
	case "score":
		s.must(s.model.EditContactRequest(l.id, func(c *sandbox.ContactRequest) { c.Score = float64(h.how) }))
	case "status":
		l.statuses++
		s.must(s.model.EditContactRequest(l.id, func(c *sandbox.ContactRequest) { c.Status = fmt.Sprintf("S%d", h.how%3) }))
	case "redact":
		if truth, _ := s.model.Truth().ContactRequest(l.id); s.loose && (l.untimed || truth.Served == 0) {
			return // it cannot be recognised
		}
		if l.redacted.IsZero() {
			l.redacted = time.Now()
			s.must(s.model.Redact(l.id))
		}
	}
}

var faults = []*sandbox.Fault{
	{Status: 500},
	{Status: 502, Body: []byte("<html>Bad Gateway</html>")},
	{Status: 503, Header: http.Header{"Retry-After": {"90"}}},
	{Status: 429, Header: http.Header{"Retry-After": {"60"}}},
	{Status: 404},
	{Status: 400},
	{Body: []byte("<html>Wartung</html>")},
	{Body: []byte("null")},
	{Body: []byte("{}")},
	{Status: 200},
	{Body: []byte(`{"error":"Nora cannot be read"}`)},
	{Cut: 0.1},
	{Cut: -1},
	{Delay: 45 * time.Second},
	{Delay: 20 * time.Second},
}

// decide is the API's weather. How often responses fail, and of which operation, is drawn too.
func (s *simulation) decide(c sandbox.Call) *sandbox.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Operation == sandbox.OperationInsertions && c.Query.Get("page") == "2" && s.shifts > 0 && len(s.references) < 14 {
		s.shifts--
		s.newInsertion()
	}
	s.calls++
	operation := s.kind.how % 4
	switch {
	case s.fault == nil, s.calls%(1+s.kind.how/4%3) != 0,
		operation == 3 && (c.Operation != sandbox.OperationInsertions || c.Query.Get("page") == ""), // later pages alone
		operation == 1 && c.Operation == sandbox.OperationInsertions,
		operation == 2 && c.Operation == sandbox.OperationContactRequests:
		return nil
	}
	looksLikeTheEnd := s.fault.Status == 404 || s.fault.Status == 400 || string(s.fault.Body) == "null"
	if looksLikeTheEnd && s.endless && c.Query.Get("page") != "" {
		return nil
	}
	if c.Operation == sandbox.OperationContactRequests {
		s.failed = append(s.failed, time.Now())
	}
	return s.fault
}

// couldSeeAll reports whether the absence of a gap is right: as many were reached as there were, or nothing had failed for some time.
func (s *simulation) couldSeeAll(gap told) bool {
	total, known := gap.body["total"].(float64)
	failing := slices.ContainsFunc(s.failed, func(at time.Time) bool { return at.Before(gap.Time) && gap.Time.Sub(at) < 10*time.Minute })
	return !failing || known && gap.body["reached"].(float64) >= total
}

// judge compares the log with what was true.
func (s *simulation) judge() (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	all, truth := s.log("A100"), s.model.Truth()
	ids := map[string]bool{}
	for n, e := range all {
		if e.Sequence != uint64(n+1) || ids[e.ID] {
			say("event %d has position %d, id seen before: %v", n+1, e.Sequence, ids[e.ID])
		}
		ids[e.ID] = true
	}
	s.judgeWatch(all, truth, say)
	for _, i := range truth.Insertions {
		s.judgeInsertion(i, all, say)
	}
	s.judgeLeads(all, truth, say)
	return wrong
}

func (s *simulation) judgeWatch(all []told, truth sandbox.Truth, say func(string, ...any)) {
	baselined := 0
	untimed := slices.ContainsFunc(s.leads, func(l *inquiry) bool { return l.untimed })
	for _, e := range all {
		switch e.Type {
		case events.TypeAccessHalted, events.TypeAccessResumed:
			say("nobody was refused: %s", e.Data)
		case events.TypeWatchBaselined:
			baselined++
		case events.TypeWatchSchemaDrifted:
			if expected, _ := e.body["expected"].(string); strings.Contains(expected, " at /") && !strings.HasPrefix(expected, "an array") {
				say("no member came or went everywhere: %s", e.Data)
			}
		case events.TypeWatchChangeHeld:
			gone := 0
			for _, i := range truth.Insertions {
				if goneAround(i, e.Time) {
					gone++
				}
			}
			if e.body["missing"].(float64) > float64(gone) {
				say("%d were gone: %s", gone, e.Data)
			}
		case events.TypeWatchGapDetected:
			if e.body["reason"] == "window_full" && !untimed && s.couldSeeAll(e) {
				say("no window was full: %s", e.Data)
			}
		}
	}
	if baselined != 1 {
		say("baselined %d times", baselined)
	}
}

// judgeInsertion follows the events of a reference.
func (s *simulation) judgeInsertion(i sandbox.InsertionTruth, all []told, say func(string, ...any)) {
	published, form, episode, revision := false, "", 0.0, 0.0
	if i.VisibleAt(s.begin) {
		published, form, episode = !s.announce, i.Versions[0].Record.AvailableFrom, 1
	}
	was := i.VisibleAt(s.begin) && s.announce
	for _, e := range all {
		if e.Reference != i.Reference || !strings.HasPrefix(string(e.Type), "insertion.") {
			continue
		}
		at, _ := time.Parse(time.RFC3339Nano, e.body["observedAt"].(string))
		now := textOf(e.body["record"], "availableFrom")
		switch e.Type {
		case events.TypeInsertionAppeared:
			if published || episode != 0 && !was || was && now != form {
				say("%s appeared, published %v, episode %v", i.Reference, published, episode)
			}
			published, episode, was = true, 1, false
		case events.TypeInsertionChanged:
			if revision++; !published || now == form && !s.switches || e.body["revision"] != revision {
				say("%s changed from %s to %s, published %v, revision %v", i.Reference, form, now, published, e.body["revision"])
			}
		case events.TypeInsertionDisappeared:
			if !published || !goneAround(i, at) {
				say("%s disappeared at %v, published %v, true %v", i.Reference, at, published, i.Visible)
			}
			published, now = false, form
		case events.TypeInsertionReappeared:
			if episode++; published || episode == 1 {
				say("%s reappeared, published %v, episode %v", i.Reference, published, episode)
			}
			published, revision = true, 0
		default:
			say("no rule judges %s", e.Type)
		}
		if e.body["episode"] != episode {
			say("%s has episode %v, want %v", i.Reference, e.body["episode"], episode)
		}
		if e.Type != events.TypeInsertionDisappeared && !visibleAround(i, at) {
			say("%s was told as %s at %v, true %v", i.Reference, e.Type, at, i.Visible)
		}
		form = now
	}
	if listed := i.VisibleAt(time.Now()); listed != published && (listed || i.Served > 0) {
		say("%s: listed %v, told as published %v; true %v", i.Reference, listed, published, i.Visible)
	} else if last := i.Versions[len(i.Versions)-1].Record.AvailableFrom; listed && form != last && !s.switches {
		say("%s has the form %s, told was %s", i.Reference, last, form)
	}
}

// slack is how long before its event something may have been true: a last look may wait for a slow API.
const slack = 30 * time.Minute

func goneAround(i sandbox.InsertionTruth, at time.Time) bool {
	return i.AbsentBetween(at.Add(-slack), at)
}

func visibleAround(i sandbox.InsertionTruth, at time.Time) bool {
	return slices.ContainsFunc(i.Visible, func(v sandbox.Interval) bool {
		return !v.From.Truncate(time.Millisecond).After(at) && // events have milliseconds
			(v.Until.IsZero() || v.Until.After(at.Add(-slack)))
	})
}

// shown is the id of a contact request as the API shows it.
func (s *simulation) shown(l *inquiry) string {
	if s.ids == sandbox.IDNumber || s.ids == sandbox.IDNumberText {
		return sandbox.NumberID(l.id)
	}
	return l.id
}

func (s *simulation) judgeLeads(all []told, truth sandbox.Truth, say func(string, ...any)) {
	created := map[*inquiry][]told{}
	named := map[string]*inquiry{} // by contactRequestId, if it was announced
	for _, l := range s.leads {
		if !s.nameless {
			named[s.shown(l)] = l
		}
	}
	for _, l := range s.leads {
		if l.forgotten != "" {
			named[l.forgotten] = l
		}
	}
	changed, redacted := map[*inquiry]int{}, map[*inquiry]int{}
	last := map[*inquiry]string{}
	for _, e := range all {
		if !strings.HasPrefix(string(e.Type), "contact_request.") {
			continue
		}
		id := e.body["contactRequestId"].(string)
		if want := map[bool]string{true: "fingerprint", false: "id"}[s.nameless]; !s.switches && e.body["identity"] != want {
			say("identity %v, want %s", e.body["identity"], want)
		}
		if s.loose && named[id] == nil && e.Type == events.TypeContactRequestCreated {
			named[id] = s.byAddress(e)
		}
		l := named[id]
		if l == nil {
			if !s.loose || e.Type == events.TypeContactRequestCreated {
				say("%s of nobody: %s", e.Type, e.Data)
			}
			continue // what is old was never announced, and has no id that could be known
		}
		if l.forgotten != "" && (e.Sequence > l.length || e.HoldsPerson()) {
			say("inquiry %d was forgotten with event %d, but %s %d holds the person: %v", l.number, l.length, e.Type, e.Sequence, e.HoldsPerson())
		}
		switch e.Type {
		case events.TypeContactRequestCreated:
			created[l] = append(created[l], e)
		case events.TypeContactRequestChanged:
			if changed[l]++; redacted[l] > 0 {
				say("%d changed after %d redactions", l.number, redacted[l])
			}
		case events.TypeContactRequestRedacted:
			redacted[l]++
			continue
		}
		last[l] = textOf(e.body["record"], "status")
	}
	for _, l := range s.leads {
		c, _ := truth.ContactRequest(l.id)
		least, most := s.expect(l, c)
		if n := len(created[l]); n < least || n > most {
			say("inquiry %d of %s was told %d times, want %d to %d: %+v; visible %v, served %d", l.number, l.reference, n, least, most, *l, c.VisibleFrom, c.Served)
		}
		if changed[l] > l.statuses {
			say("inquiry %d changed %d times after %d edits", l.number, changed[l], l.statuses)
		}
		if l.forgotten != "" {
			if redacted[l] < 1 || redacted[l] > 2 || redacted[l] == 2 && l.redacted.IsZero() {
				say("inquiry %d was redacted %d times, and forgotten", l.number, redacted[l])
			}
			continue
		}
		was := 0
		if len(created[l]) > 0 && !l.redacted.IsZero() && created[l][0].RecordedTime.Before(l.redacted) {
			was = 1
		}
		if redacted[l] < was && !s.deep(l) || redacted[l] > 1 || redacted[l] > 0 && l.redacted.IsZero() {
			say("inquiry %d was redacted %d times, truly at %v", l.number, redacted[l], l.redacted)
		}
		// Under settings that have changed, what is read first is taken as it is, without a word.
		if status := c.Versions[len(c.Versions)-1].Record.Status; len(created[l]) > 0 && redacted[l] == 0 && last[l] != status && !s.deep(l) && !s.switches {
			say("inquiry %d has the status %s, told was %s", l.number, status, last[l])
		}
	}
}

// deep reports whether a contact request may lie below what a regular poll shows: what changes there is seen once a day.
func (s *simulation) deep(l *inquiry) bool {
	above := 0
	for _, other := range s.leads {
		if other.reference == l.reference && !other.created.Before(l.created) {
			above++
		}
	}
	return above > 20
}

// expect returns how often a contact request must be announced.
func (s *simulation) expect(l *inquiry, c sandbox.ContactRequestTruth) (least, most int) {
	switch {
	case l.forgotten != "":
		return l.announced, l.announced
	case l.old && s.announce:
		return 1, 1
	case l.old && s.zoneless && s.begin.Sub(l.created) < 135*time.Minute:
		return 0, 1 // the start is further back where times name no zone
	case l.old, c.Served == 0:
		return 0, 0
	case l.created.Before(s.begin.Truncate(time.Second)) && !l.untimed:
		return 0, 1 // made before the watch, seen later: late, or old
	}
	return 1, 1
}

func (s *simulation) byAddress(e told) *inquiry {
	contact, _ := e.body["contact"].(map[string]any)
	at, _ := time.Parse(time.RFC3339, fmt.Sprint(e.body["createdAt"]))
	for _, l := range s.leads {
		// One whose first answer got lost on its way may be redacted by the next.
		if contact["email"] == fmt.Sprintf("nora%d@example.org", l.number) ||
			contact["email"] == nil && !l.redacted.IsZero() && l.reference == e.body["propertyReferenceId"] && at.Equal(l.created.Truncate(time.Second)) {
			return l
		}
	}
	return nil
}

// textOf finds a member in a record of any style.
func textOf(record any, name string) string {
	m, _ := record.(map[string]any)
	for n, v := range m {
		if strings.EqualFold(strings.ReplaceAll(n, "_", ""), name) {
			return fmt.Sprint(v)
		}
		if s := textOf(v, name); s != "" {
			return s
		}
	}
	return ""
}
