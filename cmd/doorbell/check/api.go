package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/forward/message"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

const (
	// mostAsked is how many requests are sent for one agency, at most: a walk until it shows how pages are numbered, and the
	// contact requests of two insertions, each read twice if need be to find their id.
	MostAsked  = 8
	newestSize = 20 // contact requests, as a poll begins
	// unsplitSize is how many insertions no service splits into pages.
	unsplitSize = 20
)

// api asks once for the list of every agency, as run would, and learns the dialect of the answers for one. Beside a daemon it
// shows what that knows and sends nothing: there is one budget.
func (c *checker) api(ctx context.Context) error {
	if c.report.DaemonRunning {
		c.accessOfDaemon()
	} else {
		if err := c.open(); err != nil {
			c.report.refuse(sectionConfig, exit.Config(err, ""))
			return nil
		}
		c.accessOfAll(ctx)
		c.clocks()
	}
	c.speed()
	return ctx.Err()
}

// checkedAnswers is what all answers together tell.
type checkedAnswers struct {
	ClockTold   bool  `json:"clockTold"`
	SkewSeconds int64 `json:"skewSeconds"` // the API's clock minus ours
}

var errEnough = errors.New("enough was asked")

// open makes the client. It sends no more requests than it may, and none sooner.
func (c *checker) open() (err error) {
	if len(c.o.IDFields) == 0 {
		c.o.IDFields = listings.IDFields
	}
	c.spacing = spaced(c.o.RequestsPerSecond)
	c.o.API.IDFields, c.o.API.Gate = c.o.IDFields, c
	c.report.Answers = &checkedAnswers{}
	c.client, err = listings.New(c.o.API)
	return err
}

// Wait is that of listings.Gate.
func (c *checker) Wait(ctx context.Context, r listings.Request) error {
	if c.left <= 0 {
		return errEnough
	}
	c.left--
	if err := c.spacing.Wait(ctx, r); err != nil {
		return err
	}
	c.report.Requests++
	return nil
}

// Done is that of listings.Gate.
func (c *checker) Done(listings.Request, listings.Outcome) {}

// clock holds the API's clock, which an answer tells in whole seconds, against ours in the middle of the exchange. The smallest
// difference counts: a slow answer adds to it.
func (c *checker) clock(e listings.Envelope) {
	a := c.report.Answers
	if c.answered = true; e.Date().IsZero() {
		return
	}
	skew := int64(e.Date().Add(time.Second/2).Sub(e.Sent.Add(e.Received.Sub(e.Sent)/2)).Round(time.Second) / time.Second)
	if !a.ClockTold || max(skew, -skew) < max(a.SkewSeconds, -a.SkewSeconds) {
		a.ClockTold, a.SkewSeconds = true, skew
	}
}

// clockTolerance is a skew in seconds that nobody needs to mend.
const clockTolerance = 10

// clocks says whether the two clocks agree.
func (c *checker) clocks() {
	switch skew := c.report.Answers.SkewSeconds; {
	case !c.answered:
	case !c.report.Answers.ClockTold:
		c.report.warn(SectionAPI, "the API does not say what time it is (no Date header)", "keep the clock of this machine right")
	case skew > clockTolerance || skew < -clockTolerance:
		c.report.warn(SectionAPI, fmt.Sprintf("the clocks differ: the API's is %+d s from ours", skew), "set the clock of this machine (NTP); if it is right, tell the provider")
	default:
		c.report.ok(SectionAPI, "its clock and ours agree within %d s", max(1, skew, -skew))
	}
}

