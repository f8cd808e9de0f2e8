package poller

import (
	"context"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// learnIdentity decides which member tells contact requests apart, by reading one answer twice. A member that turns out to
// be none is dropped, and said, and another one learned; so it is, without a word, where other members may be the id now.
func (p *poll) learnIdentity(ctx context.Context, page *listings.ContactRequestsPage, prints *identities, q question) error {
	if len(page.ContactRequests) == 0 {
		return nil
	}
	var state store.Agency
	why := ""
	err := p.a.p.store.View(func(tx *store.Tx) (err error) {
		if state, _, err = tx.Agency(p.a.id); err == nil && state.IdentityLearned {
			why, err = p.unfit(tx, state.IDField, prints)
		}
		return err
	})
	if err != nil {
		return err
	}
	if p.learned(state) && why == "" {
		return nil
	}
	again, err := p.ask(ctx, q)
	if err != nil {
		return err
	}
	field := state.IDField
	return p.a.p.store.Update(func(tx *store.Tx) error {
		state, _, err := tx.Agency(p.a.id)
		if err != nil {
			return err
		}
		if state.IDField != field || why == "" && p.learned(state) { // another poll was faster
			field = state.IDField
			if why, err = p.unfit(tx, field, prints); err != nil || why == "" {
				return err
			}
		}
		if why != "" {
			if err := p.dropID(tx, &state, why); err != nil {
				return err
			}
		}
		candidates := slices.DeleteFunc(slices.Clone(p.a.p.o.IDFields), func(f string) bool {
			return slices.ContainsFunc(state.RefusedIDFields, func(r string) bool { return listings.SameName(r, f) })
		})
		state.IdentityLearned, state.IDCandidates = true, slices.Clone(p.a.p.o.IDFields)
		_, state.IDField = listings.LearnID(candidates, p.reference, page.ContactRequests, again.ContactRequests)
		if field != state.IDField && why == "" {
			state.PastIDFields = past(state.PastIDFields, field)
		}
		return tx.PutAgency(p.a.id, state)
	})
}

// learned says whether the id was decided among the members that may be it now.
func (p *poll) learned(state store.Agency) bool {
	return state.IdentityLearned && slices.Equal(state.IDCandidates, p.a.p.o.IDFields)
}

// maxPastIDs bounds how many members are remembered that were the id under other settings.
const maxPastIDs = 8

// past adds a member that was the id, the last one at the end.
func past(fields []string, field string) []string {
	if field == "" {
		return fields
	}
	fields = append(slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f == field }), field)
	return fields[max(0, len(fields)-maxPastIDs):]
}

// dropID refuses the member that was taken for the id.
func (p *poll) dropID(tx *store.Tx, state *store.Agency, why string) error {
	field := state.IDField
	state.RefusedIDFields = append(state.RefusedIDFields, field)
	state.PastIDFields = slices.DeleteFunc(state.PastIDFields, func(f string) bool { return f == field })
	p.a.p.log.Warn("a member was no id of contact requests and is not used as one any more", "agency", p.a.id, "member", field, "why", why)
	return appendEvent(tx, &events.WatchSchemaDrifted{
		Common:    events.Common{AgencyID: p.a.id, ObservedAt: time.Now()},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: p.reference,
		Expected: "/" + field + " different for every contact request", Found: "/" + field + " " + why,
	})
}

// unfit says why a member that was taken for the id is none, by what the store remembers.
func (p *poll) unfit(tx *store.Tx, field string, prints *identities) (why string, err error) {
	known, err := tx.ContactRequests(p.a.id, p.reference)
	return unfit(field, prints, known), err
}

// unfit says why a member that was taken for the id is none. It is empty if there is nothing to say against it.
func unfit(field string, prints *identities, known []store.ContactRequest) (why string) {
	if field == "" {
		return ""
	}
	if why = shared(field, prints); why == "" && moved(field, prints, known) {
		why = "another for the same contact request, and its own for one more"
	}
	return why
}

// moved says whether an id that is known stands for another contact request now, while the one that had it stands beside
// with another: then it counts places.
func moved(field string, prints *identities, known []store.ContactRequest) bool {
	was := make(map[string]store.Short, len(known))
	for n := range known {
		was[known[n].ID] = known[n].Fingerprint
	}
	same := true
	for n, id := range prints.identified(field) {
		fingerprint, is := was[id]
		same = same && (!is || fingerprint == prints.short(n))
	}
	if same {
		return false
	}
	ids := make(map[string]store.Short, len(prints.requests))
	byContent := make(map[store.Short]string, len(prints.requests))
	for n, id := range prints.identified(field) {
		fingerprint := prints.short(n)
		ids[id], byContent[fingerprint] = fingerprint, id
	}
	for id, fingerprint := range was {
		now, shown := ids[id]
		other, beside := byContent[fingerprint]
		if shown && beside && now != fingerprint && other != id && was[other] != fingerprint {
			return true
		}
	}
	return false
}

// shared says whether several contact requests of one answer share an id, or one is without.
func shared(field string, prints *identities) string {
	seen := make(map[string]store.Short, len(prints.requests))
	for n, id := range prints.identified(field) {
		if id == "" {
			return "absent from a contact request"
		}
		if other, twice := seen[id]; twice && other != prints.short(n) {
			return "the same for several contact requests"
		}
		seen[id] = prints.short(n)
	}
	return ""
}

// identities is what identity is made of, of the contact requests of one answer, in its order. An answer may be judged several
// times: this is read once.
type identities struct {
	requests     []listings.ContactRequest
	fingerprints [][16]byte
	ids          []string // nil: not read
	field        string   // that the ids were read from
}

func identitiesOf(reference string, requests []listings.ContactRequest) *identities {
	i := &identities{requests: requests, fingerprints: make([][16]byte, len(requests))}
	for n := range requests {
		i.fingerprints[n] = requests[n].Fingerprint(reference)
	}
	return i
}

// short is what is remembered of the fingerprint of a contact request.
func (i *identities) short(n int) store.Short { return store.Short(i.fingerprints[n][:8]) }

// identified returns what a member says as an id, empty where there is none.
func (i *identities) identified(field string) []string {
	if i.ids == nil || i.field != field {
		i.field, i.ids = field, make([]string, len(i.requests))
		for n := range i.requests {
			i.ids[n] = boundedID(i.requests[n].ID(field))
		}
	}
	return i.ids
}
