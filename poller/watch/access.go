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

// Access is what may be asked of an agency: its key, and the scopes that are halted. It is a value, and nothing changes one
// that exists: a decision about access makes another one.
type Access struct {
	AgencyID string
	Key      listings.Key // as configured
	Halts    map[Scope]store.Halt
}

// AccessChange is a decision about access: the access from now on, and what goes with it into one transaction.
type AccessChange struct {
	Access
	Halted, Ended []store.Halt
	Events        []events.Payload
}

// RestoreAccess is what is remembered of an agency's access. A try in the future, because the clock was set back, counts as one now.
func RestoreAccess(agencyID string, halts []store.Halt, now time.Time) Access {
	x := Access{AgencyID: agencyID, Halts: make(map[Scope]store.Halt, len(halts))}
	for _, h := range halts {
		if h.Tried.After(now) {
			h.Tried = now
		}
		x.Halts[scopeOf(h)] = h
	}
	return x
}

func scopeOf(h store.Halt) Scope { return Scope{h.Scope, h.Reference} }

// With is the access with one more halt.
func (x Access) With(h store.Halt) Access {
	all := maps.Clone(x.Halts)
	if all == nil {
		all = map[Scope]store.Halt{}
	}
	all[scopeOf(h)] = h
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

// Insertion is the halt of one insertion, if it is halted.
func (x Access) Insertion(reference string) (h store.Halt, halted bool) {
	h, halted = x.Halts[Scope{events.ScopeInsertion, reference}]
	return h, halted
}

// HaltedInsertions counts the insertions that are halted, of those that pass.
func (x Access) HaltedInsertions(pass func(reference string) bool) (n int) {
	for s := range x.Halts {
		if s.Scope == events.ScopeInsertion && pass(s.Reference) {
			n++
		}
	}
	return n
}

// List is all halts, oldest first; of one insertion alone where it is named.
func (x Access) List(reference string) []store.Halt {
	list := slices.Collect(maps.Values(x.Halts))
	list = slices.DeleteFunc(list, func(h store.Halt) bool { return reference != "" && h.Reference != reference })
	slices.SortFunc(list, func(x, y store.Halt) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Reference, y.Reference))
	})
	return list
}

// RetryRefused is how often a halted insertion is tried again while its agency is well.
const RetryRefused = 24 * time.Hour

// IsHalted says whether the scope of a request is halted.
func (x Access) IsHalted(r listings.Request, now time.Time) bool {
	if _, halted := x.Halts[Scope{Scope: events.ScopeAgency}]; halted {
		return true
	}
	if r.Operation != listings.OperationContactRequests {
		return false
	}
	if _, halted := x.Halts[Scope{Scope: events.ScopeContactRequests}]; halted {
		return true
	}
	h, halted := x.Insertion(r.Reference)
	return halted && now.Sub(h.Tried) < RetryRefused
}

// RefusalLimit is how many still-listed insertions must be refused, without a good answer between, before all contact requests of
// an agency halt.
const RefusalLimit = 3

// Refusal is a refusal of the contact requests of one insertion.
type Refusal struct {
	*listings.StatusError
	At time.Time
}

// Refusals is what answers have said of access that is not decided yet. An insertion whose contact requests were refused waits for
// the next complete walk, which shows whether the agency is refused, the insertion gone, or only this one not ours to read. Where
// several were refused and none was answered since, all wait for it. The zero value is that of an agency that was asked nothing.
type Refusals struct {
	KeyAnswers
	Waiting     map[string]Refusal // by reference
	AllWait     bool
	LastAnswer  time.Time // the last good one of contact requests
	HaltEnded   time.Time // the last halt of more than one insertion
	ListRefused bool      // the list was refused, until what follows is in force
}

// IsHalted says whether a request must not be made because its scope is halted, or may soon be.
func (r *Refusals) IsHalted(x Access, q listings.Request, now time.Time) bool {
	_, waits := r.Waiting[q.Reference]
	return x.IsHalted(q, now) || waits && q.Operation == listings.OperationContactRequests
}

