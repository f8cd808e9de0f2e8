package watch

import (
	"fmt"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// Keys is an agency's pair of keys and what is known of them. It is a value: what a refusal or an answer makes of it is
// another one.
//
// One key is shown, the active one. When it is refused in a way that would halt the agency, or all of its contact
// requests, the other is tried with the same kind of question, unless it was refused before: while it is tried the active
// one is not shown. If it works it is the active one from then on; if it is refused too, the halt comes. So a pair leads
// to one switch at most. What is known is kept in the store by fingerprints, and another pair begins anew.
type Keys struct {
	Current, Next listings.Key // as configured
	Known         store.Keys
}

func NewKeys(current, next listings.Key) Keys {
	r := Keys{Current: current, Next: next}
	if r.Next == r.Current {
		r.Next = listings.Key{}
	}
	return r.Anew()
}

// Anew is the pair of which nothing is known.
func (r Keys) Anew() Keys {
	r.Known = store.Keys{Current: r.Current.Fingerprint()}
	if !r.Next.IsZero() {
		r.Known.Next = r.Next.Fingerprint()
	}
	return r
}

// Restore is the pair with what was known of the same two keys, in whichever order they are configured now. Of another
// pair nothing is known.
func (r Keys) Restore(known store.Keys) (_ Keys, same bool) {
	straight := known.Current == r.Known.Current && known.Next == r.Known.Next
	reversed := r.Known.Next != "" && known.Current == r.Known.Next && known.Next == r.Known.Current
	if !straight && !reversed {
		return r, false
	}
	if len(known.Refused) > 0 {
		r.Known.Active, r.Known.Refused, r.Known.Trying = known.Active, known.Refused, known.Trying
		if r.Known.Active == "" {
			r.Known.Active = known.Current
		}
	}
	return r, true
}

// Stored is what the store has to know; nothing as long as no key was refused.
func (r Keys) Stored() store.Keys {
	if len(r.Known.Refused) == 0 {
		return store.Keys{}
	}
	return r.Known
}

func (r Keys) Active() listings.Key {
	if r.Known.Active != "" && r.Known.Active == r.Known.Next {
		return r.Next
	}
	return r.Current
}

// Other is the key of the pair that is not the active one; zero if there is none.
func (r Keys) Other() listings.Key {
	if r.Active() == r.Current {
		return r.Next
	}
	return r.Current
}

// Shown is the key that requests of an operation show. While the other one is tried with contact requests, the list,
// which is answered, goes on with the active one.
func (r Keys) Shown(o listings.Operation) listings.Key {
	if r.Known.Trying == string(listings.OperationInsertions) || r.Tries(o) {
		return r.Other()
	}
	return r.Active()
}

// Tries says whether the other key is being tried with an operation.
func (r Keys) Tries(o listings.Operation) bool { return r.Known.Trying == string(o) }

func (r Keys) WasRefused(fingerprint string) bool {
	return slices.Contains(r.Known.Refused, fingerprint)
}

// Slot names one of the pair as events do.
func (r Keys) Slot(fingerprint string) events.KeyRef {
	ref := events.KeyRef{Slot: "current", Fingerprint: fingerprint}
	if fingerprint == r.Known.Next {
		ref.Slot = "next"
	}
	return ref
}

// Refuse is the pair after the key that an operation shows was refused, and whether the other one is to be tried now.
func (r Keys) Refuse(o listings.Operation) (_ Keys, try bool) {
	shown := r.Shown(o).Fingerprint()
	if !r.WasRefused(shown) {
		r.Known.Refused = append(slices.Clone(r.Known.Refused), shown)
	}
	r.Known.Active = r.Active().Fingerprint()
	other := r.Other()
	try = !other.IsZero() && !r.WasRefused(other.Fingerprint())
	r.Known.Trying = ""
	if try {
		r.Known.Trying = string(o)
	}
	return r, try
}

// Switched is the pair after the key that was tried has worked.
func (r Keys) Switched() Keys {
	r.Known.Active, r.Known.Trying = r.Other().Fingerprint(), ""
	return r
}

// KnownKeys is what is known of keys, also where a halt was written before pairs were known.
func KnownKeys(known store.Keys, halts []store.Halt) store.Keys {
	for _, h := range halts {
		if known.Current == "" && h.Scope != events.ScopeInsertion {
			known = store.Keys{Current: h.Key, Refused: []string{h.Key}}
		}
	}
	return known
}

// Reason is why a scope was probably refused, by answers to questions that are younger than the refused one: an answer of before
// says nothing of a key that was deactivated since. since is how many of the refused others were refused so. It is settled where
// no further answer could tell more.
func Reason(scope events.Scope, e events.Evidence, since int) (reason string, settled bool) {
	others := e.OtherAgenciesOfKey
	switch {
	case e.Body == "html" || e.Body == "challenge":
		return "edge_challenge", true
	case scope == events.ScopeInsertion:
		return "insertion_not_allowed", true
	case scope == events.ScopeContactRequests:
		return "unknown", true
	case others.Working > 0:
		return "agency_not_linked", true
	case others.Refused > 0 && others.Unknown == 0:
		return "key_rejected", true
	case since > 0:
		return "key_rejected", false
	}
	return "unknown", others.Unknown == 0
}

// HaltEvent tells a halt. after is the last good answer before it.
func HaltEvent(agencyID string, h store.Halt, key events.KeyRef, others events.AgenciesOfKey, after time.Time) *events.AccessHalted {
	return &events.AccessHalted{
		Common: events.Common{AgencyID: agencyID, ObservedAt: h.Since, ObservedAfter: after}, PropertyReferenceID: h.Reference,
		Scope: h.Scope, Operation: h.Operation, Status: h.Status, ProbableReason: h.ProbableReason,
		Evidence: events.Evidence{Body: h.Body, OtherAgenciesOfKey: others},
		Key:      key, Advice: h.Advice, Resume: ResumeCommand(agencyID, h.Reference),
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
			"Check the agency's id, ask the provider's account manager to link it, then " + end
	case "key_rejected":
		return "The API refuses this key for every agency that uses it: it is wrong, expired or deactivated. Ask the " +
			"provider's account manager for the valid key and write it into the key file (picked up within 30 s), or set " +
			"DOORBELL_API_KEY and restart. If the key is right, " + end
	}
	return "The API refuses access: the key is wrong or deactivated, the agency does not exist there, or it is not linked to " +
		"the key. Check both with the provider's account manager. A changed key ends the halt: in the key file within 30 s, in the " +
		"environment at the next start. Else " + end
}

func ResumeCommand(agencyID, reference string) string {
	if reference == "" {
		return "doorbell resume " + agencyID
	}
	return fmt.Sprintf("doorbell resume %s --insertion %q", agencyID, reference)
}

func SwitchAdvice(to string) string {
	if to == "next" {
		return "The API refuses the current key and accepts the next one, which is used from now on. Make it the current key and remove the old one."
	}
	return "The API refuses the next key, which was in use, and accepts the current one, which is used from now on. Ask the " +
		"provider's account manager which of the two is valid, and remove the other."
}
