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

var (
	wholeAgency    = Scope{Scope: events.ScopeAgency}
	allRequests    = Scope{Scope: events.ScopeContactRequests}
	insertionScope = func(reference string) Scope { return Scope{events.ScopeInsertion, reference} }
)

// Access is what may be asked of an agency: its key, and the scopes that are halted. It is a value,
// and nothing changes one that exists: a response or a decision makes another one.
//
// A halt is silent until it is decided what is announced. A refusal of the list is announced with
// the commit that stores it. Where the contact requests of an insertion were refused the next
// complete walk shows whether the agency is refused, the insertion gone, or only this one not ours
// to read. One that is gone stays halted silently until it is listed again.
type Access struct {
	AgencyID string
	Key      listings.Key // as configured
	Halts    map[Scope]store.Halt

	// What follows only this process knows.

	Good       time.Time // the last good response to anything
	LastAnswer time.Time // the last good one of contact requests
	HaltEnded  time.Time // the last halt of more than one insertion
	// the insertion that tries the halt of all contact requests, or has tried it last
	Trying string
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

// After is the access after a decision.
func (x Access) After(e Effects, now time.Time) Access {
	x = x.With(e.Halted...)
	for _, h := range e.Ended {
		delete(x.Halts, scopeOf(h))
	}
	if ofMany(e.Halted) { // which answers what was refused since the decision, too
		maps.DeleteFunc(x.Halts, func(_ Scope, h store.Halt) bool { return h.Silent })
	}
	if ofMany(e.Ended) {
		x.HaltEnded = now
	}
	return x
}

// ofMany reports whether one of the halts covers more than an insertion.
func ofMany(list []store.Halt) bool {
	return slices.ContainsFunc(list, func(h store.Halt) bool { return h.Scope != events.ScopeInsertion })
}

// Insertion is the halt of one insertion, if it is halted; also a silent one.
func (x Access) Insertion(reference string) (h store.Halt, halted bool) {
	h, halted = x.Halts[insertionScope(reference)]
	return h, halted
}

// List is all announced halts, oldest first.
func (x Access) List() []store.Halt {
	return slices.DeleteFunc(x.all(), func(h store.Halt) bool { return h.Silent })
}

// all is List with the silent ones.
func (x Access) all() []store.Halt {
	return slices.SortedFunc(maps.Values(x.Halts), func(x, y store.Halt) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Reference, y.Reference))
	})
}

// silent is the halts that are not announced, oldest first.
func (x Access) silent() []store.Halt {
	return slices.DeleteFunc(x.all(), func(h store.Halt) bool { return !h.Silent })
}

// RetryRefused is how often a halted insertion, or one of an agency all of whose contact requests
// are halted, is tried again.
const RetryRefused = 24 * time.Hour

// IsHalted reports whether a halt covers a request, also where it may be tried again.
func (x Access) IsHalted(q listings.Request) bool {
	return slices.ContainsFunc(scopesOf(q), func(s Scope) bool { _, halted := x.Halts[s]; return halted })
}

// scopesOf are the scopes whose halt covers a request.
func scopesOf(q listings.Request) []Scope {
	if q.Operation != listings.OperationContactRequests {
		return []Scope{wholeAgency}
	}
	return []Scope{wholeAgency, allRequests, insertionScope(q.Reference)}
}

// Allow says why a request must not be made now: its scope is halted. Where a halt is tried again,
// the request is the one that may try, and the returned access lets no other go. What another
// process saw the list tries until it is answered or refused.
func (x Access) Allow(q listings.Request, now time.Time) (Access, error) {
	for _, s := range scopesOf(q) {
		h, halted := x.Halts[s]
		if !halted {
			continue
		}
		switch {
		case s == wholeAgency && x.Untried() && q.Operation == listings.OperationInsertions:
			continue // a response that says nothing of access leaves it untried
		case s == wholeAgency || h.Silent || now.Sub(h.Tried) < RetryRefused:
			return x, ErrHalted
		}
		// with what the monotonic clock says, as the day until the next try counts by that
		h.Tried = now
		x = x.With(h)
		if s == allRequests {
			x.Trying = q.Reference
		}
	}
	return x, nil
}

// Untried reports whether the agency is halted by what another process saw, so that one request of
// the list may try whether that still holds.
func (x Access) Untried() bool {
	h, halted := x.Halts[wholeAgency]
	return halted && h.Tried.IsZero()
}

// NextTry is when a request of contact requests may try a halt of all of them again; zero: there is
// none.
func (x Access) NextTry() time.Time {
	if h, halted := x.Halts[allRequests]; halted {
		return h.Tried.Add(RetryRefused)
	}
	return time.Time{}
}

