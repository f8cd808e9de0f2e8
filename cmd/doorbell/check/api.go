package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/forward/message"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// connect makes the client of the API. It keeps to the configured rate, and beside a daemon, whose
// own requests are not counted here, to at most one request a second.
func (c *checker) connect() (err error) {
	perSecond := c.poll.RequestsPerSecond
	if c.report.DaemonRunning {
		perSecond = min(perSecond, 1)
	}
	c.limit = rate.NewLimiter(rate.Limit(perSecond), 1)
	c.poll.API.Gate = c
	if c.client, err = listings.New(c.poll.API); err != nil {
		return exit.Config(err, "")
	}
	return nil
}

// Wait lets requests begin at even distances, and counts them.
func (c *checker) Wait(ctx context.Context, r listings.Request) error {
	c.report.Requests++
	c.request = r
	return c.limit.Wait(ctx)
}

func (*checker) Done(listings.Request, listings.Outcome) {}

// access requests the first page of each agency's list, and reports a line for each. It returns the
// page with the most insertions. After a 429, or without a connection, nothing more is requested.
func (c *checker) access(ctx context.Context) (of poller.AgencyKeys, longest *listings.InsertionsPage) {
	var refused []*listings.StatusError
	byKey := map[string]events.AgenciesOfKey{}
	ended := false
	for _, a := range c.poll.Agencies {
		if halt := c.halts[a.ID]; halt != nil {
			c.report.fail(SectionAPI,
				fmt.Sprintf("%s: polling stopped for %s, because %s; no request was sent", a.ID,
					message.Scope(halt.Scope), ops.RefusalText(halt.Status, halt.ProbableReason)),
				halt.Advice)
			continue
		}
		if ended {
			c.report.warn(SectionAPI, a.ID+": not checked, because the previous request failed", "")
			continue
		}
		page, err := c.firstPage(ctx, a)
		class, counted := watch.Classify(err), byKey[a.Key.Fingerprint()]
		switch status := (*listings.StatusError)(nil); {
		case err == nil:
			counted.Working++
			c.opens(a, page)
			if longest == nil || len(page.Insertions) > len(longest.Insertions) {
				of, longest = a, page
			}
		case class == watch.ClassRefused && errors.As(err, &status):
			counted.Refused++
			refused = append(refused, status)
		default:
			text, remedy := explain(err)
			c.report.fail(SectionAPI, a.ID+": "+text, remedy)
			ended = slices.Contains(endings, class)
		}
		byKey[a.Key.Fingerprint()] = counted
	}
	for _, r := range refused {
		others := byKey[r.Key]
		others.Refused--
		reason, advice := poller.Refusal(r.AgencyID, r, others)
		// nothing is halted
		advice = strings.Replace(advice, "run: "+watch.ResumeCommand(r.AgencyID, ""), "check again",
			1)
		c.report.fail(SectionAPI,
			r.AgencyID+": "+ops.RefusalText(r.Status, reason)+"; run would halt there", advice)
	}
	return of, longest
}

// endings are the classes of failures after which another request makes no sense.
var endings = []watch.Class{watch.ClassBusy, watch.ClassDown, watch.ClassCanceled}

// firstPage requests the first page of an agency's list, with smaller sizes where one is refused.
func (c *checker) firstPage(ctx context.Context, a poller.AgencyKeys) (*listings.InsertionsPage, error) {
	o := listings.WalkOptions{Filter: c.poll.Filter, Place: c.places[a.ID], MaxPages: 1}
	for page, err := range c.client.Walk(a.Key, a.ID, o).Pages(ctx) {
		return page, err
	}
	return nil, ctx.Err()
}

// opens reports that an agency's list can be read.
func (c *checker) opens(a poller.AgencyKeys, page *listings.InsertionsPage) {
	n := max(len(page.Insertions), page.Total)
	c.insertions += n
	switch {
	case n == 0:
		c.report.warn(SectionAPI, a.ID+": access, but no insertions",
			"correct if none is published, or none matches DOORBELL_INSERTIONS_FILTER")
	case page.Total < 0:
		c.report.ok(SectionAPI, "%s: access, at least %s", a.ID, ops.Counted(n, "insertion"))
	default:
		c.report.ok(SectionAPI, "%s: access, %s", a.ID, ops.Counted(n, "insertion"))
	}
}