// accessOfDaemon takes what the daemon knows.
func (c *checker) accessOfDaemon() {
	for _, a := range c.Config.Agencies {
		found := checkedAgency{AgencyID: a.ID, Access: AccessNotAsked, Insertions: -1}
		var seen poller.AgencyStatus // zero: none
		for _, s := range c.daemon.Watch.Agencies {
			if s.AgencyID == a.ID {
				seen = s
			}
		}
		switch {
		case seen.AgencyID == "":
			c.note(levelWarn, found, "not watched by the daemon", "restart it to watch another agency")
		case len(seen.Halts) > 0:
			h := seen.Halts[0]
			found.Insertions = seen.Insertions
			c.halted(&found, h.Scope, h.Status, h.ProbableReason, h.Advice)
		case c.daemon.Watch.Down != "" && seen.State != ops.WaitingForStream:
			found.Access, found.Insertions = accessFailed, seen.Insertions
			c.note(LevelFail, found, "the daemon has no connection to the API", "it retries by itself; look at DNS, network, proxy and certificates")
		case slices.ContainsFunc(seen.Alarms, func(a poller.Alarm) bool { return a.Kind == "stale" }):
			found.Access, found.Insertions = accessFailed, seen.Insertions
			c.note(LevelFail, found, "no successful response for too long, or too many insertions overdue for their poll",
				"the daemon retries by itself; doorbell events ls --type watch.stale --json shows the last errors")
		case seen.LastGoodAnswer.IsZero():
			c.note(levelWarn, found, "has not answered the daemon yet", "wait, and see `doorbell status`")
		default:
			found.Access, found.Insertions = AccessOK, seen.Insertions
			if seen.State == "backing_off" {
				c.note(levelWarn, found, "the last walk or poll failed or was incomplete", "the daemon retries by itself; `doorbell status` shows how it ended")
			}
			if c.report.Learned == nil {
				c.learned(&learned{AgencyID: a.ID, Insertions: learnedInsertions{Dialect: seen.Dialects[listings.OperationInsertions]}, ContactRequests: learnedContactRequests{
					Dialect: seen.Dialects[listings.OperationContactRequests], Read: true,
				}})
			}
		}
		c.report.Agencies = append(c.report.Agencies, found)
	}
	c.access()
}

func (c *checker) halted(found *checkedAgency, scope events.Scope, status int, reason, advice string) {
	found.Access, found.Status, found.ProbableReason = AccessHalted, status, reason
	if scope == events.ScopeInsertion { // the advice names it
		advice = "`doorbell status` shows which one, and the command that resumes it"
	}
	c.note(LevelFail, *found, fmt.Sprintf("polling stopped for %s, because %s; no request was sent", message.Scope(scope), ops.RefusalText(status, reason)), advice)
}

// notes are findings about agencies; those that say the same share a line.
type notes struct {
	level, text, remedy string
	agencies            []checkedAgency
}

func (c *checker) note(level string, a checkedAgency, text, remedy string) {
	for _, n := range c.notes {
		if n.level == level && n.text == text {
			n.agencies = append(n.agencies, a)
			return
		}
	}
	c.notes = append(c.notes, &notes{level, text, remedy, []checkedAgency{a}})
}

// accessOfAll asks once for the list of every agency. A key that needs patience and a base URL at which nobody answers are
// not asked again; a halt is not either. The list that shows the most is read on.
func (c *checker) accessOfAll(ctx context.Context) {
	busy, down := map[string]bool{}, false
	refused := map[int]*listings.StatusError{} // agencies by index
	var best *pausedWalk
	c.announce()
	for i, a := range c.Config.Agencies {
		found := checkedAgency{AgencyID: a.ID, Access: AccessNotAsked, Insertions: -1}
		access := c.keys[a.ID]
		key := access.Key.Fingerprint()
		if halt := access.Halt; halt != nil {
			c.halted(&found, halt.Scope, halt.Status, halt.ProbableReason, halt.Advice)
		} else if !busy[key] && !down && ctx.Err() == nil {
			l := c.list(ctx, a.ID, access.Key)
			f := c.judge(&found, l)
			busy[key], down = busy[key] || f.class == watch.ClassBusy, f.class == watch.ClassDown
			var status *listings.StatusError
			if f.class == watch.ClassRefused && errors.As(l.err, &status) {
				refused[i] = status
			}
			if l.err == nil && (best == nil || l.records() > best.records()) {
				best, l = l, best
			}
			if l != nil {
				l.stop()
			}
		}
		c.report.Agencies = append(c.report.Agencies, found)
	}
	for _, i := range slices.Sorted(maps.Keys(refused)) { // why, by what is known of the other agencies of the key, with the words of a halt
		a := &c.report.Agencies[i]
		reason, advice := poller.Refusal(a.AgencyID, refused[i], c.others(i))
		a.ProbableReason = reason
		advice = strings.Replace(advice, "run: "+watch.ResumeCommand(a.AgencyID, ""), "check again", 1) // nothing is halted yet
		c.note(LevelFail, *a, ops.RefusalText(a.Status, reason)+"; run would halt there", advice)
	}
	c.access()
	if best != nil {
		defer best.stop()
		if ctx.Err() == nil {
			c.learned(c.learn(ctx, best))
		}
	}
}

