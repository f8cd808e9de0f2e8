package poller

import (
	"context"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
)

// Observation is what the schedule is told of an insertion: what a poll found, or whether a walk found its record changed.
type Observation struct {
	Agency, Reference string
	Created           []time.Time
	Seen              bool
	Changed           bool
	Page, Of          int // of the list, where no insertion is named
}

// ObserveSchedule passes on what the schedule is told. It must be called before Run.
func (p *Poller) ObserveSchedule(f func(Observation)) {
	p.scheduler.observed = func(n observation) { f(Observation{n.agency, n.reference, n.created, n.seen, n.changed, n.page, n.of}) }
}

// GiveWalk serves a turn that the schedule gives to a page of an agency's list.
func (p *Poller) GiveWalk(agencyID string) error {
	p.prioritizeWalk(agencyID)
	return nil
}

// Planned is what the schedule remembers of an insertion.
func (p *Poller) Planned(agencyID, reference string) (m schedule.Memory) {
	p.scheduler.changeOne(agencyID, reference, func(s *schedule.Schedule, i schedule.Insertion) { m = s.Memory(i) })
	return m
}

// LimitPolls lets no more than so many polls be under way at once.
func (p *Poller) LimitPolls(most int) { p.dispatcher.most = most }

// SendAgain stands in front of a request that is sent once more.
func (p *Poller) SendAgain(ctx context.Context, r listings.Request) error {
	return admission{p: p}.Admit(ctx, r, time.Now(), true)
}
