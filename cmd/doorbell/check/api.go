package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

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
)

// api requests the list of each agency once, and reads contact requests where the list is longest.
func (c *checker) api(ctx context.Context) {
	p := options.Poller(c.Config, c.Version)
	pace := c.pace(p.RequestsPerSecond, len(p.Agencies))
	p.API.Gate = pace
	client, err := listings.New(p.API)
	if err != nil {
		c.report.refuse(sectionConfig, exit.Config(err, ""))
		return
	}
	agency, list := c.access(ctx, client, p)
	for all := c.report.Agencies; len(all) > 0; { // one line for neighbors that need the same remedy
		line, names := all[0].line, all[0].AgencyID
		for all = all[1:]; len(all) > 0 && line.Remedy != "" && all[0].line == line; all = all[1:] {
			names += ", " + all[0].AgencyID
		}
		line.Text = names + ": " + line.Text
		c.report.add(exit.CodeFailed, line)
	}
	if list != nil {
		c.responses(ctx, client, p, agency, list)
		c.round()
	}
	c.report.Requests = pace.begun
}

// Key requests the list of every configured agency once, with the key of the configuration, and
// prints a line for each. It uses neither the store nor the daemon: the key in use, its halts and
// its polls stay as they are. refused counts the agencies that the key was not seen to open. The
// error is that of the context or of a failed write.
func Key(ctx context.Context, o Options, out io.Writer) (refused int, err error) {
	c := newChecker(o)
	_, err = options.Client(o.Config.Base).Status(ctx)
	c.report.DaemonRunning = !errors.Is(err, ops.ErrNoAnswer)
	p := options.Poller(o.Config, o.Version)
	p.API.Gate = c.pace(p.RequestsPerSecond, len(p.Agencies))
	client, err := listings.New(p.API)
	if err != nil {
		return 0, exit.Config(err, "")
	}
	c.access(ctx, client, p)
	for _, a := range c.report.Agencies {
		text := a.line.Text
		if a.Access != AccessOK {
			refused++
		}
		if a.Access == AccessRefused { // whether others open is seen here
			text = fmt.Sprintf("status %d, %s", a.Status, text)
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", a.AgencyID, text); err != nil {
			return refused, err
		}
	}
	return refused, ctx.Err()
}