// announce warns of a long wait.
func (c *checker) announce() {
	n := len(c.Config.Agencies) + MostAsked - 1
	long := time.Duration(float64(n) / c.Config.Poll.RequestsPerSecond * float64(time.Second))
	if long > 5*time.Second {
		fmt.Fprintf(c.Progress, "doorbell: asking at most %d times, %g a second; this may take %s\n", n, c.Config.Poll.RequestsPerSecond, ops.Span(long))
	}
}

// judge notes what the first answer says of an agency.
func (c *checker) judge(found *checkedAgency, l *pausedWalk) (f failure) {
	if l.err == nil {
		found.Access, found.Status = AccessOK, 200
		found.Insertions, found.AtLeast = max(l.records(), l.page.Total), l.page.Total < 0 && l.mayHoldMore()
		return f
	}
	f = failureOf(l.err)
	found.Access, found.Status = accessFailed, f.status
	switch {
	case f.class == watch.ClassRefused:
		found.Access = AccessRefused
	case f.class == watch.ClassDown && strings.Contains(f.text, "HTTPS_PROXY"):
		c.report.fail(SectionAPI, f.text, "is HTTPS_PROXY right, and does the proxy run? NO_PROXY names hosts that are asked without it")
	case f.class == watch.ClassDown:
		c.report.fail(SectionAPI, fmt.Sprintf("%s: %s", c.Config.Poll.BaseURL.Masked(), f.text), "is DOORBELL_BASE_URL right, host, port and https or http? If so, look at DNS, network, proxy and certificates")
	case f.class == watch.ClassBusy:
		c.note(LevelFail, *found, f.text, "the API throttles us: try again later, with a lower DOORBELL_REQUESTS_PER_SECOND")
	case f.status/100 == 2, f.status/100 == 3, f.status == 404:
		c.note(LevelFail, *found, f.text, "is DOORBELL_BASE_URL the API's own? It is what stands before /insertion-funnel/…; a login page or gateway may stand in between. If the records are in an unusual place, name it in DOORBELL_RECORDS_PATH")
	default:
		c.note(LevelFail, *found, f.text, "run would try again; if it stays so, ask the provider")
	}
	return f
}

// mostShown is how many agencies have a line of their own.
const mostShown = 6

// access says who is admitted, and then who is not.
func (c *checker) access() {
	var ok, skipped []checkedAgency
	all := checkedAgency{}
	for _, a := range c.report.Agencies {
		switch a.Access {
		case AccessOK:
			ok = append(ok, a)
			all.Insertions += a.Insertions
			all.AtLeast = all.AtLeast || a.AtLeast
		case AccessNotAsked:
			skipped = append(skipped, a)
		}
	}
	if len(ok) > mostShown {
		c.report.ok(SectionAPI, "%s: access, %s", ops.Counted(len(ok), "agency"), all.holds())
		ok = nil
	}
	for _, a := range ok {
		if a.Insertions == 0 {
			c.report.warn(SectionAPI, a.AgencyID+": access, but no insertion", "right if none is published, or none fits DOORBELL_INSERTIONS_FILTER")
			continue
		}
		c.report.ok(SectionAPI, "%s: access, %s", a.AgencyID, a.holds())
	}
	for _, n := range c.notes {
		if first := n.agencies[0].AgencyID; len(n.agencies) > 1 { // each has a command of its own
			n.remedy = strings.Replace(n.remedy, "run: "+watch.ResumeCommand(first, ""), "run for each of them: doorbell resume AGENCY", 1)
		}
		c.report.add(checkLine{Section: SectionAPI, Level: n.level, Text: namesOf(n.agencies) + ": " + n.text, Remedy: n.remedy})
	}
	if len(skipped) > 0 && !c.report.DaemonRunning {
		c.report.warn(SectionAPI, namesOf(skipped)+": not checked, because of what failed before", "")
	}
}

