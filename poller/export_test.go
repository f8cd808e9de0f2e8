package poller

import (
	"time"
)

// ObservePolls passes on the creation times that the schedule is given. It must be called before Run.
func (p *Poller) ObservePolls(f func(agencyID, reference string, created []time.Time)) {
	p.scheduler.observed = f
}

// WalkNow asks for a walk.
func (p *Poller) WalkNow(agencyID string) { p.byID[agencyID].wakeWalk() }

// LimitPolls lets no more than so many polls be under way at once.
func (p *Poller) LimitPolls(most int) { p.dispatcher.most = most }
