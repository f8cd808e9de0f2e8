package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/events"
	"doorbell/events/forward/message"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

const (
	// MaxFurther is the maximum number of requests beside the first one of each agency: smaller
	// pages where the size is refused, and the contact requests of two insertions.
	MaxFurther = 7
	windowSize = 20 // contact requests
	// fullPage is how many insertions without a total may be the first page of a longer list.
	fullPage = 20
)

// api requests the list of each agency once, and reads contact requests where the list is longest.
func (c *checker) api(ctx context.Context) {
	p, client, pace := c.client()
	if client == nil {
		return
	}
	if agency, list := c.access(ctx, client, p); list != nil {
		c.responses(ctx, client, p, agency, list)
	}
	c.accessLines()
	c.round()
	c.report.Requests = pace.begun
}

// client makes a client that begins requests at even distances; nil where the configuration does
// not allow one.
func (c *checker) client() (poller.Options, *listings.Client, *spacing) {
	p := options.Poller(c.Config, c.Version)
	perSecond := p.RequestsPerSecond
	if c.daemon != nil { // its own requests are not counted here
		perSecond = min(perSecond, 1)
	}
	if wait := time.Duration(float64(len(p.Agencies)+1) / perSecond * float64(time.Second)); wait > 5*time.Second {
		fmt.Fprintf(c.Progress, "doorbell: %g requests a second for %s; this takes about %s\n",
			perSecond, ops.Counted(len(p.Agencies), "agency"), ops.Span(wait))
	}
	pace := newSpacing(perSecond)
	p.API.Gate = pace
	client, err := listings.New(p.API)
	if err != nil {
		c.report.refuse(sectionConfig, exit.Config(err, ""))
		return p, nil, nil
	}
	return p, client, pace
}

// access requests the first page of each agency's list, and returns the one with the most
// insertions. After a 429 the key is not used again; after a refused connection nothing is
// requested.
func (c *checker) access(ctx context.Context, client *listings.Client, p poller.Options) (agency poller.AgencyKeys, longest *listings.InsertionsPage) {
	busy, down := map[string]bool{}, false
	refused := map[int]*listings.StatusError{} // by index of the agency
	for i, a := range p.Agencies {
		found := Agency{AgencyID: a.ID, Access: AccessNotAsked, Insertions: -1, level: levelWarn}
		switch h, halted := c.halts[a.ID]; {
		case halted:
			found.Access, found.Status, found.ProbableReason = AccessHalted, h.status, h.reason
			found.says(LevelFail, fmt.Sprintf("polling stopped for %s, because %s; no request was sent",
				message.Scope(h.scope), ops.RefusalText(h.status, h.reason)), h.advice)
		case busy[a.Key.Fingerprint()]:
			found.says(levelWarn, "not checked, because the API throttles the key", "")
		case down || ctx.Err() != nil:
			found.says(levelWarn, "not checked, because the API does not respond", "")
		default:
			page, err := firstPage(ctx, client, a, listings.WalkOptions{Filter: p.Filter, Place: c.places[a.ID]})
			if err == nil {
				found.admit(page)
				if longest == nil || len(page.Insertions) > len(longest.Insertions) {
					agency, longest = a, page
				}
				break
			}
			f := failureOf(err)
			found.Access, found.Status = accessFailed, f.status
			found.says(LevelFail, f.text, "")
			busy[a.Key.Fingerprint()], down = f.class == watch.ClassBusy, f.class == watch.ClassDown
			if status := (*listings.StatusError)(nil); f.class == watch.ClassRefused && errors.As(err, &status) {
				found.Access, refused[i] = AccessRefused, status
			} else {
				found.text, found.remedy = c.failed(f)
			}
		}
		c.report.Agencies = append(c.report.Agencies, found)
	}
	c.refusals(p, refused)
	return agency, longest
}

// firstPage requests the first page of an agency's list, with smaller sizes where one is refused.
func firstPage(ctx context.Context, client *listings.Client, a poller.AgencyKeys, o listings.WalkOptions) (*listings.InsertionsPage, error) {
	o.MaxPages = 1
	for page, err := range client.Walk(a.Key, a.ID, o).Pages(ctx) {
		return page, err
	}
	return nil, ctx.Err()
}

// says sets what the report says of an agency, and what to do about it.
func (a *Agency) says(level, text, remedy string) { a.level, a.text, a.remedy = level, text, remedy }

func (a *Agency) admit(page *listings.InsertionsPage) {
	a.Access, a.Status = AccessOK, 200
	a.Insertions = max(len(page.Insertions), page.Total)
	a.AtLeast = page.Total < 0 && len(page.Insertions) >= fullPage
	a.says(LevelOK, "access, "+a.counted(), "")
	if a.Insertions == 0 {
		a.says(levelWarn, "access, but no insertion", "right if none is published, or none fits DOORBELL_INSERTIONS_FILTER")
	}
}