// Allow says why a request must not be made now: its scope is halted, or the list was just refused.
func (r *Refusals) Allow(x Access, q listings.Request, now time.Time) error {
	switch {
	case r.IsHalted(x, q, now):
		return ErrHalted
	case r.ListRefused:
		return &WaitError{Until: now}
	}
	return nil
}

// Observe notes what a request was answered, as far as it says something about access; refused is nil where it was answered well. What may have
// halted is asked nothing more from here on, however long a commit that is under way keeps the walk or poll from deciding what
// follows: an insertion waits, and where the list was refused nothing more is sent.
func (r *Refusals) Observe(q listings.Request, refused *listings.StatusError, sent, now time.Time) {
	switch {
	case refused == nil:
		r.Good, r.GoodKey = now.UTC(), q.Key
	case q.Operation == listings.OperationInsertions:
		r.ListRefused = true
	default:
		r.refuse(q.Reference, refused, sent, now)
	}
}

// refuse lets an insertion wait whose contact requests were refused. What was asked before a halt ended decides nothing after it.
func (r *Refusals) refuse(reference string, answer *listings.StatusError, sent, now time.Time) {
	if sent.Before(r.HaltEnded) {
		return
	}
	r.Restore(reference, Refusal{answer, now})
	since := 0
	for _, one := range r.Waiting {
		if !r.LastAnswer.After(one.At) {
			since++
		}
	}
	r.AllWait = r.AllWait || since >= RefusalLimit
}

// Restore lets an insertion wait as it did for the process before.
func (r *Refusals) Restore(reference string, one Refusal) {
	if r.Waiting == nil {
		r.Waiting = map[string]Refusal{}
	}
	r.Waiting[reference] = one
}

// Walked is after a walk, whatever came of it: all that it says of access is in force. It says whether polls waited for it.
func (r *Refusals) Walked() (waited bool) {
	waited, r.AllWait, r.ListRefused = r.AllWait, false, false
	return waited
}

// Follow ends what a decision about access answers: what was refused before the end of a halt says nothing. It
// returns the insertions that wait no longer.
func (r *Refusals) Follow(c AccessChange, now time.Time) (over []string) {
	if KeyWasRefused(c.Ended) {
		r.HaltEnded = now
	}
	all := KeyWasRefused(c.Ended) || KeyWasRefused(c.Halted)
	for reference := range r.Waiting {
		if all || slices.ContainsFunc(c.Ended, func(h store.Halt) bool { return h.Reference == reference }) {
			over = append(over, reference)
			delete(r.Waiting, reference)
		}
	}
	return over
}

// Listing is what a complete walk shows of insertions.
type Listing struct {
	Began      time.Time
	Seen, Gone map[string]struct{} // Gone disappeared before
	Published  int
}

// HaltDue is a scope that halts because a walk has listed what was refused.
type HaltDue struct {
	Scope
	*listings.StatusError
}

// Decide says what a complete walk decides about the insertions that wait for it. One that is still listed halts, if others are
// answered; if none is, all contact requests of the agency halt. As long as neither is known the next walk decides, as it does
// about what was refused while this one was under way. One that disappeared is not polled any more, which is no alarm.
func (r *Refusals) Decide(x Access, l Listing) (halts []HaltDue, gone []string) {
	var listed []string
	answered := false
	for reference, one := range r.Waiting {
		if one.At.After(l.Began) {
			continue
		}
		if _, is := l.Seen[reference]; is {
			listed = append(listed, reference)
			answered = answered || r.LastAnswer.After(one.At)
		} else if _, is := l.Gone[reference]; is {
			gone = append(gone, reference)
		}
	}
	slices.Sort(listed)
	halted := x.HaltedInsertions(func(reference string) bool { _, is := l.Seen[reference]; return is })
	switch {
	case !answered && len(listed) >= RefusalLimit:
		return []HaltDue{{Scope{Scope: events.ScopeContactRequests}, r.Waiting[listed[0]].StatusError}}, gone
	case !answered && len(listed)+halted < l.Published: // one is left that may be answered
		return nil, gone
	}
	for _, reference := range listed {
		halts = append(halts, HaltDue{Scope{events.ScopeInsertion, reference}, r.Waiting[reference].StatusError})
	}
	return halts, gone
}

