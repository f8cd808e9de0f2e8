package poller

import (
	"sync"
	"time"

	"doorbell/poller/schedule"
	"doorbell/poller/watch"
)

// scheduler is the schedule for all goroutines.
type scheduler struct {
	mu       sync.Mutex
	schedule *schedule.Schedule
	nudge    chan struct{} // there may be something to do

	observed func(agencyID, reference string, created []time.Time) // what tests see of polls; nil: nothing
}

func newScheduler(o schedule.Options) *scheduler {
	return &scheduler{schedule: schedule.New(o, time.Now()), nudge: make(chan struct{}, 1)}
}

// poke wakes the dispatcher where it waits for a turn.
func (t *scheduler) poke() { wake(t.nudge) }

// view does something with the schedule.
func (t *scheduler) view(do func(*schedule.Schedule)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(t.schedule)
}

// change is view where there may be something to do afterwards.
func (t *scheduler) change(do func(*schedule.Schedule)) {
	t.view(do)
	t.poke()
}

// next gives out what to poll now; otherwise how long there will be nothing, zero where that is
// unknown.
func (t *scheduler) next(now time.Time) (turn schedule.Turn, wait time.Duration) {
	t.view(func(s *schedule.Schedule) { turn, wait = s.Next(now) })
	return turn, wait
}

// remove takes an insertion out of the schedule.
func (t *scheduler) remove(agencyID, reference string) {
	t.change(func(s *schedule.Schedule) { s.Remove(agencyID, reference) })
}

// urge lets insertions that are scheduled be polled soon.
func (t *scheduler) urge(agencyID string, references ...string) {
	t.change(func(s *schedule.Schedule) {
		for _, reference := range references {
			s.Urge(agencyID, reference)
		}
	})
}

// polled notes a good poll of an insertion, and when the contact requests were created that the
// schedule does not know yet.
func (t *scheduler) polled(agencyID, reference string, at time.Time, created []time.Time) {
	t.change(func(s *schedule.Schedule) {
		s.Polled(agencyID, reference, at, created)
		if t.observed != nil && s.Has(agencyID, reference) {
			t.observed(agencyID, reference, created)
		}
	})
}

// put ends a poll without a good response.
func (t *scheduler) put(turn schedule.Turn, until time.Time) {
	t.change(func(s *schedule.Schedule) { s.Put(turn.Agency, turn.Reference, until) })
}

// count is the number of an agency's insertions in the schedule.
func (t *scheduler) count(agencyID string) (n int) {
	t.view(func(s *schedule.Schedule) { n = s.Len(agencyID) })
	return n
}

// has reports whether an insertion is in the schedule.
func (t *scheduler) has(agencyID, reference string) (is bool) {
	t.view(func(s *schedule.Schedule) { is = s.Has(agencyID, reference) })
	return is
}

// waits are how all insertions of an agency wait.
func (t *scheduler) waits(agencyID string) (all []watch.Wait) {
	t.view(func(s *schedule.Schedule) {
		all = make([]watch.Wait, 0, s.Len(agencyID))
		for _, w := range s.Waits(agencyID) {
			all = append(all, watch.Wait{Reference: w.Reference, Since: w.Since, Never: w.Never})
		}
	})
	return all
}

// cap is how long an insertion may wait.
func (t *scheduler) cap() (limit time.Duration) {
	t.view(func(s *schedule.Schedule) { limit = s.Cap() })
	return limit
}

// turns are how many turns an agency was given for each reason, by its name.
func (t *scheduler) turns(agencyID string) (all map[string]uint64) {
	t.view(func(s *schedule.Schedule) { all = s.Turns(agencyID) })
	return all
}

// urge lets insertions be polled soon whose records have changed: a change may go with a contact
// request. Where more than a twentieth of all records change in a walk, it says nothing.
func (w *walk) urge(changed []string) {
	w.a.mu.Lock()
	left := (w.a.known+19)/20 - w.edits
	w.a.mu.Unlock()
	w.edits += len(changed)
	w.a.p.scheduler.urge(w.a.id, changed[:min(max(left, 0), len(changed))]...)
}