// access requests the first page of each agency's list, and returns the one with the most
// insertions. After a 429 the key is not used again; after a refused connection nothing is
// requested.
func (c *checker) access(ctx context.Context, client *listings.Client, p poller.Options) (agency poller.AgencyKeys, longest *listings.InsertionsPage) {
	over := map[string]string{} // why a key is not used any more
	down := ""
	refused := map[int]*listings.StatusError{}
	for i, a := range p.Agencies {
		found := Agency{AgencyID: a.ID, Access: AccessNotAsked, Insertions: -1}
		h, halted := c.halts[a.ID]
		why := cmp.Or(down, over[a.Key.Fingerprint()])
		switch {
		case halted:
			found.Access, found.Status, found.ProbableReason = AccessHalted, h.status, h.reason
			found.reports(LevelFail, fmt.Sprintf("polling stopped for %s, because %s; no request was sent",
				message.Scope(h.scope), ops.RefusalText(h.status, h.reason)), h.advice)
		case why != "":
			found.reports(levelWarn, "not checked, because the API "+why, "")
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
			found.reports(LevelFail, f.text, remedy(f))
			switch f.class {
			case watch.ClassBusy:
				over[a.Key.Fingerprint()] = "throttles the key"
			case watch.ClassDown, watch.ClassCanceled:
				down = "does not respond"
			case watch.ClassRefused:
				found.Access, refused[i] = AccessRefused, f.refused
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

// reports sets the line of an agency.
func (a *Agency) reports(level, text, remedy string) { a.line = Line{SectionAPI, level, text, remedy} }

func (a *Agency) admit(page *listings.InsertionsPage) {
	a.Access, a.Status, a.Insertions = AccessOK, http.StatusOK, max(len(page.Insertions), page.Total)
	switch {
	case a.Insertions == 0:
		a.reports(levelWarn, "access, but no insertion",
			"right if none is published, or none fits DOORBELL_INSERTIONS_FILTER")
	case page.Total < 0:
		a.reports(LevelOK, "access, at least "+ops.Counted(a.Insertions, "insertion"), "")
	default:
		a.reports(LevelOK, "access, "+ops.Counted(a.Insertions, "insertion"), "")
	}
}

// remedy returns what to do about a list that could not be read.
func remedy(f failure) string {
	switch {
	case f.class == watch.ClassDown && strings.Contains(f.text, "HTTPS_PROXY"):
		return "is HTTPS_PROXY right, and does the proxy run? NO_PROXY names hosts that are reached without it"
	case f.class == watch.ClassDown:
		return "is DOORBELL_BASE_URL right, host, port and https or http? If so, look at DNS, network and proxy; " +
			"an authority of your own goes into DOORBELL_CA_FILE"
	case f.class == watch.ClassBusy:
		return "the API throttles the key: try again later, with a lower DOORBELL_REQUESTS_PER_SECOND"
	case f.status/100 == 2, f.status/100 == 3, f.status == http.StatusNotFound:
		return "is DOORBELL_BASE_URL the API's own? It is what stands before /insertion-funnel/…; a login page or gateway " +
			"may stand in between. If the records are in an unusual place, name it in DOORBELL_RECORDS_PATH"
	}
	return "run would try again; if it stays so, ask the provider"
}

// refusals reports why agencies are refused, which depends on the other agencies of the key.
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
		a.reports(LevelFail, ops.RefusalText(a.Status, reason)+"; run would halt there", advice)
	}
}

// responses reports what the list of one agency showed, then the contact requests of its first
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
	var failed failure
	for _, n := range slices.Compact([]int{0, len(list.Insertions) / 2}) {
		page, err := client.ContactRequests(ctx, a.Key, a.ID, list.Insertions[n].Reference, listings.ContactRequestsQuery{
			NumberOfItemsPerPage: windowSize, SortBy: "createdAt", SortOrder: "desc",
		})
		if err == nil && len(page.ContactRequests) > 0 {
			c.contactRequests(p, page)
			return
		}
		f := failureOf(err)
		if err != nil && !slices.Contains([]int{http.StatusNoContent, http.StatusNotFound, http.StatusGone}, f.status) {
			failed = f
		}
		if f.ends() {
			break
		}
	}
	switch {
	case failed.text == "":
		c.report.ok(SectionResponses, "the insertions that were read have no contact request, so their ids and times are not known yet")
	case failed.class == watch.ClassRefused:
		c.report.fail(SectionResponses, "contact requests of an insertion that the list shows are refused: "+failed.text,
			"ask the provider whether the key may read contact requests; run would halt that insertion, or all contact requests of the agency if others are refused too")
	default:
		c.report.fail(SectionResponses, "contact requests: "+failed.text,
			"if it stays so for all insertions, no lead is seen: ask the provider, or name the place of the records in DOORBELL_RECORDS_PATH")
	}
}

// contactRequests reports how contact requests are named and dated.
func (c *checker) contactRequests(p poller.Options, window *listings.ContactRequestsPage) {
	fields := p.IDFields
	if len(fields) == 0 {
		fields = listings.IDFields
	}
	at := slices.IndexFunc(fields, func(field string) bool { return isDistinct(field, window.ContactRequests) })
	if at >= 0 {
		c.report.ok(SectionResponses, "contact requests are at %s; their id is /%s", place(window.Envelope), fields[at])
	} else {
		c.report.warn(SectionResponses, fmt.Sprintf("contact requests are at %s; no known member tells them apart", place(window.Envelope)),
			"name one in DOORBELL_CONTACT_ID_FIELDS; otherwise their content does, and two equal ones in the same second are one")
	}
	form := window.ContactRequests[0].CreatedForm
	for _, r := range window.ContactRequests {
		if r.CreatedForm != form {
			form = "mixed"
		}
	}
	switch form {
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

// isDistinct reports whether a field is present in all contact requests, and different in each.
func isDistinct(field string, list []listings.ContactRequest) bool {
	seen := map[string]bool{"": true}
	for _, r := range list {
		seen[r.ID(field)] = true
	}
	return len(seen) == len(list)+1
}

// place is where the records of a response stand, and whether it has a total.
func place(e listings.Envelope) string {
	path := cmp.Or(e.Place().Printable(), "the top of the response")
	if e.Total >= 0 {
		return path + ", with a total"
	}
	return path + ", without a total"
}

// round reports how long a round of polls takes.
func (c *checker) round() {
	insertions := 0
	for _, a := range c.report.Agencies {
		insertions += max(a.Insertions, 0)
	}
	p := c.Config.Poll
	polls := time.Duration(float64(insertions) / p.RequestsPerSecond * float64(time.Second))
	round := max(polls, p.PollInterval).Round(time.Millisecond)
	c.report.ok(SectionResponses, "%s at %g requests/s: a round of polls takes %s, which finds a contact request after %s on average",
		ops.Counted(insertions, "insertion"), p.RequestsPerSecond, round, round/2)
}

// spacing is a listings.Gate that lets requests begin at even distances, and counts them.
type spacing struct {
	*rate.Limiter
	begun int
}

// pace spaces requests at the configured rate. Beside a daemon, whose own requests are not counted
// here, it is at most one a second.
func (c *checker) pace(perSecond float64, requests int) *spacing {
	if c.report.DaemonRunning {
		perSecond = min(perSecond, 1)
	}
	if wait := time.Duration(float64(requests) / perSecond * float64(time.Second)); wait > 3*time.Second {
		fmt.Fprintf(c.Progress, "doorbell: at %g requests/s this takes about %s\n", perSecond, ops.Span(wait))
	}
	return &spacing{Limiter: rate.NewLimiter(rate.Limit(perSecond), 1)}
}

func (s *spacing) Wait(ctx context.Context, _ listings.Request) error {
	s.begun++
	return s.Limiter.Wait(ctx)
}

func (*spacing) Done(listings.Request, listings.Outcome) {}

// failure is why a request failed, in words that do not name the insertion.
type failure struct {
	text    string
	status  int // 0: no response
	class   watch.Class
	refused *listings.StatusError
}

// ends reports whether no more requests of the key make sense.
func (f failure) ends() bool {
	return slices.Contains([]watch.Class{watch.ClassRefused, watch.ClassBusy, watch.ClassDown, watch.ClassCanceled}, f.class)
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
		f.status, f.refused = e.Status, e
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