func (a checkedAgency) holds() string {
	if a.AtLeast {
		return "at least " + ops.Counted(a.Insertions, "insertion")
	}
	return ops.Counted(a.Insertions, "insertion")
}

func namesOf(list []checkedAgency) string {
	var names []string
	for _, a := range list[:min(len(list), mostShown)] {
		names = append(names, a.AgencyID)
	}
	text := strings.Join(names, ", ")
	if more := len(list) - mostShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// others counts how the other agencies of the same key fared.
func (c *checker) others(agency int) (n events.AgenciesOfKey) {
	key := c.Config.Agencies[agency].Key.Fingerprint()
	for i, a := range c.report.Agencies {
		if i == agency || c.Config.Agencies[i].Key.Fingerprint() != key {
			continue
		}
		switch a.Access {
		case AccessOK:
			n.Working++
		case AccessRefused, AccessHalted:
			n.Refused++
		default:
			n.Unknown++
		}
	}
	return n
}

// pausedWalk is a walk over an agency's insertions that has paused after its first page.
type pausedWalk struct {
	agencyID string
	key      listings.Key
	walk     *listings.Walk
	next     func() (*listings.InsertionsPage, error, bool)
	stop     func()
	page     *listings.InsertionsPage // the first
	err      error                    // nil: access
	left     int                      // requests
}

// list begins a walk: it asks for one page, and for smaller ones while the API refuses the size.
func (c *checker) list(ctx context.Context, agencyID string, key listings.Key) *pausedWalk {
	c.left = MostAsked
	l := &pausedWalk{agencyID: agencyID, key: key}
	l.walk = c.client.Walk(key, agencyID, listings.WalkOptions{
		Size: c.size, Filter: c.o.Filter, MaxPages: 3, Dialect: c.keys[agencyID].Dialects[listings.OperationInsertions],
	})
	l.next, l.stop = iter.Pull2(l.walk.Pages(ctx))
	if l.page, l.err, _ = l.next(); l.err == nil {
		c.clock(l.page.Envelope)
		c.size, l.left = cmp.Or(l.size(), -1), c.left
	} else {
		l.stop()
	}
	return l
}

// size is how many insertions were asked for; 0: it was left to the API.
func (l *pausedWalk) size() int { return l.walk.Verdict().Size }

func (l *pausedWalk) records() int { return len(l.page.Insertions) }

// more says whether the list surely holds more than its first page.
func (l *pausedWalk) more() bool { return l.page.Total > l.records() }

// mayHoldMore says whether it may. A page that is not full says nothing: services cap.
func (l *pausedWalk) mayHoldMore() bool {
	few := unsplitSize
	if size := l.size(); size > 0 {
		few = min(few, size)
	}
	return l.more() || l.page.Total < 0 && l.records() >= few
}

// Answers to a question about the API's habits.
const (
	Yes     = "yes"
	No      = "no"
	Unknown = "unknown" // what was there to see did not tell
)

// learned is the dialect of the answers for one agency: what the store remembers of it, and what else the answers showed. Nothing
// in it is a value from a record.
type learned struct {
	AgencyID        string                 `json:"agencyId"`
	Insertions      learnedInsertions      `json:"insertions"`
	ContactRequests learnedContactRequests `json:"contactRequests"`
}

// learnedInsertions is what the list of insertions showed.
type learnedInsertions struct {
	listings.Dialect
	Records      int      `json:"records"`
	Unreadable   int      `json:"unreadable"`
	PageHeeded   string   `json:"pageHeeded"`             // yes, no, unknown
	Asked        int      `json:"askedPageSize"`          // 0: none
	RefusedSizes []int    `json:"refusedSizes,omitempty"` // in the order in which they were tried
	Troubles     []string `json:"troubles,omitempty"`

	more, mayHoldMore bool
}

// learnedContactRequests is what the contact requests of one insertion showed.
type learnedContactRequests struct {
	listings.Dialect
	Read         bool     `json:"read"` // false: nothing else says anything but Troubles
	Records      int      `json:"records"`
	Unreadable   int      `json:"unreadable"`
	IDCandidates []string `json:"idCandidates,omitempty"` // members that could be the id, best first
	Troubles     []string `json:"troubles,omitempty"`

	refused failure // of an insertion that the list shows
}

// learn goes on with a good list until the answers show their dialect. What fails is said in words; a refusal, and a call for
// patience, end all.
func (c *checker) learn(ctx context.Context, l *pausedWalk) *learned {
	c.left = l.left
	known := c.keys[l.agencyID].Dialects
	out := &learned{AgencyID: l.agencyID}
	out.Insertions = learnedInsertions{
		Dialect: known[listings.OperationInsertions].Learned(l.page.Dialect()), Records: l.records(), Unreadable: l.page.Unreadable,
		Asked: l.size(), RefusedSizes: l.walk.Verdict().Refused, more: l.more(), mayHoldMore: l.mayHoldMore(),
	}
	r := &out.ContactRequests
	r.Dialect = known[listings.OperationContactRequests]
	if c.contacts(ctx, l, r) {
		i := &out.Insertions
		for more := i.Records > 0; more && i.FirstPage == ""; {
			page, err, ok := l.next()
			i.FirstPage, more = l.walk.Verdict().FirstPage, ok && err == nil
			i.mayHoldMore = i.mayHoldMore && (i.FirstPage == listings.PagesIgnored || i.more || more && len(page.Insertions) > 0)
			if err != nil && !errors.Is(err, errEnough) {
				i.Troubles = append(i.Troubles, "another page: "+failureOf(err).text)
			}
		}
	}
	return out
}

// contacts reads the contact requests of the first insertion, and of one more if it has none or cannot be read. It returns false where nothing more may be asked.
func (c *checker) contacts(ctx context.Context, l *pausedWalk, r *learnedContactRequests) bool {
	known := r.Dialect
	read := func(reference string) (*listings.ContactRequestsPage, bool) {
		page, err := c.client.ContactRequests(ctx, l.key, l.agencyID, reference, listings.ContactRequestsQuery{
			NumberOfItemsPerPage: newestSize, SortBy: "createdAt", SortOrder: "desc", Dialect: known,
		})
		if err == nil {
			c.clock(page.Envelope)
			return page, true
		}
		f := failureOf(err)
		if !r.Read {
			r.refused = f
		}
		r.Troubles = append(r.Troubles, "contact requests: "+f.text)
		return nil, ctx.Err() == nil && !slices.Contains([]watch.Class{watch.ClassRefused, watch.ClassBusy, watch.ClassDown}, f.class)
	}
	for _, n := range slices.Compact([]int{0, l.records() / 2}) {
		if n >= l.records() {
			break
		}
		reference := l.page.Insertions[n].Reference
		page, goOn := read(reference)
		switch {
		case !goOn:
			return false
		case page == nil:
			continue
		}
		r.Read, r.Records, r.Unreadable, r.Dialect = true, len(page.ContactRequests), page.Unreadable, r.Learned(page.Dialect())
		if r.Records == 0 {
			continue
		}
		r.IDField, r.IDCandidates = listings.IDField(c.o.IDFields, page.ContactRequests)
		break
	}
	return true
}

// learned says what the answers of an agency showed.
func (c *checker) learned(l *learned) {
	i, r, known := &l.Insertions, &l.ContactRequests, c.keys[l.AgencyID].Dialects
	i.PageHeeded = cmp.Or(map[string]string{"": Unknown, listings.PagesIgnored: No}[i.FirstPage], Yes)
	if i.PageHeeded != Yes {
		i.FirstPage = Unknown
	}
	i.Dialect, r.Dialect = i.Printable(), r.Printable()
	r.CreatedForm = cmp.Or(r.CreatedForm, Unknown)
	c.report.Learned = l
	for n, a := range c.report.Agencies {
		if a.AgencyID == l.AgencyID {
			c.report.Agencies[n].AtLeast = a.AtLeast && i.mayHoldMore
		}
	}
	c.learnedInsertions(*i)
	c.moved(known[listings.OperationInsertions], i.Path)
	c.learnedContactRequests(*r)
	if r.Records > 0 {
		c.moved(known[listings.OperationContactRequests], r.Path)
	}
	for _, t := range append(i.Troubles, r.Troubles...) {
		if r.Read {
			c.report.warn(SectionAnswers, t, "")
		}
	}
}

// moved says that records do not stand where the store remembers them.
func (c *checker) moved(known listings.Dialect, path string) {
	if before := known.Printable().Path; known.Known && before != path {
		c.report.warn(SectionAnswers, "they were at "+placeOf(before)+" before", "run would publish watch.schema_drifted and go on; if the change is not meant, ask the provider")
	}
}

// standing says where records are, and whether there is a total.
func standing(d listings.Dialect) string {
	total := "without a total"
	if d.TotalTold {
		total = "with a total"
	}
	return placeOf(d.Path) + ", " + total
}

func placeOf(path string) string { return cmp.Or(path, "the top of the answer") }

func (c *checker) learnedInsertions(i learnedInsertions) {
	text := "insertions are at " + standing(i.Dialect) + "; "
	const remedy = "ask the provider how pages are numbered; until then watch what fits one page, with DOORBELL_INSERTIONS_FILTER"
	switch {
	case i.PageHeeded == No && i.more:
		c.report.fail(SectionAnswers, text+"page=2 repeats the first page: the rest of the list cannot be read", remedy)
	case i.PageHeeded == No && i.mayHoldMore:
		c.report.warn(SectionAnswers, text+"page=2 repeats the first page: if the list is longer, the rest cannot be read", remedy)
	case i.PageHeeded == No:
		c.report.ok(SectionAnswers, "%spage=2 repeats the first page, which holds all", text)
	case i.PageHeeded == Yes:
		c.report.ok(SectionAnswers, "%spages count from %s", text, i.FirstPage)
	default:
		c.report.ok(SectionAnswers, "%spage numbering is not known yet", text)
	}
	if i.Unreadable > 0 {
		c.report.warn(SectionAnswers, fmt.Sprintf("%d of the elements of the list hold no propertyReferenceId", i.Unreadable), "walks will be partial; ask the provider")
	}
	if len(i.RefusedSizes) > 0 {
		c.report.ok(SectionAnswers, "page sizes that the API refuses, so that walks ask for smaller ones: %s", strings.Trim(fmt.Sprint(i.RefusedSizes), "[]"))
	}
}

func (c *checker) learnedContactRequests(r learnedContactRequests) {
	switch {
	case r.refused.class == watch.ClassRefused:
		c.report.fail(SectionAnswers, "contact requests of an insertion that the list shows are refused: "+r.refused.text,
			"ask the provider whether the key may read contact requests; run would halt that insertion, or all contact requests of the agency if others are refused too")
		return
	case !r.Read && len(r.Troubles) > 0:
		c.report.fail(SectionAnswers, strings.Join(r.Troubles, "; "), "if it stays so for all insertions, no lead is seen: ask the provider, or name the place of the records in DOORBELL_RECORDS_PATH")
		return
	case !r.Read:
		c.report.ok(SectionAnswers, "contact requests were not read: the list is empty")
		return
	}
	text := "contact requests are at " + standing(r.Dialect)
	if r.Records == 0 && r.CreatedForm == Unknown {
		c.report.ok(SectionAnswers, "%s; the insertions that were read have none, so ids and times are not known yet", text)
		return
	}
	c.report.ok(SectionAnswers, "%s", text)
	c.identity(r)
	c.times(r)
}

func (c *checker) identity(r learnedContactRequests) {
	switch {
	case r.Records == 0: // the daemon has read them, and finds the id in each response
	case r.IDField == "":
		c.report.warn(SectionAnswers, "no known member tells contact requests apart",
			"name one in DOORBELL_CONTACT_ID_FIELDS; else they are told apart by their content, and two equal ones in the same second are one")
	case len(r.IDCandidates) > 1:
		c.report.ok(SectionAnswers, "their id is /%s; candidates were %s", r.IDField, strings.Join(r.IDCandidates, ", "))
	default:
		c.report.ok(SectionAnswers, "their id is /%s", r.IDField)
	}
}

func (c *checker) times(r learnedContactRequests) {
	const remedy = "old and new ones cannot be told apart at the first poll of an insertion; ask the provider for createdAt as RFC 3339"
	switch r.CreatedForm {
	case listings.FormOffset:
		c.report.ok(SectionAnswers, "their creation time can be read: date and time with an offset")
	case listings.FormZoneless:
		c.report.ok(SectionAnswers, "their creation time has no offset; it is read as %s (DOORBELL_TIMEZONE)", c.Config.Poll.Timezone)
	case listings.FormSeconds, listings.FormMilliseconds, listings.FormMicroseconds, listings.FormNanoseconds:
		c.report.ok(SectionAnswers, "their creation time can be read: %s since 1970", r.CreatedForm)
	case listings.FormAbsent:
		c.report.warn(SectionAnswers, "they have no creation time that is known", remedy)
	case listings.FormMixed:
		c.report.warn(SectionAnswers, "their creation times have several forms, or some have none", "those without count as old at the first poll of an insertion")
	default:
		c.report.warn(SectionAnswers, "their creation time cannot be read", remedy)
	}
}

// speed says how long a round of polls takes, and whether it fits into the staleness that is allowed.
func (c *checker) speed() {
	insertions := 0
	for _, a := range c.report.Agencies {
		insertions += max(a.Insertions, 0)
	}
	if insertions == 0 {
		return
	}
	p := c.Config.Poll
	polls := time.Duration(float64(insertions) / p.RequestsPerSecond * float64(time.Second))
	round := max(polls, p.PollInterval).Round(time.Millisecond)
	if round > time.Minute {
		round = round.Round(time.Second)
	}
	c.report.ok(sectionBudget, "%s at %g requests/s: a round of polls takes %s, which finds a contact request after %s on average; busy insertions are polled more often",
		ops.Counted(insertions, "insertion"), p.RequestsPerSecond, round, round/2)
	if limit := time.Duration(p.MaxStaleness); limit > 0 && polls > limit {
		c.report.warn(sectionBudget, fmt.Sprintf("DOORBELL_MAX_STALENESS is %s, in which that many cannot be polled", limit),
			fmt.Sprintf("it takes at least %.2g requests/s (DOORBELL_REQUESTS_PER_SECOND)", math.Ceil(100*float64(insertions)/limit.Seconds())/100))
	}
}

// failure is what went wrong with a request, in words without the insertion that was asked for, and what run makes of it.
type failure struct {
	text   string
	status int // 0: no answer
	class  watch.Class
}

func failureOf(err error) failure {
	var of interface {
		error
		String() string // what was asked for
	}
	f := failure{text: "failed", class: watch.Classify(err)}
	if !errors.As(err, &of) {
		return f
	}
	f.text = strings.TrimPrefix(of.Error(), of.String()+": ")
	switch e := of.(type) {
	case *listings.StatusError:
		f.status = e.Status
		if e.Body == listings.BodyHTML {
			f.text += ", as HTML"
		}
		if e.RetryAfter > 0 {
			f.text += fmt.Sprintf(", to be asked again after %s", e.RetryAfter.Round(time.Second))
		}
	case *listings.TransportError:
		f.text = "no answer (" + f.text + ")"
	case *listings.DriftError:
		f.status, f.text = e.Status, "not the answer of this API: "+f.text
	}
	return f
}
