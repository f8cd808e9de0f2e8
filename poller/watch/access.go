package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Scope names what a halt covers.
type Scope struct {
	events.Scope
	Reference string // where it is one insertion
}

// Access is what may be asked of an agency: its key, and the scopes that are halted. It is a value,
// and nothing changes one that exists: a response or a decision makes another one.
//
// An insertion whose contact requests were refused is halted silently: the next complete walk shows
// whether the agency is refused, the insertion gone, or only this one not ours to read, which is
// announced.
type Access struct {
	AgencyID string
	Key      listings.Key // as configured
	Halts    map[Scope]store.Halt

	// What follows only this process knows.

	Good        time.Time // the last good response to anything
	LastAnswer  time.Time // the last good one of contact requests
	HaltEnded   time.Time // the last halt of more than one insertion
	AllWait     bool      // several insertions were refused and none was answered since: all wait for the walk
	ListRefused bool      // the list was refused, until what follows is in force
	Trying      string    // the insertion that tries the halt of all contact requests, or has tried it last
}

// AccessChange is a decision about access: what changes, and goes into one transaction.
// [Access.After] makes it so.
type AccessChange struct {
	AgencyID      string
	At            time.Time
	Halted, Ended []store.Halt // a halt that is there is replaced
	Events        []events.Payload

	before Access
}

// change is a decision that changes nothing yet.
func (x Access) change(at time.Time) AccessChange {
	return AccessChange{AgencyID: x.AgencyID, At: at, before: x}
}

// RestoreAccess is what is remembered of an agency's access. A try in the future, because the clock
// was set back, counts as one now, and so does a refusal that no walk has decided about.
func RestoreAccess(agencyID string, halts []store.Halt, now time.Time) Access {
	x := Access{AgencyID: agencyID, Halts: make(map[Scope]store.Halt, len(halts))}
	for _, h := range halts {
		if h.Tried.After(now) {
			h.Tried = now
		}
		if h.Silent && h.Since.After(now) {
			h.Since = now.UTC()
		}
		x.Halts[scopeOf(h)] = h
	}
	return x
}

func scopeOf(h store.Halt) Scope { return Scope{h.Scope, h.Reference} }

// With is the access with further halts, or other ones of the same scopes.
func (x Access) With(list ...store.Halt) Access {
	all := maps.Clone(x.Halts)
	if all == nil {
		all = map[Scope]store.Halt{}
	}
	for _, h := range list {
		all[scopeOf(h)] = h
	}
	x.Halts = all
	return x
}

// Without is the access without some halts.
func (x Access) Without(list ...store.Halt) Access {
	x.Halts = maps.Clone(x.Halts)
	for _, h := range list {
		delete(x.Halts, scopeOf(h))
	}
	return x
}

// Agency is the halt of the whole agency; its status is 0 if there is none.
func (x Access) Agency() store.Halt { return x.Halts[Scope{Scope: events.ScopeAgency}] }

// Insertion is the halt of one insertion, if it is halted; also a silent one.
func (x Access) Insertion(reference string) (h store.Halt, halted bool) {
	h, halted = x.Halts[Scope{events.ScopeInsertion, reference}]
	return h, halted
}

// HaltedInsertions counts the insertions whose halt is announced, of those that pass.
func (x Access) HaltedInsertions(pass func(reference string) bool) (n int) {
	for s, h := range x.Halts {
		if s.Scope == events.ScopeInsertion && !h.Silent && pass(s.Reference) {
			n++
		}
	}
	return n
}

// List is all announced halts, oldest first; of one insertion alone where it is named.
func (x Access) List(reference string) []store.Halt {
	return slices.DeleteFunc(x.all(reference), func(h store.Halt) bool { return h.Silent })
}

// all is List with the silent ones.
func (x Access) all(reference string) []store.Halt {
	list := slices.Collect(maps.Values(x.Halts))
	list = slices.DeleteFunc(list, func(h store.Halt) bool { return reference != "" && h.Reference != reference })
	slices.SortFunc(list, func(x, y store.Halt) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Reference, y.Reference))
	})
	return list
}

// RetryRefused is how often a halted insertion, or one of an agency all of whose contact requests
// are halted, is tried again.
const RetryRefused = 24 * time.Hour

// IsHalted reports whether an announced halt covers a request, also where it may be tried again.
func (x Access) IsHalted(r listings.Request) bool {
	covers := func(s Scope) bool { h, halted := x.Halts[s]; return halted && !h.Silent }
	return covers(Scope{Scope: events.ScopeAgency}) || r.Operation == listings.OperationContactRequests &&
		(covers(Scope{Scope: events.ScopeContactRequests}) || covers(Scope{events.ScopeInsertion, r.Reference}))
}

