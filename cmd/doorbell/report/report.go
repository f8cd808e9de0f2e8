// Package report counts what became of the contact requests of some days, so that the owner can see
// that none was overlooked. [New] computes a [Report] from the event log, the checkpoints of the
// forwarders, the dead letters and the snapshot, and stores nothing itself. A Report is rendered as
// text, CSV or JSON, and contains no personal data.
//
// A lead is a contact_request.created event with origin live, counted by the time at which it was
// recorded. It is published once the stream has acknowledged it, and delivered once every receiver
// that the table of routes named for it has accepted it. What a receiver permanently rejected is a
// dead letter.
package report

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// Source is what a report is computed from.
type Source struct {
	From, To time.Time
	Zone     *time.Location           // of the times in the renderings
	Includes func(agency string) bool // nil: all agencies

	Events iter.Seq2[events.Event, error] // recorded from From on and before To
	// the highest position that the stream has acknowledged
	Acknowledged uint64
	// Deliveries returns where a lead went. Nil: there are no receivers.
	Deliveries func(events.Event) []forward.Delivered
	Letters    iter.Seq2[forward.Letter, error]
	Listings   []Listing // those that are published now
	Problems   []string  // why some figures may be too low
}

// Report is what became of the leads of some days.
type Report struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Zone     string    `json:"zone"`
	Total    Counts    `json:"total"`
	Agencies []Agency  `json:"agencies"` // by id
	// Seen is how long leads took from their creation until they were recorded, Delivered until the
	// last receiver had them. Checkpoints list the times of the newest deliveries only.
	Seen      Delays   `json:"seenAfter"`
	Delivered Delays   `json:"deliveredAfter"`
	Notices   []Notice `json:"notices"` // newest first
	Problems  []string `json:"problems"`
}

// Counts are numbers of leads. Those that were seen are delivered, waiting, rejected, erased before
// their delivery, or were for no receiver.
type Counts struct {
	Seen       int `json:"seen"`
	Published  int `json:"published"`
	Delivered  int `json:"delivered"`
	Waiting    int `json:"waiting"`
	Rejected   int `json:"rejected"`
	NoReceiver int `json:"noReceiver"`
	Erased     int `json:"erased"`
}

func (c *Counts) add(o Counts) {
	c.Seen += o.Seen
	c.Published += o.Published
	c.Delivered += o.Delivered
	c.Waiting += o.Waiting
	c.Rejected += o.Rejected
	c.NoReceiver += o.NoReceiver
	c.Erased += o.Erased
}

// Agency is the leads of one agency.
type Agency struct {
	AgencyID string `json:"agencyId"`
	Counts
	Listings []Listing `json:"listings"` // most leads first
	// Without counts the listings that are published now and had no lead.
	Without int `json:"withoutLead"`
}

// Listing is the leads of one listing.
type Listing struct {
	AgencyID  string `json:"agencyId"`
	Reference string `json:"propertyReferenceId"`
	Title     string `json:"title,omitempty"`
	Counts
}

// Delays are the waits of leads whose creation time is known.
type Delays struct {
	Leads          int     `json:"leads"`
	MedianSeconds  float64 `json:"medianSeconds"`
	LongestSeconds float64 `json:"longestSeconds"`
	AgencyID       string  `json:"agencyId,omitempty"` // of the longest
	Reference      string  `json:"propertyReferenceId,omitempty"`

	all []time.Duration
}

// Notice is something that happened.
type Notice struct {
	At        time.Time `json:"at"`
	AgencyID  string    `json:"agencyId,omitempty"`
	Reference string    `json:"propertyReferenceId,omitempty"`
	What      string    `json:"what"` // gap, halted, resumed or rejected
	Detail    string    `json:"detail"`
}

// counter is a report that is being computed.
type counter struct {
	from Source
	Report
	listings map[[2]string]*Listing // by agency and reference
	letters  map[string]bool        // receiver and event
}

// New computes a report. It reads the events once and keeps none of them. The error is that of
// Events; dead letters that cannot be read are a problem of the report.
func New(s Source) (Report, error) {
	c := counter{
		from: s, listings: map[[2]string]*Listing{}, letters: map[string]bool{},
		Report: Report{
			From: s.From.UTC(), To: s.To.UTC(), Zone: s.Zone.String(), Agencies: []Agency{},
			Notices: []Notice{}, Problems: append([]string{}, s.Problems...),
		},
	}
	for _, l := range s.Listings {
		if c.includes(l.AgencyID) {
			*c.listing(l.AgencyID, l.Reference) = l
		}
	}
	c.readLetters()
	for e, err := range s.Events {
		if err != nil {
			return c.Report, err
		}
		if c.includes(e.AgencyID) {
			c.count(e)
		}
	}
	c.finish()
	return c.Report, nil
}

func (c *counter) includes(agency string) bool {
	return c.from.Includes == nil || c.from.Includes(agency)
}

// listing returns the counts of a listing, and creates them.
func (c *counter) listing(agency, reference string) *Listing {
	key := [2]string{agency, reference}
	if c.listings[key] == nil {
		c.listings[key] = &Listing{AgencyID: agency, Reference: reference}
	}
	return c.listings[key]
}