// failed says why a list could not be read, and what to do.
func (c *checker) failed(f failure) (text, remedy string) {
	switch {
	case f.class == watch.ClassDown && strings.Contains(f.text, "HTTPS_PROXY"):
		return f.text, "is HTTPS_PROXY right, and does the proxy run? NO_PROXY names hosts that are reached without it"
	case f.class == watch.ClassDown:
		return fmt.Sprintf("%s: %s", c.Config.Poll.BaseURL.Masked(), f.text),
			"is DOORBELL_BASE_URL right, host, port and https or http? If so, look at DNS, network and proxy; " +
				"an authority of your own goes into DOORBELL_CA_FILE"
	case f.class == watch.ClassBusy:
		return f.text, "the API throttles the key: try again later, with a lower DOORBELL_REQUESTS_PER_SECOND"
	case f.status/100 == 2, f.status/100 == 3, f.status == 404:
		return f.text, "is DOORBELL_BASE_URL the API's own? It is what stands before /insertion-funnel/…; a login page or gateway " +
			"may stand in between. If the records are in an unusual place, name it in DOORBELL_RECORDS_PATH"
	}
	return f.text, "run would try again; if it stays so, ask the provider"
}

// refusals says why agencies are refused, which depends on the other agencies of the key.
func (c *checker) refusals(p poller.Options, refused map[int]*listings.StatusError) {
	for n, status := range refused {
		var others events.AgenciesOfKey
		for i, a := range c.report.Agencies {
			switch {
			case i == n || p.Agencies[i].Key.Fingerprint() != p.Agencies[n].Key.Fingerprint():
			case a.Access == AccessOK:
				others.Working++
			case a.Access == AccessRefused, a.Access == AccessHalted:
				others.Refused++
			default:
				others.Unknown++
			}
		}
		a := &c.report.Agencies[n]
		reason, advice := poller.Refusal(a.AgencyID, status, others)
		advice = strings.Replace(advice, "run: "+watch.ResumeCommand(a.AgencyID, ""), "check again", 1) // nothing is halted yet
		a.ProbableReason = reason
		a.says(LevelFail, ops.RefusalText(a.Status, reason)+"; run would halt there", advice)
	}
}

// maxNamed is the maximum number of agencies that are named one by one.
const maxNamed = 6

// accessLines writes a line for each agency that the key opens, or one for many, then one for all
// of which the same is said.
func (c *checker) accessLines() {
	var opened []Agency
	all := Agency{}
	var order []string // texts, as they come
	same := map[string][]Agency{}
	for _, a := range c.report.Agencies {
		if a.level == LevelOK {
			opened = append(opened, a)
			all.Insertions, all.AtLeast = all.Insertions+a.Insertions, all.AtLeast || a.AtLeast
			continue
		}
		if same[a.text] == nil {
			order = append(order, a.text)
		}
		same[a.text] = append(same[a.text], a)
	}
	if len(opened) > maxNamed {
		c.report.ok(SectionAPI, "%s: access, %s", ops.Counted(len(opened), "agency"), all.counted())
		opened = nil
	}
	for _, a := range opened {
		c.report.ok(SectionAPI, "%s: %s", a.AgencyID, a.text)
	}
	for _, text := range order {
		var names []string
		for _, a := range same[text] {
			names = append(names, a.AgencyID)
		}
		first, list := same[text][0], strings.Join(names[:min(len(names), maxNamed)], ", ")
		if len(names) > 1 { // each has a command of its own
			first.remedy = strings.Replace(first.remedy, "run: "+watch.ResumeCommand(first.AgencyID, ""), "run for each of them: doorbell resume AGENCY", 1)
		}
		if more := len(names) - maxNamed; more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		c.report.add(Line{Section: SectionAPI, Level: first.level, Text: list + ": " + text, Remedy: first.remedy})
	}
}

func (a Agency) counted() string {
	if a.AtLeast {
		return "at least " + ops.Counted(a.Insertions, "insertion")
	}
	return ops.Counted(a.Insertions, "insertion")
}

// responses says what the list of one agency showed, then the contact requests of its first
// insertion, and of another one where that has none or cannot be read.
func (c *checker) responses(ctx context.Context, client *listings.Client, p poller.Options, a poller.AgencyKeys, list *listings.InsertionsPage) {
	c.report.ok(SectionResponses, "insertions are at %s", place(list.Envelope))
	if list.Unreadable > 0 {
		c.report.warn(SectionResponses, fmt.Sprintf("elements of the list without a propertyReferenceId: %d", list.Unreadable),
			"walks will be partial; ask the provider")
	}
	if len(list.Insertions) == 0 {
		return
	}
	var window *listings.ContactRequestsPage
	var failed *failure
	for _, n := range slices.Compact([]int{0, len(list.Insertions) / 2}) {
		page, err := client.ContactRequests(ctx, a.Key, a.ID, list.Insertions[n].Reference, listings.ContactRequestsQuery{
			NumberOfItemsPerPage: windowSize, SortBy: "createdAt", SortOrder: "desc",
		})
		if f := failureOf(err); slices.Contains([]int{http.StatusNoContent, http.StatusNotFound, http.StatusGone}, f.status) {
			page = &listings.ContactRequestsPage{} // it has none
		} else if err != nil {
			if failed = &f; f.class == watch.ClassRefused || f.class == watch.ClassBusy || f.class == watch.ClassDown || ctx.Err() != nil {
				break
			}
			continue
		}
		if window = page; len(page.ContactRequests) > 0 {
			break
		}
	}
	switch {
	case window != nil:
		c.contactRequests(p, window)
		if failed != nil {
			c.report.warn(SectionResponses, "contact requests of another insertion: "+failed.text, "")
		}
	case failed.class == watch.ClassRefused:
		c.report.fail(SectionResponses, "contact requests of an insertion that the list shows are refused: "+failed.text,
			"ask the provider whether the key may read contact requests; run would halt that insertion, or all contact requests of the agency if others are refused too")
	default:
		c.report.fail(SectionResponses, "contact requests: "+failed.text,
			"if it stays so for all insertions, no lead is seen: ask the provider, or name the place of the records in DOORBELL_RECORDS_PATH")
	}
}

