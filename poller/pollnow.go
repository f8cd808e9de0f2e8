package poller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
)

// ErrHalted is returned when an agency is to be asked that is halted.
var ErrHalted = errors.New("agency is halted")

// PolledNow is what PollNow lets happen.
type PolledNow struct {
	Insertions int `json:"insertions"` // are polled as soon as the share of the agency allows
	Of         int `json:"of"`         // in the schedule
}

// nowWithin is how much of the budget one wish may claim.
const nowWithin = time.Minute

// PollNow walks an agency now and polls its insertions before what else is planned of it: those that have waited the
// longest, and no more of them than a minute of the budget. It neither waits for that, nor exceeds the budget, nor shortens
// what the API asked to wait. It returns ErrHalted if nothing of the agency may be asked.
func (p *Poller) PollNow(agencyID string) (done PolledNow, err error) {
	a := p.agency(agencyID)
	if a == nil {
		return done, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	if a.isHalted(listings.Request{Operation: listings.OperationInsertions, AgencyID: agencyID}) {
		return done, fmt.Errorf("%w: %s", ErrHalted, agencyID)
	}
	p.turns.change(agencyID, func(s *schedule.Schedule, party *party) {
		list := party.longest(s, max(1, int(p.o.RequestsPerSecond*nowWithin.Seconds())))
		for _, i := range list {
			s.Urge(i, schedule.Urgent)
		}
		done = PolledNow{Insertions: len(list), Of: len(party.slots)}
	})
	a.wakeWalk()
	return done, nil
}

// longest are the insertions that were polled the longest ago, at most so many.
func (p *party) longest(s *schedule.Schedule, most int) []schedule.Insertion {
	type waiting struct {
		schedule.Insertion
		since time.Time
	}
	all := make([]waiting, 0, len(p.slots))
	for _, i := range p.slots {
		all = append(all, waiting{i, s.Memory(i).LastPoll})
	}
	slices.SortFunc(all, func(a, b waiting) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.Slot, b.Slot))
	})
	list := make([]schedule.Insertion, 0, min(most, len(all)))
	for _, w := range all[:min(most, len(all))] {
		list = append(list, w.Insertion)
	}
	return list
}