// KeyAnswers is what the requests of an agency were answered last, as far as it says something about keys.
type KeyAnswers struct {
	Good    time.Time // the last good answer to anything
	GoodKey string    // fingerprint of the key that it was given to
}

// Other is another agency, which may have the same key.
type Other struct {
	Access
	KeyAnswers
}

// Refused is a refusal, and what may show its reason. No request is made for that.
type Refused struct {
	*listings.StatusError
	At time.Time
	KeyAnswers
	Others []Other
}

// Refuse is the access after a refusal that means a whole scope, which halts. Where it is halted already nothing changes, also not
// what is not stored yet.
func (x Access) Refuse(s Scope, r Refused) AccessChange {
	if _, already := x.Halts[s]; already {
		return AccessChange{Access: x}
	}
	h := store.Halt{
		Scope: s.Scope, Reference: s.Reference, Operation: string(r.Operation), Status: r.Status, Since: r.At.UTC(), Tried: r.At,
		Key: r.Request.Key, Body: string(r.Body),
	}
	e := events.Evidence{Body: h.Body, OtherAgenciesOfKey: othersOfKey(h.Key, r.Others)}
	h.ProbableReason = Reason(s.Scope, e)
	h.Advice = Advice(h.ProbableReason, x.AgencyID, h.Reference)
	return AccessChange{
		Access: x.With(h), Halted: []store.Halt{h}, Events: []events.Payload{x.haltEvent(h, e.OtherAgenciesOfKey, r.Good)},
	}
}

// othersOfKey counts the other agencies of a key by what is already known.
func othersOfKey(key string, all []Other) (n events.AgenciesOfKey) {
	for _, o := range all {
		if key != o.Key.Fingerprint() {
			continue
		}
		switch _, halted := o.Halts[Scope{Scope: events.ScopeAgency}]; {
		case halted:
			n.Refused++
		case o.GoodKey == key:
			n.Working++
		default:
			n.Unknown++
		}
	}
	return n
}

// Retried is the access after a halted insertion was tried again in vain: it waits for another day, without a word.
func (x Access) Retried(reference string, now time.Time) AccessChange {
	h, halted := x.Insertion(reference)
	if !halted {
		return AccessChange{Access: x}
	}
	h.Tried = now // with what the monotonic clock says, as the day until the next try counts by that
	return AccessChange{Access: x.With(h), Halted: []store.Halt{h}}
}

// Answered is the access after a good answer about an insertion that was halted and tried again.
func (x Access) Answered(reference string, now time.Time) (c AccessChange) {
	c.Access = x
	if h, halted := c.Insertion(reference); halted {
		c.end([]store.Halt{h}, "retry_succeeded", now)
	}
	return c
}

// Resume is the access after a person has ended halts: all, or that of one insertion.
func (x Access) Resume(reference string, now time.Time) AccessChange {
	c := AccessChange{Access: x}
	c.end(x.List(reference), "operator", now)
	return c
}

// Configure is the access with the key that is configured now. It ends the halts of other keys.
func (x Access) Configure(key listings.Key, now time.Time) AccessChange {
	over := slices.DeleteFunc(x.List(""), func(h store.Halt) bool { return h.Key == key.Fingerprint() })
	x.Key = key
	c := AccessChange{Access: x}
	c.end(over, "key_changed", now)
	return c
}

// KeyWasRefused says whether one of the halts is of more than an insertion.
func KeyWasRefused(list []store.Halt) bool {
	return slices.ContainsFunc(list, func(h store.Halt) bool { return h.Scope != events.ScopeInsertion })
}

// end ends halts and says so.
func (c *AccessChange) end(list []store.Halt, cause string, now time.Time) {
	for _, h := range list {
		c.Events = append(c.Events, &events.AccessResumed{
			Common: events.Common{AgencyID: c.AgencyID, ObservedAt: now.UTC()}, PropertyReferenceID: h.Reference,
			Scope: h.Scope, HaltedAt: h.Since, Cause: cause,
		})
	}
	c.Access, c.Ended = c.Without(list...), append(c.Ended, list...)
}

// Reason is why a scope was probably refused, by what is known at that moment; no request is made for it.
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