// readLetters notes what receivers rejected. All letters count against deliveries; those of the
// period are listed.
func (c *counter) readLetters() {
	for l, err := range c.from.Letters {
		if err != nil {
			c.Problems = append(c.Problems,
				"the dead letters cannot be read, and may count as delivered: "+err.Error())
			return
		}
		c.letters[l.Forwarder+"."+l.Destination+"/"+l.ID] = true
		if !l.At.Before(c.from.From) && l.At.Before(c.from.To) &&
			(l.Unreadable || c.includes(l.AgencyID)) {
			c.notice(l.At, l.AgencyID, l.Reference, "rejected", rejection(l))
		}
	}
}

func (c *counter) notice(at time.Time, agency, reference, what, detail string) {
	c.Notices = append(c.Notices, Notice{at, agency, reference, what, detail})
}

// rejection says in words what was rejected, by which receiver and why.
func rejection(l forward.Letter) string {
	if l.Unreadable {
		return l.Reason
	}
	return l.Forwarder + " " + l.Destination + ", " + string(l.Type) + ": " + l.Reason
}

func (c *counter) count(e events.Event) {
	note := func(what, detail string) { c.notice(e.RecordedTime, e.AgencyID, e.Reference, what, detail) }
	switch e.Type {
	case events.TypeContactRequestCreated:
		if e.Origin == events.OriginLive {
			c.lead(e)
		}
	case events.TypeWatchGapDetected, events.TypeAccessHalted, events.TypeAccessResumed:
		p, _ := e.Payload()
		switch p := p.(type) {
		case *events.WatchGapDetected:
			note("gap", p.Operation+", "+p.Reason)
		case *events.AccessHalted:
			note("halted", string(p.Scope)+", "+p.ProbableReason)
		case *events.AccessResumed:
			note("resumed", string(p.Scope)+", "+p.Cause)
		}
	}
}

// lead counts a contact request.
func (c *counter) lead(e events.Event) {
	var p struct {
		CreatedAt time.Time `json:"createdAt"`
		Insertion struct {
			Title string `json:"title"`
		} `json:"insertion"`
	}
	_ = json.Unmarshal(e.Data, &p) // then its time and its title are unknown
	one := Counts{Seen: 1}
	if !p.CreatedAt.IsZero() {
		c.Seen.add(e, e.RecordedTime.Sub(p.CreatedAt))
	}
	var to []forward.Delivered
	if c.from.Deliveries != nil {
		to = c.from.Deliveries(e)
	}
	done := func(d forward.Delivered) bool { return d.Done }
	// acknowledgements are noted in groups
	if e.Sequence <= c.from.Acknowledged || slices.ContainsFunc(to, done) {
		one.Published = 1
	}
	open := slices.ContainsFunc(to, func(d forward.Delivered) bool { return !d.Done })
	switch {
	case len(to) == 0:
		one.NoReceiver = 1
	case open && e.Erased():
		one.Erased = 1
	case open:
		one.Waiting = 1
	case slices.ContainsFunc(to, func(d forward.Delivered) bool { return c.letters[d.Receiver+"/"+e.ID] }):
		one.Rejected = 1
	default:
		one.Delivered = 1
		last := slices.MaxFunc(to, func(a, b forward.Delivered) int { return a.At.Compare(b.At) })
		known := !slices.ContainsFunc(to, func(d forward.Delivered) bool { return d.At.IsZero() })
		if known && !p.CreatedAt.IsZero() {
			c.Delivered.add(e, last.At.Sub(p.CreatedAt))
		}
	}
	l := c.listing(e.AgencyID, e.Reference)
	l.Title = cmp.Or(l.Title, p.Insertion.Title)
	l.add(one)
}

func (d *Delays) add(e events.Event, wait time.Duration) {
	wait = max(wait, 0) // clocks differ
	if d.all = append(d.all, wait); len(d.all) == 1 || wait.Seconds() > d.LongestSeconds {
		d.LongestSeconds, d.AgencyID, d.Reference = wait.Seconds(), e.AgencyID, e.Reference
	}
}

func (d *Delays) finish() {
	if d.Leads = len(d.all); d.Leads > 0 {
		slices.Sort(d.all)
		d.MedianSeconds = d.all[(d.Leads-1)/2].Seconds()
	}
	d.all = nil
}

// finish adds up, and puts lists in order.
func (c *counter) finish() {
	c.Seen.finish()
	c.Delivered.finish()
	slices.SortStableFunc(c.Notices, func(a, b Notice) int { return b.At.Compare(a.At) })
	ordered := slices.SortedFunc(maps.Values(c.listings), func(a, b *Listing) int {
		return cmp.Or(cmp.Compare(a.AgencyID, b.AgencyID), cmp.Compare(b.Seen, a.Seen),
			cmp.Compare(a.Reference, b.Reference))
	})
	for _, l := range ordered {
		last := len(c.Agencies) - 1
		if last < 0 || c.Agencies[last].AgencyID != l.AgencyID {
			c.Agencies = append(c.Agencies, Agency{AgencyID: l.AgencyID})
			last++
		}
		a := &c.Agencies[last]
		a.Listings = append(a.Listings, *l)
		a.add(l.Counts)
		c.Total.add(l.Counts)
		if l.Seen == 0 {
			a.Without++
		}
	}
}
