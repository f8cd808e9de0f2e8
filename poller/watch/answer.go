package watch

import (
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Prior is what is remembered when contact requests of an insertion are judged.
type Prior struct {
	State     store.Agency
	Insertion store.Insertion // with its last poll
	Known     []store.ContactRequest
	Record    []byte   // of the insertion, as last read
	Fields    []string // that the agency's contact requests ever had
	Alarms    Alarms   // that are on
}

// full is the alarm that the insertion's window is full, and whether it is on.
func (r Prior) full() (a store.Alarm, is bool) {
	id := AlarmOf(WindowFull, listings.OperationContactRequests, r.Insertion.Reference)
	if a, is = r.Alarms[id]; !is {
		a.AlarmID = id
	}
	return a, is
}

// Poll is the poll that an answer belongs to.
type Poll struct {
	AgencyID string
	Announce bool // the baseline is announced
	People   events.People
	Rules    Rules
	IDFields []string // that may be the id of contact requests
	Skew     time.Duration
	Before   Polls
	Sizes    Sizes
	CatchUp  *CatchUp
}

// Effects is what a decision changes of what is remembered: one transaction, with the events that say so.
type Effects struct {
	State      *store.Agency // nil: as it was
	Insertions []store.Insertion
	Records    map[string][]byte // of insertions, by reference

	Reference string // the insertion of the following
	Contacts  []store.ContactRequest

	Failures, Ended []store.Failure // that go on, and that are over
	Unhalted        []string        // insertions whose halt goes with them
	Access          []AccessChange
	Raised          []store.Alarm
	Cleared         []store.AlarmID

	Events []events.Payload
}

// Empty says whether there is nothing to write.
func (e Effects) Empty() bool {
	return e.State == nil && len(e.Insertions)+len(e.Records)+len(e.Contacts)+len(e.Failures)+len(e.Ended)+len(e.Unhalted)+
		len(e.Access)+len(e.Raised)+len(e.Cleared)+len(e.Events) == 0
}

func (e *Effects) announce(p ...events.Payload) { e.Events = append(e.Events, p...) }

// Judged is what an answer says, in the light of what is remembered.
type Judged struct {
	Effects
	CatchUp *CatchUp
	Verdict Verdict
	Rules   string // what decides which contact requests are the same, and where they stand
	Since   map[string]time.Time
	Waits   []time.Duration // of the contact requests that are announced
	// Unidentified: it has to be decided first which member identifies contact requests. Everything else is empty.
	Unidentified bool
}

// Judge says what an answer changes.
func Judge(p Poll, prior Prior, a Answer, at time.Time) Judged {
	if !a.Identified {
		if _, decided := Identified(p, prior, a.Identities); !decided {
			return Judged{Unidentified: true}
		}
	}
	s := p.observe(prior, at)
	d := diffContactRequests(s, prior.Known, a)
	j := Judged{CatchUp: p.CatchUp.Clone(), Rules: rulesOf(prior.State, d), Since: d.Since, Waits: waits(d.Events, s)}
	j.Verdict = j.CatchUp.judge(p.circumstances(prior, a), a, d)
	_, full := prior.full()
	recovered := full && j.Verdict != Open && j.CatchUp.Whole
	if len(d.Puts) > 0 || mustWrite(prior.Insertion, d, j.Verdict) || recovered {
		j.Effects = p.effects(prior, d, j.CatchUp, j.Verdict, recovered, at)
	}
	return j
}

// JudgeWidest says what the answer of the widest window changes, which the regular one made look complete, and how many of it are
// new.
func JudgeWidest(p Poll, prior Prior, a Answer, at time.Time) (e Effects, found int) {
	d := diffContactRequests(p.observe(prior, at), prior.Known, a)
	c := p.CatchUp.Clone()
	c.judge(p.circumstances(prior, a), a, d)
	prior.Insertion.LastWide = at.UTC()
	_, full := prior.full()
	e = p.effects(prior, d, p.CatchUp, ClosedOverlap, full && c.Whole, at)
	if len(e.Insertions) == 0 {
		e.Insertions = []store.Insertion{prior.Insertion}
	}
	return e, d.New
}

func (p Poll) observe(prior Prior, at time.Time) contactsObservation {
	after := p.Before.At
	if after.IsZero() {
		after = prior.Insertion.LastPoll
	}
	s, i := prior.State, prior.Insertion
	return contactsObservation{
		Observation: Observation{AgencyID: p.AgencyID, At: at.UTC(), After: after.UTC(), Emit: p.Announce && !refiltered(s, i)},
		Insertion:   i, Summary: summary(listings.Insertion{Reference: i.Reference, Record: prior.Record}), People: p.People,
		Rules: p.Rules.after(s.FieldsVersion), Skew: p.Skew,
		IDField: s.IDField, PastIDs: s.PastIDFields, NoIDs: s.RefusedIDFields,
		Names: prior.Fields, Drifts: s.Operation(string(listings.OperationContactRequests)).Drifts,
	}
}

func (p Poll) circumstances(prior Prior, a Answer) circumstances {
	looked := prior.Insertion.LastPoll
	if p.Before.At.After(looked) {
		looked = p.Before.At
	}
	return circumstances{
		Insertion: prior.Insertion, Known: prior.Known, Start: prior.Insertion.Start.Add(p.Skew), Looked: looked.Add(p.Skew + time.Second),
		Most: p.Sizes.Most, Totals: p.Sizes.Totals, Larger: p.Sizes.Larger(a.Asked, len(a.Requests)), Hidden: int(p.Before.hidden),
	}
}

func (p Poll) effects(prior Prior, d contactsDiff, c *CatchUp, v Verdict, recovered bool, at time.Time) (e Effects) {
	i := prior.Insertion
	e.Reference = i.Reference
	if recovered {
		full, _ := prior.full()
		e.Clear(prior.Alarms, full.AlarmID, p.AgencyID, at.UTC())
	}
	e.Contacts = d.Puts
	e.announce(d.Events...)
	state, changed := prior.State, false
	if d.Fields != state.FieldsVersion {
		state.FieldsVersion, changed = d.Fields, true
		e.announce(d.Drift.Remember(&state, p.AgencyID, listings.OperationContactRequests, at)...)
	}
	if p.Sizes.note(&state) || changed {
		e.State = &state
	}
	if !mustWrite(i, d, v) {
		return e
	}
	if v == Open {
		i.OpenSince = at.UTC()
		e.Insertions = []store.Insertion{i}
		return e
	}
	p.close(&e, prior, c, at)
	return e
}

// Close ends a catch-up that no answer closed by itself. Where it is given up, an event says so.
func Close(p Poll, prior Prior, v Verdict, now time.Time) Effects {
	e := Effects{Reference: prior.Insertion.Reference}
	if v == ClosedGivenUp {
		p.announceGap(&e, prior, now.UTC())
	}
	if state := prior.State; p.Sizes.note(&state) {
		e.State = &state
	}
	p.close(&e, prior, p.CatchUp, now)
	return e
}

// close closes the window of an insertion. It says how many contact requests of a first poll were taken for old because nothing
// showed their time, also of a catch-up that failed or was killed and has begun anew.
func (p Poll) close(e *Effects, prior Prior, c *CatchUp, at time.Time) {
	i := prior.Insertion
	e.Insertions = []store.Insertion{closeCatchUp(i, c, at.UTC(), p.Skew)}
	if i.Polled || !i.Baseline {
		return
	}
	untimed := map[string]bool{}
	for _, k := range slices.Concat(prior.Known, e.Contacts) {
		untimed[k.ID] = k.CreatedAt.IsZero() && k.Epoch == i.Epoch
	}
	count := 0
	for _, is := range untimed {
		if is {
			count++
		}
	}
	if count > 0 {
		e.announce(&events.WatchGapDetected{
			Common:    events.Common{AgencyID: p.AgencyID, ObservedAt: at},
			Operation: string(listings.OperationContactRequests), PropertyReferenceID: i.Reference,
			Reason: "time_unknown", Reached: count,
		})
	}
}

// announceGap says that contact requests may be unseen. Where the answers are in no order, a new gap cannot be told from the one
// before: it is announced once, and again only where a total counts more.
func (p Poll) announceGap(e *Effects, prior Prior, now time.Time) {
	missing := 0
	if p.Sizes.Totals {
		missing = max(0, p.CatchUp.Total-len(prior.Known))
	}
	full, is := prior.full()
	if is && !p.CatchUp.Newest.Ordered && missing <= full.Missing {
		return
	}
	gap := &events.WatchGapDetected{
		Common:    events.Common{AgencyID: p.AgencyID, ObservedAt: now},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: prior.Insertion.Reference,
		Reason: WindowFull, Reached: p.reached(prior),
	}
	gap.From, gap.To = p.between(prior, now)
	if p.CatchUp.Total >= 0 {
		gap.Total = &p.CatchUp.Total
	}
	full.Since, full.Missing = now, missing
	e.Raise(nil, full, gap) // also where it is on: this is another gap
}

// reached counts the contact requests that answers of this catch-up showed, also those before a restart.
func (p Poll) reached(prior Prior) int {
	n := len(p.CatchUp.Shown)
	for _, k := range prior.Known {
		if k.Epoch == prior.Insertion.Epoch && !p.CatchUp.Shown[k.ID] {
			n++
		}
	}
	return n
}

// between is the span of time in which unseen ones may lie: above the newest that was known before or that the other end
// showed, and below what the last answer reached. Without an order it is the time since the last good look.
func (p Poll) between(prior Prior, now time.Time) (from, to time.Time) {
	i := prior.Insertion
	from, to = i.Start.Add(p.Skew), p.CatchUp.Newest.Oldest
	if !p.CatchUp.Newest.Ordered || to.IsZero() {
		if i.Polled {
			from = i.LastPoll
		}
		return from, now
	}
	later := func(t time.Time) {
		if t.After(from) && !t.After(to) {
			from = t
		}
	}
	for _, k := range prior.Known {
		if k.Epoch < i.Epoch {
			later(k.CreatedAt)
		}
	}
	later(p.CatchUp.UpTo)
	return from, to
}

// Identified says whether it is decided which member identifies the contact requests of an answer. If not, why says what speaks against
// what was decided before, if anything.
func Identified(p Poll, prior Prior, prints *Identities) (why string, decided bool) {
	s := prior.State
	if s.IdentityLearned {
		why = unfit(s.IDField, prints, prior.Known)
	}
	return why, len(prints.requests) == 0 || why == "" && s.IdentityLearned && slices.Equal(s.IDCandidates, p.IDFields)
}

// LearnIdentity decides which member tells contact requests apart, by an answer that was read twice. A member that turns out to
// be none is dropped, and said, and another one learned; so it is, without a word, where other members may be the id now.
func LearnIdentity(p Poll, prior Prior, prints *Identities, again []listings.ContactRequest, at time.Time) (e Effects) {
	why, decided := Identified(p, prior, prints)
	if decided {
		return e // another poll was faster
	}
	s, field := prior.State, prior.State.IDField
	if why != "" {
		s.RefusedIDFields = append(slices.Clone(s.RefusedIDFields), field)
		s.PastIDFields = slices.DeleteFunc(slices.Clone(s.PastIDFields), func(f string) bool { return f == field })
		e.announce(&events.WatchSchemaDrifted{
			Common:    events.Common{AgencyID: p.AgencyID, ObservedAt: at},
			Operation: string(listings.OperationContactRequests), PropertyReferenceID: prior.Insertion.Reference,
			Expected: "/" + field + " different for every contact request", Found: "/" + field + " " + why,
		})
	}
	candidates := slices.DeleteFunc(slices.Clone(p.IDFields), func(f string) bool {
		return slices.ContainsFunc(s.RefusedIDFields, func(r string) bool { return listings.SameName(r, f) })
	})
	s.IdentityLearned, s.IDCandidates = true, slices.Clone(p.IDFields)
	_, s.IDField = listings.LearnID(candidates, prior.Insertion.Reference, prints.requests, again)
	if field != s.IDField && why == "" {
		s.PastIDFields = past(s.PastIDFields, field)
	}
	e.State = &s
	return e
}
