package main

import (
	"fmt"
	"strings"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// learned says what the answers of an agency showed.
func (c *checker) learned(l *pausedWalk) {
	for i, a := range c.report.Agencies {
		if a.AgencyID == l.agencyID {
			c.report.Agencies[i].AtLeast = a.AtLeast && c.report.Learned.Insertions.MayHoldMore
		}
	}
	c.learnedPages(l)
	c.moved(l.known[listings.OperationInsertions], c.report.Learned.Insertions.Path)
	c.learnedSizes()
	c.learnedContactRequests()
	if r := c.report.Learned.ContactRequests; r.Records > 0 {
		c.moved(l.known[listings.OperationContactRequests], r.Path)
	}
	switch c.report.Learned.Conditional {
	case yes:
		c.report.ok(sectionAnswers, "conditional requests are honoured: what has not changed is not sent again")
	case no:
		c.report.ok(sectionAnswers, "conditional requests are ignored: every answer comes whole")
	case none:
		c.report.ok(sectionAnswers, "conditional requests are not offered (no ETag, no Last-Modified)")
	}
}

// moved says that records do not stand where the store remembers them.
func (c *checker) moved(known listings.Dialect, path string) {
	if before := known.Printable().Path; known.Known && before != path {
		c.report.warn(sectionAnswers, "they stood at "+placeOf(before)+" before", "run would say watch.schema_drifted and go on from there; if it is not meant, ask the provider")
	}
}

func placeOf(path string) string {
	if path == "" {
		return "the top of the answer"
	}
	return path
}

func totalText(told bool) string {
	if told {
		return "a total is told"
	}
	return "no total is told"
}

func (c *checker) learnedPages(l *pausedWalk) {
	i := c.report.Learned.Insertions
	text := fmt.Sprintf("insertions stand at %s; %s; ", placeOf(i.Path), totalText(i.TotalTold))
	switch {
	case i.PageHeeded == yes:
		text += "pages count from " + i.FirstPage
	case i.PageHeeded == no:
		text += "page=2 repeats the first page"
	default:
		text += "how pages are numbered did not show"
	}
	switch {
	case i.PageHeeded == no && l.more():
		c.report.fail(sectionAnswers, text+": the rest of the list cannot be read", pageSizeAdvice(i, l))
	case i.PageHeeded == no && i.MayHoldMore:
		c.report.warn(sectionAnswers, text+": if the list is longer, the rest cannot be read", pageSizeAdvice(i, l))
	case i.PageHeeded == no:
		c.report.ok(sectionAnswers, "%s, which holds all", text)
	default:
		c.report.ok(sectionAnswers, "%s", text)
	}
	if i.Unreadable > 0 {
		c.report.warn(sectionAnswers, fmt.Sprintf("%d of the elements of the list hold no propertyReferenceId", i.Unreadable), "walks will be partial; ask the provider")
	}
	c.troubles(i.Troubles)
}

func pageSizeAdvice(i learnedInsertions, l *pausedWalk) string {
	if l.page.Total > 0 && !i.Capped && i.Largest >= l.page.Total {
		return fmt.Sprintf("set DOORBELL_PAGE_SIZE to more than %d, so that one page holds all", l.page.Total)
	}
	return "set DOORBELL_PAGE_SIZE to more than there are insertions, or split them with DOORBELL_INSERTIONS_FILTER, and ask the provider"
}

func (c *checker) learnedSizes() {
	i := c.report.Learned.Insertions
	text := fmt.Sprintf("pageSize=%d is taken", i.Asked)
	if i.Asked == 0 {
		text = "a page has the size that the API gives it"
	}
	if i.Default > 0 {
		text += fmt.Sprintf("; without one a page holds %d", i.Default)
	}
	switch {
	case i.Capped:
		text += fmt.Sprintf("; %d is the most on a page", i.Largest)
	case i.Largest > i.Asked && i.Asked > 0:
		text += fmt.Sprintf("; up to %d on a page were seen", i.Largest)
	case !i.MayHoldMore:
		text += "; all fit on one page, so the most on a page did not show"
	}
	if len(i.RefusedSizes) == 0 {
		c.report.ok(sectionAnswers, "%s", text)
		return
	}
	remedy := ""
	if i.RefusedSizes[0] > i.Asked && i.Asked > 0 && c.startsWith(i.RefusedSizes[0]) {
		remedy = fmt.Sprintf("set DOORBELL_PAGE_SIZE=%d, to save a refused request for every walk", i.Asked)
	}
	text = fmt.Sprintf("%s; refused: %s", text, strings.Trim(fmt.Sprint(i.RefusedSizes), "[]"))
	if c.startsWith(i.RefusedSizes[0]) {
		c.report.warn(sectionAnswers, text, remedy)
		return
	}
	c.report.ok(sectionAnswers, "%s", text)
}

// startsWith says whether walks begin with a size.
func (c *checker) startsWith(size int) bool {
	configured := int(c.config.Poll.PageSize)
	return size == configured || configured == 0 && size == usualSize
}

func (c *checker) learnedContactRequests() {
	r := c.report.Learned.ContactRequests
	switch {
	case r.refused.class == watch.ClassRefused:
		c.report.fail(sectionAnswers, "contact requests of an insertion that the list shows are refused: "+r.refused.text,
			"ask the provider whether the key may read contact requests; run would halt that insertion, or all contact requests of the agency if others are refused too")
		return
	case !r.Read && len(r.Troubles) > 0:
		c.report.fail(sectionAnswers, strings.Join(r.Troubles, "; "), "if it stays so for all insertions, no lead is seen: ask the provider, or name the place of the records in DOORBELL_RECORDS_PATH")
		return
	case !r.Read:
		c.report.ok(sectionAnswers, "contact requests were not looked at: the list is empty")
		return
	}
	text := fmt.Sprintf("contact requests stand at %s; %s", placeOf(r.Path), totalText(r.TotalTold))
	if r.Records == 0 {
		c.report.ok(sectionAnswers, "%s; the insertions looked at have none, so ids and times did not show", text)
		return
	}
	if r.NumberHeeded == no {
		text += "; numberOfItemsPerPage is ignored"
	}
	c.report.ok(sectionAnswers, "%s; %s", text, orderText(r))
	c.identity(r)
	c.times(r)
	if r.OrderHeeded == no {
		c.report.warn(sectionAnswers, "sortBy=createdAt&sortOrder=desc is not heeded", "long lists are then asked for whole; expect watch.gap_detected where they are longer than the API shows")
	}
	c.troubles(r.Troubles)
}

func orderText(r learnedContactRequests) string {
	switch r.OrderHeeded {
	case yes:
		return "asked newest first, they come so"
	case no:
		return "not in the order that was asked for"
	}
	return "too few to see their order"
}

func (c *checker) identity(r learnedContactRequests) {
	switch {
	case r.IDField == "" && len(r.IDCandidates) > 0:
		c.report.warn(sectionAnswers, fmt.Sprintf("%s tells contact requests apart, but is another at every reading", strings.Join(r.IDCandidates, ", ")),
			"name a better member in DOORBELL_CONTACT_ID_FIELDS; else they are told apart by their content")
	case r.IDField == "":
		c.report.warn(sectionAnswers, "no known member tells contact requests apart",
			"name one in DOORBELL_CONTACT_ID_FIELDS; else they are told apart by their content, and two equal ones in the same second are one")
	case len(r.IDCandidates) > 1:
		c.report.ok(sectionAnswers, "/%s is taken for their id; candidates were %s", r.IDField, strings.Join(r.IDCandidates, ", "))
	default:
		c.report.ok(sectionAnswers, "/%s is taken for their id", r.IDField)
	}
}

func (c *checker) times(r learnedContactRequests) {
	switch r.CreatedForm {
	case "rfc3339":
		c.report.ok(sectionAnswers, "their creation time can be read: date and time with an offset")
	case "zoneless":
		c.report.ok(sectionAnswers, "their creation time has no offset; it is read as %s (DOORBELL_TIMEZONE)", c.config.Poll.Timezone)
	case "seconds", "milliseconds":
		c.report.ok(sectionAnswers, "their creation time can be read: %s since 1970", r.CreatedForm)
	case "absent":
		c.report.warn(sectionAnswers, "they have no creation time that is known", "old and new ones cannot be told apart at the first poll of an insertion; ask the provider for createdAt")
	case "mixed":
		c.report.warn(sectionAnswers, "their creation times have several forms, or some have none", "those without are taken for old at the first poll of an insertion")
	default:
		c.report.warn(sectionAnswers, "their creation time cannot be read", "old and new ones cannot be told apart at the first poll of an insertion; ask the provider for RFC 3339")
	}
}

func (c *checker) troubles(list []string) {
	for _, t := range list {
		c.report.warn(sectionAnswers, t, "")
	}
}

// clockTolerance is a skew that nobody needs to mend.
const clockTolerance = 10

// answered sums up the answers and holds the two clocks against each other.
func (c *checker) answered() {
	a := c.asker.answers()
	c.report.Answers, c.report.Requests = a, a.Requests
	if a.Protocol == "" {
		return
	}
	c.report.ok(sectionAPI, "%s answered over %s in %d / %d / %d ms (least, median, most)", several(a.Requests, "request"), a.Protocol, a.MinMillis, a.MedianMillis, a.MaxMillis)
	switch skew := a.SkewSeconds; {
	case !a.ClockTold:
		c.report.warn(sectionAPI, "the API does not say what time it is (no Date header)", "keep the clock of this machine right")
	case skew > clockTolerance || skew < -clockTolerance:
		c.report.warn(sectionAPI, fmt.Sprintf("the clocks differ: the API's is %+d s from ours", skew), "set the clock of this machine (NTP); if it is right, tell the provider")
	default:
		c.report.ok(sectionAPI, "its clock and ours agree within %d s", max(1, skew, -skew))
	}
}

// budget holds the requests that may be spent against all insertions that the agencies told of.
func (c *checker) budget() {
	insertions, pages, least := 0, 0, false
	size := usualSize
	if l := c.report.Learned; l != nil {
		size = max(l.Insertions.Asked, l.Insertions.Default, 1)
		if l.Insertions.Capped {
			size = max(l.Insertions.Largest, 1)
		}
	}
	known := false
	for _, a := range c.report.Agencies {
		if a.Insertions < 0 {
			least = true
			continue
		}
		known = true
		insertions += a.Insertions
		least = least || a.AtLeast
		pages += (a.Insertions+size-1)/size + 2 // the first one twice, and an empty one
	}
	if !known {
		return
	}
	b := newBudget(c.config.Poll, insertions, pages)
	b.AtLeast = least
	c.report.Budget = &b
	b.report(c.report)
}