// TryNow lets the next request of contact requests try the halt of all of them, because there is a
// new insertion.
func (x Access) TryNow(now time.Time) Access {
	if h, halted := x.Halts[allRequests]; halted {
		h.Tried = now.Add(-RetryRefused)
		return x.With(h)
	}
	return x
}

// Observed is the access after a response, as far as it says something about access; refused is nil
// where it was a good one. What was refused is not requested from here on, however long a commit
// that is under way keeps the walk or poll from deciding what follows. What was sent before a halt
// ended decides nothing after it.
func (x Access) Observed(q listings.Request, refused *listings.StatusError, sent, now time.Time) Access {
	if refused == nil {
		x.Good = now.UTC()
		return x
	}
	s := wholeAgency
	if q.Operation == listings.OperationContactRequests {
		s = insertionScope(q.Reference)
		if _, halted := x.Halts[allRequests]; halted || sent.Before(x.HaltEnded) {
			return x
		}
	}
	if _, halted := x.Halts[s]; halted {
		return x
	}
	return x.With(store.Halt{
		Scope: s.Scope, Reference: s.Reference, Operation: string(q.Operation),
		Status: refused.Status, Since: now.UTC(), Tried: now, Key: q.Key,
		Body: string(refused.Body), Silent: true,
	})
}

// Listing is what a walk shows of insertions.
type Listing struct {
	Complete   bool
	Began      time.Time
	Seen, Gone map[string]struct{} // Gone disappeared before, or with it
	Published  int
}

const (
	// undecidedFor is how long a silent halt waits for a complete walk.
	undecidedFor = time.Hour
	// refusalLimit is how many still-listed insertions must be refused, without a good response
	// between, before all contact requests of an agency halt.
	refusalLimit = 3
)

// Decide says what a walk decides about the insertions whose contact requests were refused. One
// that is still listed is announced, if others are answered; if none is, all contact requests of
// the agency halt. As long as neither is known the next walk decides, as it does about what was
// refused while this one was under way; after an hour it is announced. One that is gone is no
// longer polled, which is no alarm: its halt is silent.
func (x Access) Decide(l Listing, others []Access, now time.Time) (e Effects, gone []string) {
	var listed, overdue []store.Halt
	answered, halted := false, 0
	for _, h := range x.all() {
		_, seen := l.Seen[h.Reference]
		_, left := l.Gone[h.Reference]
		switch {
		case h.Scope != events.ScopeInsertion:
		case left:
			gone = append(gone, h.Reference)
			if !h.Silent {
				h.Silent = true
				e.Halted = append(e.Halted, h)
			}
		case !h.Silent:
			if seen {
				halted++
			}
		case h.Since.After(l.Began):
		case l.Complete && seen:
			listed = append(listed, h)
			answered = answered || x.LastAnswer.After(h.Since)
		case now.Sub(h.Since) >= undecidedFor:
			overdue = append(overdue, h)
		}
	}
	switch {
	case !answered && len(listed) >= refusalLimit:
		h := listed[0]
		h.Scope, h.Reference = events.ScopeContactRequests, ""
		// The next walk decides about the others; one that is gone is not asked about again.
		e.Ended = slices.DeleteFunc(x.silent(), func(h store.Halt) bool {
			_, left := l.Gone[h.Reference]
			return left
		})
		x.announce(&e, h, others)
		return e, gone
	case !answered && len(listed)+halted < l.Published: // one is left that may be answered
		listed = slices.DeleteFunc(listed, func(h store.Halt) bool { return now.Sub(h.Since) < undecidedFor })
	}
	for _, h := range slices.Concat(listed, overdue) {
		x.announce(&e, h, others)
	}
	return e, gone
}

// Refuse is the change after a refusal of the list: the agency halts. Where it is halted already
// nothing changes, but a try is stored.
func (x Access) Refuse(refused *listings.StatusError, others []Access, now time.Time) (e Effects) {
	if h, halted := x.Halts[wholeAgency]; halted && !h.Silent {
		if x.Untried() {
			h.Tried = now
			e.Halted = []store.Halt{h}
		}
		return e
	}
	x.announce(&e, store.Halt{
		Scope: events.ScopeAgency, Operation: string(refused.Operation), Status: refused.Status,
		Since: now.UTC(), Tried: now, Key: refused.Request.Key, Body: string(refused.Body),
	}, others)
	e.Ended = slices.DeleteFunc(x.silent(), func(h store.Halt) bool { return h.Scope == events.ScopeAgency })
	return e
}