// explain says why a request failed, without the insertion that it was about, and what to do.
func explain(err error) (text, remedy string) {
	text, remedy = "failed", "run would try again; if this persists, ask the provider"
	var of interface {
		error
		String() string // what was requested
	}
	if errors.As(err, &of) {
		text = strings.TrimPrefix(of.Error(), of.String()+": ")
	}
	elsewhere := false
	switch e := of.(type) {
	case *listings.TransportError:
		return "no response (" + text + ")",
			"check DOORBELL_BASE_URL, DNS, the network and HTTPS_PROXY. " +
				"A certificate authority of your own goes into DOORBELL_CA_FILE"
	case *listings.StatusError:
		elsewhere = e.Status/100 == 3 || e.Status == http.StatusNotFound
	case *listings.DriftError:
		text, elsewhere = "not a response from this API: "+text, true
	}
	if elsewhere {
		remedy = "is DOORBELL_BASE_URL the API's own address? It is the part before /insertion-funnel/…; a login page or gateway " +
			"may be in the way. If the records are in an unusual place, name it in DOORBELL_RECORDS_PATH"
	}
	return text, remedy
}

// responses reports what the list of an agency showed, then the contact requests of its first
// insertion, and of another one where that has none.
func (c *checker) responses(ctx context.Context, a poller.AgencyKeys, list *listings.InsertionsPage) {
	c.report.ok(SectionResponses, "insertions are at %s", place(list.Envelope))
	if list.Unreadable > 0 {
		c.report.warn(SectionResponses,
			fmt.Sprintf("list elements without a propertyReferenceId: %d", list.Unreadable),
			"walks will be partial; ask the provider")
	}
	for _, i := range someOf(list) {
		page, err := c.client.ContactRequests(ctx, a.Key, a.ID, i.Reference,
			listings.ContactRequestsQuery{
				NumberOfItemsPerPage: 20, SortBy: "createdAt", SortOrder: "desc",
			})
		switch {
		case poller.NoneStatus(err) != 0:
			continue
		case err != nil:
			text, _ := explain(err)
			c.report.fail(SectionResponses, "contact requests: "+text,
				"if this persists, no leads are seen: ask the provider "+
					"whether the key may read contact requests, or name the place of the records in DOORBELL_RECORDS_PATH")
			return
		case len(page.ContactRequests) > 0:
			c.contactRequests(page)
			return
		}
	}
	c.report.ok(SectionResponses,
		"no contact request was seen, so their ids and times are not known yet")
}

// someOf are two insertions of a list, or all it has.
func someOf(list *listings.InsertionsPage) []listings.Insertion {
	n := len(list.Insertions)
	if n < 2 {
		return list.Insertions
	}
	return []listings.Insertion{list.Insertions[0], list.Insertions[n/2]}
}

// contactRequests reports how contact requests are named and dated.
func (c *checker) contactRequests(window *listings.ContactRequestsPage) {
	fields := c.poll.API.IDFields
	if len(fields) == 0 {
		fields = listings.IDFields
	}
	at := slices.IndexFunc(fields, func(field string) bool { return isDistinct(field, window.ContactRequests) })
	if at >= 0 {
		c.report.ok(SectionResponses, "contact requests are at %s; their id is /%s",
			place(window.Envelope), fields[at])
	} else {
		c.report.warn(SectionResponses,
			fmt.Sprintf("contact requests are at %s; no known member tells them apart",
				place(window.Envelope)),
			"name one in DOORBELL_CONTACT_ID_FIELDS; otherwise their content does, and two identical ones in the same second count as one")
	}
	form := window.ContactRequests[0].CreatedForm
	switch text := "the creation time of the first is " + form; form {
	case listings.FormUnreadable, listings.FormAbsent:
		c.report.warn(SectionResponses, text,
			"those without a time count as old at the first poll of an insertion; ask the provider for createdAt as RFC 3339")
	case listings.FormZoneless:
		c.report.ok(SectionResponses, "%s; it is read as %s (DOORBELL_TIMEZONE)", text,
			c.config.Poll.Timezone)
	default:
		c.report.ok(SectionResponses, "%s", text)
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

// place is where the records of a response are.
func place(e listings.Envelope) string {
	return cmp.Or(e.Place().Printable(), "the top of the response")
}

// round reports how long a round of polls takes.
func (c *checker) round() {
	p := c.config.Poll
	polls := time.Duration(float64(c.insertions) / p.RequestsPerSecond * float64(time.Second))
	round := max(polls, p.PollInterval).Round(time.Millisecond)
	c.report.ok(SectionResponses, "%s at %g requests/s: a round of polls takes %s and finds a contact request after %s on average",
		ops.Counted(c.insertions, "insertion"), p.RequestsPerSecond, round, round/2)
}
