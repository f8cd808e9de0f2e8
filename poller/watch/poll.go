package watch

import (
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Question is the query of one request for contact requests.
type Question = listings.ContactRequestsQuery

// FirstSize is the page size with which a poll begins. If its window stays open, it asks for
// WidestSize.
const FirstSize, WidestSize = 100, 1000

// Ask returns the query for contact requests sorted by a member, in desc or asc order. A size of 0
// leaves the size to the API.
func Ask(sortBy, order string, size int) Question {
	return Question{NumberOfItemsPerPage: size, SortBy: sortBy, SortOrder: order}
}

// Response is a response with contact requests of an insertion.
type Response struct {
	Question
	Requests   []listings.ContactRequest
	Total      int  // -1 if the API did not say
	Unreadable int  // elements that could not be read
	List       bool // it has a list, even if empty
}

func (r Response) count() int { return len(r.Requests) + r.Unreadable }

func (r Response) newestFirst() bool { return r.SortBy == "createdAt" && r.SortOrder == "desc" }
func (r Response) oldestFirst() bool { return r.SortBy == "createdAt" && r.SortOrder == "asc" }

// Prior is what is remembered when a response is judged.
type Prior struct {
	State     store.Agency
	Insertion store.Insertion        // with its last poll
	Known     []store.ContactRequest // by id
	// of the insertion, as last read; most responses do not need it
	Record func() []byte
	// Elsewhere returns the contact requests of insertions that may be this one under another
	// reference. It is called only if a contact request is unknown; nil: there are none.
	Elsewhere func() []store.ContactRequest
}

// summary returns what events say about the insertion.
func (p Prior) summary() events.InsertionSummary {
	return summary(listings.Insertion{Reference: p.Insertion.Reference, Record: p.Record()})
}

// Poll is the poll that a response belongs to.
type Poll struct {
	AgencyID string
	Announce bool // the baseline is announced
	People   events.People
	Rules    Rules
	Before   time.Time     // when this process last had a good response; zero: never
	Apart    time.Duration // minimum time between two readings that confirm a redaction
	HoldFor  time.Duration // the same, if it concerns most people of a response
	// Retention is how long the stream keeps events; 0: forever.
	Retention time.Duration

	Newest  time.Time // the newest creation time in an ordered window of the agency; zero: none
	Longest int       // the maximum number of contact requests that the service has shown at once
	Totals  bool      // a total was once larger than the number of contact requests beside it
	// how many contact requests there were when a poll last saw them all; 0: none did
	Proved int
}

// Effects is what a decision changes in the store, in one transaction with the events that report
// it.
type Effects struct {
	State      *store.Agency // nil: unchanged
	Insertions []store.Insertion
	Records    map[string][]byte // of insertions, by reference

	Reference string // the insertion that Contacts belong to
	Contacts  []store.ContactRequest

	Halted, Ended []store.Halt // Halted replaces what is halted already
	Raised        []store.Alarm
	Cleared       []store.AlarmID

	Events []events.Payload
}

// Empty reports whether there is nothing to commit.
func (e Effects) Empty() bool {
	return e.State == nil && len(e.Insertions)+len(e.Records)+len(e.Contacts)+
		len(e.Halted)+len(e.Ended)+len(e.Raised)+len(e.Cleared)+len(e.Events) == 0
}

func (e *Effects) announce(p ...events.Payload) { e.Events = append(e.Events, p...) }

// Judged is what a response means, given what is remembered.
type Judged struct {
	Effects
	Window *Window
	Closed Closed
	// creation times of contact requests unknown before the catch-up, by id
	Fresh map[string]time.Time
	Waits []time.Duration // latencies of the contact requests announced as live

	Newest time.Time // the newest creation time in the response; zero: it has no order

	Readings []Reading // of the contact requests that were known, for [Volatility.Observe]

	// Settled means that the same response would change nothing either, as long as
	// nothing of the insertion is written, [Unsettled] is false for the agency, Totals is the same,
	// and our clock is not set back.
	Settled bool
}

// Judge decides what a response changes. The window is that of the earlier responses; Judge does
// not modify it.
func Judge(p Poll, w *Window, prior Prior, r Response, at time.Time) Judged {
	if r.count() == 0 && len(prior.Known) > 0 && w.Shown() == 0 {
		return Judged{Window: w, Closed: ClosedSilent}
	}
	i, corrected := prior.Insertion, prior.Insertion.Start.After(at)
	if corrected { // our clock was ahead when the watch began, and was corrected since
		i.Start = at.UTC().Add(-beforeBegin)
		prior.Insertion = i
	}
	c := &comparison{
		Poll: p, Prior: prior, Effects: Effects{Reference: i.Reference}, at: at.UTC(),
		volatile: volatilePaths(prior.State, listings.OperationContactRequests),
		view:     viewOf(r, p.Longest), fresh: map[string]time.Time{},
	}
	c.Rules = p.Rules.leavingOut(prior.State)
	if moved := c.compare(r.Requests); moved {
		c.announce(&events.WatchSchemaDrifted{
			Common:    events.Common{AgencyID: p.AgencyID, ObservedAt: c.at},
			Operation: string(listings.OperationContactRequests), PropertyReferenceID: i.Reference,
			Change:   "place",
			Expected: "contact requests with their previous identity",
			Found:    "the same ones with another",
		})
	}
	c.holdRedactions()
	next := w.with(r, c)
	closed := c.closed(r, next)
	switch {
	case closed == Open && c.new > 0 && i.OpenSince.IsZero():
		i.OpenSince = c.at
		c.Insertions = []store.Insertion{i}
	case closed != Open && (!i.Polled || corrected || next.list && !i.Listed ||
		!i.OpenSince.IsZero() || len(c.Contacts) > 0):
		p.close(&c.Effects, prior, next, c.at)
	}
	j := Judged{
		Effects: c.Effects, Window: next, Closed: closed,
		Fresh: c.fresh, Waits: c.waits, Readings: c.readings,
	}
	if c.view.ordered {
		j.Newest = c.view.newest
	}
	j.Settled = c.same && c.Effects.Empty() && closed != Open && len(c.fresh) == 0 &&
		!Unsettled(prior.State)
	return j
}

// Unsettled reports whether even a repeated response may change something of an agency: there are
// volatile members, whose values are compared each time, or held redactions.
func Unsettled(state store.Agency) bool {
	return len(state.Volatile) > 0 || state.Redaction != nil
}

// GiveUp ends a catch-up that no response has closed. An event says that contact requests may be
// unseen; for a list without order only once.
func GiveUp(p Poll, w *Window, prior Prior, now time.Time) Effects {
	e := Effects{Reference: prior.Insertion.Reference}
	if w.view.ordered || !prior.Insertion.Unordered {
		e.announce(p.gap(prior, w, now.UTC()))
	}
	if !w.view.ordered {
		prior.Insertion.Unordered = true
	}
	p.close(&e, prior, w, now.UTC())
	return e
}

// close closes the window of an insertion. After a first poll an event says how many contact
// requests were taken for old because their time is unknown, including those of an earlier try that
// failed or was killed.
func (p Poll) close(e *Effects, prior Prior, w *Window, at time.Time) {
	i := prior.Insertion
	e.Insertions = []store.Insertion{closeWindow(i, w, at)}
	if i.Polled || !i.Baseline {
		return
	}
	untimed := map[string]bool{}
	for _, k := range slices.Concat(prior.Known, e.Contacts) {
		if k.CreatedAt.IsZero() && k.Epoch == i.Epoch {
			untimed[k.ID] = true
		}
	}
	if len(untimed) > 0 {
		e.announce(p.gapOf(i.Reference, "time_unknown", len(untimed), at))
	}
}
