package watch

import (
	"slices"
	"strings"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// unchanged is what a response says of which each contact request is known by its id and reads as it did, as most are. It needs
// their ids and digests alone: persons and texts, by which others are recognised, are as they were, too. all is false where
// something is new or has changed. known is sorted by id.
func unchanged(s sight, known []store.ContactRequest, requests []listings.ContactRequest) (d contacts, all bool) {
	d = contacts{
		missing: len(known) - len(requests), fresh: map[string]time.Time{},
		shown: make([]string, 0, len(requests)), before: make([]bool, 0, len(requests)),
	}
	taken := make([]bool, len(known))
	field := ""
	for n := range requests {
		r, id, named := &requests[n], "", ""
		for _, named = range s.rules.ids {
			if id = boundedID(r.ID(named)); id != "" {
				break
			}
		}
		if n == 0 {
			field = named
		}
		at, found := slices.BinarySearchFunc(known, id, func(k store.ContactRequest, id string) int { return strings.Compare(k.ID, id) })
		if id == "" || named != field || !found || taken[at] { // another one with this id is not known by it
			return d, false
		}
		taken[at] = true
		k := known[at]
		if k.Nameless || k.Redacted || !k.Emptied.IsZero() || k.Rules != s.rules.contactRequest || !r.CreatedAt.Equal(k.CreatedAt) ||
			contactDigest(r, s.rules) != k.Digest {
			return d, false
		}
		before := k.Epoch < s.insertion.Epoch
		d.shown, d.before = append(d.shown, k.ID), append(d.before, before)
		if !before {
			d.fresh[k.ID] = k.CreatedAt
		}
		d.readings = append(d.readings, Reading{ID: k.ID, Left: s.leftOut(r)})
	}
	return d, true
}