// Allow says why a request must not be made now: its scope is halted, or the list was just refused.
// Where a halt is tried again, the request is the one that may try, and the returned access lets no
// other go.
func (x Access) Allow(q listings.Request, now time.Time) (Access, error) {
	if h, halted := x.Halts[Scope{Scope: events.ScopeAgency}]; halted {
		if !x.Untried() || q.Operation != listings.OperationInsertions {
			return x, ErrHalted
		}
		h.Tried = now
		x = x.With(h)
	}
	if q.Operation == listings.OperationContactRequests {
		for _, s := range []Scope{{Scope: events.ScopeContactRequests}, {events.ScopeInsertion, q.Reference}} {
			h, halted := x.Halts[s]
			switch {
			case !halted:
			case h.Silent || now.Sub(h.Tried) < RetryRefused:
				return x, ErrHalted
			default:
				h.Tried = now // with what the monotonic clock says, as the day until the next try counts by that
				x = x.With(h)
				if s.Scope == events.ScopeContactRequests {
					x.Trying = q.Reference
				}
			}
		}
	}
	if x.ListRefused {
		return x, &WaitError{Until: now}
	}
	return x, nil
}

// Untried reports whether the agency is halted by what another process saw, so that one request of
// the list may try whether that still holds.
func (x Access) Untried() bool {
	h, halted := x.Halts[Scope{Scope: events.ScopeAgency}]
	return halted && h.Tried.IsZero()
}

// TryListAgain is the access after a try of the agency's halt whose response says nothing of
// access.
func (x Access) TryListAgain() Access {
	if h := x.Agency(); h.Status != 0 && h.Tried.After(h.Since) {
		h.Tried = time.Time{}
		x = x.With(h)
	}
	return x
}

// NextTry is when a request of contact requests may try a halt of all of them again; zero: there is
// none.
func (x Access) NextTry() time.Time {
	if h, halted := x.Halts[Scope{Scope: events.ScopeContactRequests}]; halted {
		return h.Tried.Add(RetryRefused)
	}
	return time.Time{}
}

// TryNow lets the next request of contact requests try the halt of all of them, because there is a
// new insertion.
func (x Access) TryNow(now time.Time) Access {
	if h, halted := x.Halts[Scope{Scope: events.ScopeContactRequests}]; halted {
		h.Tried = now.Add(-RetryRefused)
		return x.With(h)
	}
	return x
}

// RefusalLimit is how many still-listed insertions must be refused, without a good answer between,
// before all contact requests of an agency halt.
const RefusalLimit = 3

// Observed is the access after a response, as far as it says something about access; refused is nil
// where it was a good one. What may have halted is not requested from here on, however long a
// commit that is under way keeps the walk or poll from deciding what follows. What was sent before
// a halt ended decides nothing after it.
func (x Access) Observed(q listings.Request, refused *listings.StatusError, sent, now time.Time) Access {
	contact := Scope{Scope: events.ScopeContactRequests}
	_, all := x.Halts[contact]
	switch _, known := x.Insertion(q.Reference); {
	case refused == nil:
		x.Good = now.UTC()
	case q.Operation == listings.OperationInsertions:
		x.ListRefused = true
	case all || known || sent.Before(x.HaltEnded):
	default:
		x = x.With(store.Halt{
			Scope: events.ScopeInsertion, Reference: q.Reference, Operation: string(q.Operation), Status: refused.Status, Since: now.UTC(), Tried: now,
			Key: q.Key, Body: string(refused.Body), Silent: true,
		})
		since := 0
		for _, h := range x.Halts {
			if h.Silent && !x.LastAnswer.After(h.Since) {
				since++
			}
		}
		x.AllWait = x.AllWait || since >= RefusalLimit
	}
	return x
}

// Silent is the halt of an insertion that is not announced; found is false if there is none.
func (x Access) Silent(reference string) (h store.Halt, found bool) {
	h, found = x.Insertion(reference)
	return h, found && h.Silent
}

// Walked is the access after a walk, whatever came of it: all that it says of access is in force.
func (x Access) Walked() Access {
	x.AllWait, x.ListRefused = false, false
	return x
}

// After is the access after a decision.
func (x Access) After(c AccessChange) Access {
	x = x.Without(c.Ended...).With(c.Halted...)
	if KeyWasRefused(c.Halted) { // which answers what was refused since the decision, too
		maps.DeleteFunc(x.Halts, func(_ Scope, h store.Halt) bool { return h.Silent })
	}
	if KeyWasRefused(c.Ended) {
		x.HaltEnded = c.At
	}
	return x
}

// Listing is what a walk shows of insertions.
type Listing struct {
	Complete   bool
	Began      time.Time
	Seen, Gone map[string]struct{} // Gone disappeared before
	Published  int
}

