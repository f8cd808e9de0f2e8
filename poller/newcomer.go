package poller

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
	"doorbell/store"
)

// newcomer is an insertion that comes into the schedule.
type newcomer struct {
	reference string
	born      time.Time
	urgent    bool
}

// newcomer says how what a walk has just found is polled: what appeared or came back after the baseline at once. What was
// there before us takes its turn; who wrote to one of them meanwhile is news whenever that turn comes.
func (a *agency) newcomer(read listings.Insertion, d watch.InsertionDiff) newcomer {
	return newcomer{read.Reference, a.born(read, appearedAt(d.Next)), !d.Fresh || !d.Next.Baseline}
}

// appearedAt is when an insertion was seen first, if it appeared then. Zero: it was there before us, nobody knows for how long.
func appearedAt(i store.Insertion) time.Time {
	if i.Baseline {
		return time.Time{}
	}
	return i.FirstSeen
}

// born is when an insertion was published as far as its record tells, in our clock, else when it appeared. A time that is
// still to come tells nothing.
func (a *agency) born(read listings.Insertion, appeared time.Time) time.Time {
	at := a.p.client.Published(read)
	if at.IsZero() {
		return appeared
	}
	if at = at.Add(-a.skew()); at.After(time.Now()) {
		return appeared
	}
	return at
}

// plan puts insertions into the schedule, unless they are there.
func (a *agency) plan(list []newcomer) {
	if len(list) == 0 {
		return
	}
	now := time.Now()
	a.p.turns.change(a.id, func(s *schedule.Schedule, p *party) {
		for _, n := range list {
			one := p.add(s, n.reference, schedule.Memory{Born: n.born}, now)
			if n.urgent {
				s.Urge(one, schedule.Urgent)
			}
		}
	})
}

// planned reads from the store what is to be planned of references.
func (a *agency) planned(references []string) (list []newcomer, err error) {
	err = a.p.store.View(func(tx *store.Tx) error {
		for _, reference := range references {
			i, exists, err := tx.Insertion(a.id, reference)
			if err != nil {
				return err
			}
			if exists {
				read := listings.Insertion{Reference: reference, Record: tx.Record(a.id, reference)}
				list = append(list, newcomer{reference: reference, born: a.born(read, appearedAt(i))})
			}
		}
		return nil
	})
	return list, err
}
