package watch

import (
	"iter"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Prior is what is remembered when a response is judged.
type Prior struct {
	State     store.Agency
	Insertion store.Insertion // with its last poll
	Known     []store.ContactRequest
	Record    func() []byte // of the insertion, as last read; most responses do not need it
	// Elsewhere are those of insertions of which this one may be another name, one of which is new and one listed no more. It is
	// asked only where something is unknown; nil: there are none.
	Elsewhere iter.Seq[store.ContactRequest]
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

	Longest int       // the most contact requests that the service has shown at once
	Totals  bool      // a total has counted more than stood beside it
	Larger  bool      // a larger number may be asked for
	Newest  time.Time // the newest that a window of the agency has shown in order; zero: none has
	Proved  int       // how many were all there is when that was last seen from both ends; 0: it was not
}

// Effects is what a decision changes of what is remembered: one transaction, with the events that say so.
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
	Waits  []time.Duration      // of the contact requests that are announced

	Readings []Reading // of the contact requests that were known, for [Volatility.Observe]
}

// Judge says what a response changes. The window is that of the responses before; it stays as it is.
func Judge(p Poll, w *Window, prior Prior, r Response, at time.Time) Judged {
	if r.count() == 0 && len(prior.Known) > 0 && w.Shown() == 0 {
		return Judged{Window: w, Closed: ClosedSilent}
	}
	p.Rules = p.Rules.without(volatilePaths(prior.State, listings.OperationContactRequests))
	s := p.sight(prior, r, at.UTC())
	d, same := unchanged(s, prior.Known, r.Requests)
	if !same {
		d = diffContactRequests(s, prior.Known, prior.Elsewhere, identify(prior.Insertion.Reference, r.Requests, p.Rules))
	}
	j := Judged{Window: w.with(r, d, s.view), Fresh: d.fresh, Waits: waits(d.Events, s), Readings: d.readings}
	if s.view.ordered {
		j.Newest = s.view.newest
	}
	j.Closed = p.closed(prior, r, d, s.view, j.Window)
	i := prior.Insertion
	j.Reference, j.Contacts = i.Reference, d.Puts
	j.announce(d.Events...)
	if d.moved {
		j.announce(&events.WatchSchemaDrifted{
			Common: events.Common{AgencyID: p.AgencyID, ObservedAt: s.At}, Operation: string(listings.OperationContactRequests),
			PropertyReferenceID: i.Reference, Expected: "contact requests with the identity that they had", Found: "the same ones with another",
		})
	}
	p.holdRedactions(&j.Effects, prior.State, i.Reference, d, s.At)
	switch {
	case j.Closed == Open && d.new > 0 && i.OpenSince.IsZero():
		i.OpenSince = s.At
		j.Insertions = []store.Insertion{i}
	case j.Closed != Open && (!i.Polled || j.Window.list && !i.Listed || !i.OpenSince.IsZero() || len(d.Puts) > 0):
		p.close(&j.Effects, prior, j.Window, s.At)
	}
	return j
}

func (p Poll) sight(prior Prior, r Response, at time.Time) sight {
	i, after := prior.Insertion, p.Before
	if after.IsZero() {
		after = i.LastPoll
	}
	v := viewOf(r, p.Longest)
	v.agency = p.Newest
	for _, k := range prior.Known { // after a restart others may have shown less than this one did before
		if !p.Newest.IsZero() && k.CreatedAt.After(v.agency) {
			v.agency = k.CreatedAt
		}
	}
	return sight{
		Observation: Observation{AgencyID: p.AgencyID, At: at, After: after.UTC(), Emit: p.Announce && !refiltered(prior.State, i)},
		insertion:   i, summary: prior.summary, people: p.People,
		rules: p.Rules, view: v, apart: p.Apart, holdFor: p.HoldFor,
		forgotten: forgotten(prior.State, at, p.Retention),
		approved:  prior.State.Redaction != nil && prior.State.Redaction.Approved,
		volatile:  volatilePaths(prior.State, listings.OperationContactRequests),
	}
}

// forgotten is the moment before which a store that was lost or set back takes contact requests for old: they may have been announced, and
// the stream, which keeps others from being announced twice, knows them no more. Zero: there is none.
func forgotten(a store.Agency, at time.Time, retention time.Duration) time.Time {
	if retention <= 0 || !a.SetBack && a.HeardUntil.IsZero() {
		return time.Time{}
	}
	return at.Add(-retention)
}

// GiveUp ends a catch-up that no response has closed: an event says that contact requests may be unseen. Of a list in no order it says
// so once.
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

// close closes the window of an insertion. An event says how many contact requests of a first poll were taken for old because their
// time is not known, also of a catch-up that failed or was killed and has begun again.
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