// undecidedFor is how long a silent halt waits for a complete walk.
const undecidedFor = time.Hour

// Decide says what a walk decides about the insertions that are halted silently. One that is still
// listed is announced, if others are answered; if none is, all contact requests of the agency halt.
// As long as neither is known the next walk decides, as it does about what was refused while this
// one was under way; after an hour it is announced. One that disappeared is no longer polled, which
// is no alarm: gone are those. Their halts end with what is remembered of their polls.
func (x Access) Decide(l Listing, others []Access, now time.Time) (c AccessChange, gone []string) {
	var listed, overdue []store.Halt
	answered := false
	for _, h := range x.all("") {
		if !h.Silent || h.Since.After(l.Began) {
			continue
		}
		_, seen := l.Seen[h.Reference]
		_, left := l.Gone[h.Reference]
		switch {
		case l.Complete && seen:
			listed = append(listed, h)
			answered = answered || x.LastAnswer.After(h.Since)
		case l.Complete && left:
			gone = append(gone, h.Reference)
		case now.Sub(h.Since) >= undecidedFor:
			overdue = append(overdue, h)
		}
	}
	c.AgencyID, c.At, c.before = x.AgencyID, now, x
	halted := x.HaltedInsertions(func(reference string) bool { _, is := l.Seen[reference]; return is })
	switch {
	case !answered && len(listed) >= RefusalLimit:
		h := listed[0]
		h.Scope, h.Reference = events.ScopeContactRequests, ""
		c.announce(h, others)
		c.endSilent()
		return c, gone
	case !answered && len(listed)+halted < l.Published: // one is left that may be answered
		listed = slices.DeleteFunc(listed, func(h store.Halt) bool { return now.Sub(h.Since) < undecidedFor })
	}
	for _, h := range slices.Concat(listed, overdue) {
		c.announce(h, others)
	}
	return c, gone
}

// announce halts a scope, and says so.
func (c *AccessChange) announce(h store.Halt, others []Access) {
	e := events.Evidence{Body: h.Body, OtherAgenciesOfKey: othersOfKey(h.Key, others)}
	h.Silent, h.ProbableReason = false, Reason(h.Scope, e)
	h.Advice = Advice(h.ProbableReason, c.AgencyID, h.Reference)
	c.Halted = append(c.Halted, h)
	c.Events = append(c.Events, c.before.haltEvent(h, e.OtherAgenciesOfKey, c.before.Good))
}

// Refuse is the change after a refusal of the list: the agency halts. Where it is halted already
// nothing changes.
func (x Access) Refuse(refused *listings.StatusError, others []Access, now time.Time) AccessChange {
	c := x.change(now)
	if h, already := x.Halts[Scope{Scope: events.ScopeAgency}]; already {
		if h.Tried.After(h.Since) {
			c.Halted = []store.Halt{h} // the try is stored, without an event
		}
		return c
	}
	c.announce(store.Halt{
		Scope: events.ScopeAgency, Operation: string(refused.Operation), Status: refused.Status, Since: now.UTC(), Tried: now,
		Key: refused.Request.Key, Body: string(refused.Body),
	}, others)
	c.endSilent()
	return c
}

// endSilent ends the silent halts, which a halt of more than one insertion answers.
func (c *AccessChange) endSilent() {
	for _, h := range c.before.all("") {
		if h.Silent {
			c.Ended = append(c.Ended, h)
		}
	}
}

// othersOfKey counts the other agencies of a key by what is already known.
func othersOfKey(key string, all []Access) (n events.AgenciesOfKey) {
	for _, o := range all {
		if key != o.Key.Fingerprint() {
			continue
		}
		switch _, halted := o.Halts[Scope{Scope: events.ScopeAgency}]; {
		case halted:
			n.Refused++
		case !o.Good.IsZero():
			n.Working++
		default:
			n.Unknown++
		}
	}
	return n
}

// Retried is the change after a request for an insertion was of no use: what was halted waits for
// another day, without a word. A silent halt is stored.
func (x Access) Retried(reference string, now time.Time) AccessChange {
	c := x.change(now)
	if h, halted := x.Halts[Scope{Scope: events.ScopeContactRequests}]; halted && x.Trying == reference {
		c.Halted = []store.Halt{h} // Allow has noted the try
	} else if h, halted := x.Insertion(reference); halted {
		if !h.Silent {
			h.Tried = now
		}
		c.Halted = []store.Halt{h}
	}
	return c
}