// contactRequests says how contact requests are named and dated.
func (c *checker) contactRequests(p poller.Options, window *listings.ContactRequestsPage) {
	if len(window.ContactRequests) == 0 {
		c.report.ok(SectionResponses, "the insertions that were read have no contact request, so their ids and times are not known yet")
		return
	}
	fields := p.IDFields
	if len(fields) == 0 {
		fields = listings.IDFields
	}
	if field := idField(fields, window.ContactRequests); field != "" {
		c.report.ok(SectionResponses, "contact requests are at %s; their id is /%s", place(window.Envelope), field)
	} else {
		c.report.warn(SectionResponses, fmt.Sprintf("contact requests are at %s; no known member tells them apart", place(window.Envelope)),
			"name one in DOORBELL_CONTACT_ID_FIELDS; otherwise their content does, and two equal ones in the same second are one")
	}
	switch form := createdForm(window.ContactRequests); form {
	case listings.FormOffset:
		c.report.ok(SectionResponses, "their creation time is date and time with an offset")
	case listings.FormZoneless:
		c.report.ok(SectionResponses, "their creation time has no offset; it is read as %s (DOORBELL_TIMEZONE)", c.Config.Poll.Timezone)
	case listings.FormSeconds, listings.FormMilliseconds, listings.FormMicroseconds, listings.FormNanoseconds:
		c.report.ok(SectionResponses, "their creation time is in %s since 1970", form)
	default:
		c.report.warn(SectionResponses, "their creation time is "+form,
			"those without a time count as old at the first poll of an insertion; ask the provider for createdAt as RFC 3339")
	}
}

// place says where the records of a response stand, and whether it has a total.
func place(e listings.Envelope) string {
	path := cmp.Or(e.Place().Printable(), "the top of the response")
	if e.Total >= 0 {
		return path + ", with a total"
	}
	return path + ", without a total"
}

// idField is the first candidate that is present and distinct in a response; empty: there is none.
func idField(candidates []string, list []listings.ContactRequest) string {
	for _, field := range candidates {
		seen := map[string]bool{"": true}
		if !slices.ContainsFunc(list, func(r listings.ContactRequest) bool {
			id := r.ID(field)
			twice := seen[id]
			seen[id] = true
			return twice
		}) {
			return field
		}
	}
	return ""
}

// createdForm is how creation times are written; "mixed" where not all are alike.
func createdForm(list []listings.ContactRequest) string {
	form := list[0].CreatedForm
	if slices.ContainsFunc(list, func(r listings.ContactRequest) bool { return r.CreatedForm != form }) {
		return "mixed"
	}
	return form
}

// round says how long a round of polls takes, and whether it fits into the allowed staleness.
func (c *checker) round() {
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
		c.report.warn(sectionBudget, fmt.Sprintf("a round of polls takes longer than DOORBELL_MAX_STALENESS, %s", limit),
			fmt.Sprintf("it takes at least %.2g requests/s (DOORBELL_REQUESTS_PER_SECOND)", math.Ceil(100*float64(insertions)/limit.Seconds())/100))
	}
}

// spacing is a listings.Gate that lets requests begin at even distances, and counts them.
type spacing struct {
	every time.Duration
	next  time.Time
	begun int
}

func newSpacing(perSecond float64) *spacing {
	return &spacing{every: time.Duration(float64(time.Second) / perSecond)}
}

func (s *spacing) Wait(ctx context.Context, _ listings.Request) error {
	select {
	case <-time.After(time.Until(s.next)):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.next = time.Now().Add(s.every)
	s.begun++
	return nil
}

func (*spacing) Done(listings.Request, listings.Outcome) {}

// failure is why a request failed, in words that do not name the insertion.
type failure struct {
	text   string
	status int // 0: no response
	class  watch.Class
}

func failureOf(err error) failure {
	var of interface {
		error
		String() string // what was requested
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
			f.text += fmt.Sprintf(", to be tried again after %s", e.RetryAfter.Round(time.Second))
		}
	case *listings.TransportError:
		f.text = "no response (" + f.text + ")"
	case *listings.DriftError:
		f.status, f.text = e.Status, "not a response of this API: "+f.text
	}
	return f
}