// announce halts a scope, with the event that says so.
func (x Access) announce(e *Effects, h store.Halt, others []Access) {
	evidence := events.Evidence{Body: h.Body, OtherAgenciesOfKey: othersOfKey(h.Key, others)}
	h.Silent, h.ProbableReason = false, Reason(h.Scope, evidence)
	h.Advice = Advice(h.ProbableReason, x.AgencyID, h.Reference)
	e.Halted = append(e.Halted, h)
	e.announce(&events.AccessHalted{
		Common:              events.Common{AgencyID: x.AgencyID, ObservedAt: h.Since, ObservedAfter: x.Good},
		PropertyReferenceID: h.Reference, Scope: h.Scope, Operation: h.Operation, Status: h.Status,
		ProbableReason: h.ProbableReason, Evidence: evidence, Key: events.KeyRef{Fingerprint: h.Key},
		Advice: h.Advice, Resume: ResumeCommand(x.AgencyID, h.Reference),
	})
}

// othersOfKey counts the other agencies of a key by what is already known.
func othersOfKey(key string, all []Access) (n events.AgenciesOfKey) {
	for _, o := range all {
		if key != o.Key.Fingerprint() {
			continue
		}
		switch _, halted := o.Halts[wholeAgency]; {
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
func (x Access) Retried(reference string, now time.Time) (e Effects) {
	if h, halted := x.Halts[allRequests]; halted && x.Trying == reference {
		e.Halted = []store.Halt{h} // Allow has noted the try
	} else if h, halted := x.Insertion(reference); halted {
		if !h.Silent {
			h.Tried = now
		}
		e.Halted = []store.Halt{h}
	}
	return e
}

// Answered is the change after a good response: the halt that it has tried ends.
func (x Access) Answered(q listings.Request, now time.Time) (e Effects) {
	if q.Operation == listings.OperationInsertions {
		if x.Untried() {
			x.end(&e, x.Halts[wholeAgency], "retry_succeeded", now)
		}
		return e
	}
	if h, halted := x.Insertion(q.Reference); halted {
		x.end(&e, h, "retry_succeeded", now)
	}
	if h, halted := x.Halts[allRequests]; halted && h.Tried.After(h.Since) &&
		x.Trying == q.Reference {
		x.end(&e, h, "retry_succeeded", now)
	}
	return e
}

// Resume is the change after a person has ended halts: all, or that of one insertion.
func (x Access) Resume(reference string, now time.Time) (e Effects) {
	for _, h := range x.all() {
		if reference == "" || h.Reference == reference {
			x.end(&e, h, "operator", now)
		}
	}
	return e
}

// Configure is the change to the key that is configured now. It ends the halts of other keys.
func (x Access) Configure(key listings.Key, now time.Time) (e Effects) {
	for _, h := range x.all() {
		if h.Key != key.Fingerprint() {
			x.end(&e, h, "key_changed", now)
		}
	}
	return e
}

// end ends a halt, with the event that says so if it was announced.
func (x Access) end(e *Effects, h store.Halt, cause string, now time.Time) {
	e.Ended = append(e.Ended, h)
	if !h.Silent {
		e.announce(&events.AccessResumed{
			Common:              events.Common{AgencyID: x.AgencyID, ObservedAt: now.UTC()},
			PropertyReferenceID: h.Reference, Scope: h.Scope, HaltedAt: h.Since, Cause: cause,
		})
	}
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

func Advice(reason, agencyID, reference string) string {
	end := "run: " + ResumeCommand(agencyID, reference)
	switch reason {
	case "edge_challenge":
		return "The response did not look like the API's own: a gateway or firewall in front of it refused the request. " +
			"Ask the provider to admit the address of this machine, then " + end
	case "insertion_not_allowed":
		return "The list still contains this insertion, but its contact requests are refused. Ask the provider's account " +
			"manager why; it is tried again daily, or " + end
	case "agency_not_linked":
		return "The same key works for other agencies: this agency does not exist at the API or is not linked to the key. " +
			"Check the agency's id (it is case-sensitive), ask the provider's account manager to link it, then " + end
	case "key_rejected":
		return "The API refuses this key for every agency that uses it: it is wrong, expired or deactivated. Ask the " +
			"provider's account manager for the valid key and replace it where doorbell gets it from: a file is read again within " +
			"30 s, the environment at the next start. If the key is right, " + end
	}
	return "The API refuses access: the key is wrong or deactivated, the agency does not exist there, or it is not linked to " +
		"the key. Check the key and the agency's id (it is case-sensitive) with the provider's account manager. A changed key ends the halt: in the key file within 30 s, in the " +
		"environment at the next start. Otherwise " + end
}

func ResumeCommand(agencyID, reference string) string {
	if reference == "" {
		return "doorbell resume " + agencyID
	}
	return fmt.Sprintf("doorbell resume %s --insertion %q", agencyID, reference)
}