// Answered is the change after a good response about an insertion: its halt ends, and that of all
// contact requests, if this was the try.
func (x Access) Answered(reference string, now time.Time) AccessChange {
	c := x.change(now)
	if h, halted := x.Insertion(reference); halted {
		c.end([]store.Halt{h}, "retry_succeeded")
	}
	if h, halted := x.Halts[Scope{Scope: events.ScopeContactRequests}]; halted && x.Trying == reference && h.Tried.After(h.Since) {
		c.end([]store.Halt{h}, "retry_succeeded")
	}
	return c
}

// Listed is the change after a good response of the list: a halt of the agency, which it has tried,
// ends.
func (x Access) Listed(now time.Time) AccessChange {
	c := x.change(now)
	if h := x.Agency(); h.Status != 0 && h.Tried.After(h.Since) {
		c.end([]store.Halt{h}, "retry_succeeded")
	}
	return c
}

// Resume is the change after a person has ended halts: all, or that of one insertion.
func (x Access) Resume(reference string, now time.Time) AccessChange {
	c := x.change(now)
	c.end(x.all(reference), "operator")
	return c
}

// Configure is the change to the key that is configured now. It ends the halts of other keys.
func (x Access) Configure(key listings.Key, now time.Time) AccessChange {
	over := slices.DeleteFunc(x.all(""), func(h store.Halt) bool { return h.Key == key.Fingerprint() })
	x.Key = key
	c := x.change(now)
	c.end(over, "key_changed")
	return c
}

// KeyWasRefused says whether one of the halts is of more than an insertion.
func KeyWasRefused(list []store.Halt) bool {
	return slices.ContainsFunc(list, func(h store.Halt) bool { return h.Scope != events.ScopeInsertion })
}

// end ends halts, and says so of those that were announced.
func (c *AccessChange) end(list []store.Halt, cause string) {
	for _, h := range list {
		if h.Silent {
			continue
		}
		c.Events = append(c.Events, &events.AccessResumed{
			Common: events.Common{AgencyID: c.AgencyID, ObservedAt: c.At.UTC()}, PropertyReferenceID: h.Reference,
			Scope: h.Scope, HaltedAt: h.Since, Cause: cause,
		})
	}
	c.Ended = append(c.Ended, list...)
}

// Reason is why a scope was probably refused, by what is known at that moment; no request is made
// for it.
func Reason(scope events.Scope, e events.Evidence) string {
	switch {
	case e.Body == "html" || e.Body == "challenge":
		return "edge_challenge"
	case scope == events.ScopeInsertion:
		return "insertion_not_allowed"
	case scope == events.ScopeAgency && e.OtherAgenciesOfKey.Refused > 0:
		return "key_rejected"
	}
	return "unknown"
}

// haltEvent announces a halt. after is the last good answer before it.
func (x Access) haltEvent(h store.Halt, others events.AgenciesOfKey, after time.Time) *events.AccessHalted {
	return &events.AccessHalted{
		Common: events.Common{AgencyID: x.AgencyID, ObservedAt: h.Since, ObservedAfter: after}, PropertyReferenceID: h.Reference,
		Scope: h.Scope, Operation: h.Operation, Status: h.Status, ProbableReason: h.ProbableReason,
		Evidence: events.Evidence{Body: h.Body, OtherAgenciesOfKey: others},
		Key:      events.KeyRef{Fingerprint: h.Key}, Advice: h.Advice, Resume: ResumeCommand(x.AgencyID, h.Reference),
	}
}

func Advice(reason, agencyID, reference string) string {
	end := "run: " + ResumeCommand(agencyID, reference)
	switch reason {
	case "edge_challenge":
		return "The answer did not look like the API's own: a gateway or firewall in front of it refused us. " +
			"Ask the provider to admit the address of this machine, then " + end
	case "insertion_not_allowed":
		return "The list still holds this insertion, but its contact requests are refused. Ask the provider's account " +
			"manager why; it is tried again daily, or " + end
	case "agency_not_linked":
		return "The same key works for other agencies: this agency does not exist at the API or is not linked to the key. " +
			"Check the agency's id (upper and lower case differ), ask the provider's account manager to link it, then " + end
	case "key_rejected":
		return "The API refuses this key for every agency that uses it: it is wrong, expired or deactivated. Ask the " +
			"provider's account manager for the valid key and replace it where doorbell gets it from: a file is read again within " +
			"30 s, the environment at the next start. If the key is right, " + end
	}
	return "The API refuses access: the key is wrong or deactivated, the agency does not exist there, or it is not linked to " +
		"the key. Check the key and the agency's id (upper and lower case differ) with the provider's account manager. A changed key ends the halt: in the key file within 30 s, in the " +
		"environment at the next start. Else " + end
}

func ResumeCommand(agencyID, reference string) string {
	if reference == "" {
		return "doorbell resume " + agencyID
	}
	return fmt.Sprintf("doorbell resume %s --insertion %q", agencyID, reference)
}
