package poller

import (
	"context"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// learnIdentity decides which member tells contact requests apart, by reading one answer twice. A member that turns out to
// be none is dropped, and said, and another one learned; so it is, without a word, where other members may be the id now.
func (p *poll) learnIdentity(ctx context.Context, page *listings.ContactRequestsPage, prints *watch.Identities, q watch.Question) error {
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
			state.PastIDFields = watch.Past(state.PastIDFields, field)
		}
		return tx.PutAgency(p.a.id, state)
	})
}

// learned says whether the id was decided among the members that may be it now.
func (p *poll) learned(state store.Agency) bool {
	return state.IdentityLearned && slices.Equal(state.IDCandidates, p.a.p.o.IDFields)
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
func (p *poll) unfit(tx *store.Tx, field string, prints *watch.Identities) (why string, err error) {
	known, err := tx.ContactRequests(p.a.id, p.reference)
	return watch.Unfit(field, prints, known), err
}
