package watch

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Question is one way to ask for contact requests.
type Question = listings.ContactRequestsQuery

// FirstSize is how many contact requests a poll asks for. A window that stays open asks for WidestSize.
const FirstSize, WidestSize = 100, 1000

// Ask is the question for contact requests sorted by a member, desc or asc. A size of 0 leaves the
// number to the API.
func Ask(sortBy, order string, size int) Question {
	return Question{NumberOfItemsPerPage: size, SortBy: sortBy, SortOrder: order}
}

// Response is a response to a question for the contact requests of an insertion.
type Response struct {
	Question
	Requests   []listings.ContactRequest
	Total      int  // -1 if the API did not say
	Unreadable int  // elements that could not be read
	List       bool // there is a list, even an empty one
}

func (r Response) count() int { return len(r.Requests) + r.Unreadable }

// Sum is a hash of all that a response says to which Judge listens, as long as each of its contact
// requests is known and reads as it did.
func (r Response) Sum(rules Rules) (sum listings.Sum) {
	b := make([]byte, 0, 64+96*len(r.Requests))
	for _, n := range []int{r.NumberOfItemsPerPage, r.Total, r.Unreadable} {
		b = binary.AppendVarint(b, int64(n))
	}
	b = strconv.AppendBool(append(append(b, r.SortBy...), r.SortOrder...), r.List)
	for n := range r.Requests {
		c := &r.Requests[n]
		field, id := rules.idOf(c)
		digest := digestOf(c, rules)
		b = binary.AppendUvarint(b, uint64(field))
		b = binary.AppendUvarint(b, uint64(len(id)))
		b = append(append(b, id...), digest[:]...)
		b = binary.AppendVarint(b, c.CreatedAt.Unix())
		b = binary.AppendVarint(b, int64(c.CreatedAt.Nanosecond()))
		b = strconv.AppendBool(b, c.HasZone())
	}
	whole := sha256.Sum256(b)
	return listings.Sum(whole[:len(sum)])
}

func (r Response) newestFirst() bool { return r.SortBy == "createdAt" && r.SortOrder == "desc" }
func (r Response) oldestFirst() bool { return r.SortBy == "createdAt" && r.SortOrder == "asc" }

// Prior is what is remembered when a response is judged.
type Prior struct {
	State     store.Agency
	Insertion store.Insertion        // with its last poll
	Known     []store.ContactRequest // by id
	Record    func() []byte          // of the insertion, as last read; most responses do not need it
	// Elsewhere returns those of insertions of which this one may be another name, one of which is
	// new and one listed no more. It is asked only where something is unknown; nil: there are none.
	Elsewhere func() []store.ContactRequest
}

// summary is what events say of the insertion. Most responses make none.
func (p Prior) summary() events.InsertionSummary {
	return summary(listings.Insertion{Reference: p.Insertion.Reference, Record: p.Record()})
}

// Poll is the poll that a response belongs to.
type Poll struct {
	AgencyID string
	Announce bool // the baseline is announced
	People   events.People
	Rules    Rules
	Before   time.Time     // the last good look of this process; zero: none
	Apart    time.Duration // between two readings that make a redaction
	HoldFor  time.Duration // the same, where it is of most people of a response
	// Retention is how long the stream knows the events that it was given; 0: for ever.
	Retention time.Duration

	Newest  time.Time // the newest that a window of the agency has shown in order; zero: none has
	Longest int       // the most contact requests that the service has shown at once
	Totals  bool      // a total has counted more than stood beside it
	Proved  int       // how many were all there is when that was last seen from both ends; 0: it was not
}

// Effects is what a decision changes of what is remembered: one transaction, with the events that
// say so.
type Effects struct {
	State      *store.Agency // nil: as it was
	Insertions []store.Insertion
	Records    map[string][]byte // of insertions, by reference

	Reference string // the insertion of the following
	Contacts  []store.ContactRequest

	Unhalted []string // insertions whose halt goes with them
	Access   []AccessChange
	Raised   []store.Alarm
	Cleared  []store.AlarmID

	Events []events.Payload
}

// Empty reports whether there is nothing to write.
func (e Effects) Empty() bool {
	return e.State == nil && len(e.Insertions)+len(e.Records)+len(e.Contacts)+len(e.Unhalted)+
		len(e.Access)+len(e.Raised)+len(e.Cleared)+len(e.Events) == 0
}

func (e *Effects) announce(p ...events.Payload) { e.Events = append(e.Events, p...) }

// Judged is what a response says, in the light of what is remembered.
type Judged struct {
	Effects
	Window *Window
	Closed Closed
	Newest time.Time            // that the response shows in order; zero: it is in none
	Fresh  map[string]time.Time // creation times of what was not known before the catch-up, by id
	Waits  []time.Duration      // of the contact requests that are announced as live

	Readings []Reading // of the contact requests that were known, for [Volatility.Observe]

	// Settled says that a response of the same Sum changes nothing again, as long as nothing of the
	// insertion is written, [Unsettled] has nothing to say of the agency, Totals is the same, and our
	// clock is not set back.
	Settled bool
}

// Judge says what a response changes. The window is that of the responses before; it stays as it
// is.
func Judge(p Poll, w *Window, prior Prior, r Response, at time.Time) Judged {
	if r.count() == 0 && len(prior.Known) > 0 && w.Shown() == 0 {
		return Judged{Window: w, Closed: ClosedSilent}
	}
	i, corrected := prior.Insertion, prior.Insertion.Start.After(at)
	if corrected { // our clock was ahead at the begin, and was set since
		i.Start = at.UTC().Add(-beforeBegin)
		prior.Insertion = i
	}
	c := &comparison{
		Poll: p, Prior: prior, Effects: Effects{Reference: i.Reference}, at: at.UTC(),
		volatile: volatilePaths(prior.State, listings.OperationContactRequests),
		view:     viewOf(r, p.Longest), fresh: map[string]time.Time{},
	}
	c.Rules = p.Rules.without(c.volatile)
	if moved := c.compare(r.Requests); moved {
		c.announce(&events.WatchSchemaDrifted{
			Common:    events.Common{AgencyID: p.AgencyID, ObservedAt: c.at},
			Operation: string(listings.OperationContactRequests), PropertyReferenceID: i.Reference,
			Expected: "contact requests with the identity that they had",
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
	j.Settled = c.same && c.Effects.Empty() && closed != Open && len(c.fresh) == 0 && !Unsettled(prior.State)
	return j
}

// Unsettled reports whether a response may change something of an agency for what it does not say: members
// are left out whose values are compared each time, or redactions are held.
func Unsettled(state store.Agency) bool {
	return len(state.Volatile) > 0 || state.Redaction != nil
}

// GiveUp ends a catch-up that no response has closed: an event says that contact requests may be
// unseen. Of a list in no order it says so once.
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

// close closes the window of an insertion. An event says how many contact requests of a first poll
// were taken for old because their time is not known, also of a catch-up that failed or was killed
// and has begun again.
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
