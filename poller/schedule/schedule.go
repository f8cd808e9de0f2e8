// Package schedule decides which insertion is polled next. It is a pure structure: no clock, no goroutine, no network and
// no store; the caller says what time it is. It is not safe for concurrent use.
//
// Insertions that were never polled, or that must be looked at now, are urgent and come first, in the order in which they
// became so. All others take turns, the one that has been due the longest first. Agencies take turns with each other, so
// that a large one does not starve a small one. What is in flight is not given out again before its Result.
package schedule

import (
	"container/heap"
	"slices"
	"time"
)

// Target names an insertion.
type Target struct{ Agency, Reference string }

// Schedule holds all insertions that are to be polled. The zero value is not usable; see New.
type Schedule struct {
	agencies map[string]*agency
	order    []*agency
	next     int // whose turn it is
}

type agency struct {
	id      string
	items   map[string]*item
	due     dueHeap
	urgent  []*item
	flying  int
	paused  time.Time // nothing is given out before
	probing bool      // one at a time
}

type item struct {
	target Target
	due    time.Time
	index  int // in the heap; -1 elsewhere
	urgent bool
	flying bool
	gone   bool
}

// New returns an empty schedule.
func New() *Schedule { return &Schedule{agencies: map[string]*agency{}} }

func (s *Schedule) agency(id string) *agency {
	a := s.agencies[id]
	if a == nil {
		a = &agency{id: id, items: map[string]*item{}}
		s.agencies[id] = a
		s.order = append(s.order, a)
	}
	return a
}

// Add puts an insertion into the schedule; one that is there already keeps its place.
func (s *Schedule) Add(t Target, due time.Time) {
	a := s.agency(t.Agency)
	if a.items[t.Reference] != nil {
		return
	}
	i := &item{target: t, due: due, index: -1}
	a.items[t.Reference] = i
	heap.Push(&a.due, i)
}

// Urge moves an insertion to the end of its agency's urgent ones, adding it if needed.
func (s *Schedule) Urge(t Target) {
	a := s.agency(t.Agency)
	i := a.items[t.Reference]
	if i == nil {
		i = &item{target: t, index: -1}
		a.items[t.Reference] = i
	}
	if i.urgent {
		return
	}
	i.urgent = true
	if i.flying {
		return // Result queues it
	}
	a.leaveHeap(i)
	a.urgent = append(a.urgent, i)
}

// Remove takes an insertion out of the schedule.
func (s *Schedule) Remove(t Target) {
	a := s.agency(t.Agency)
	i := a.items[t.Reference]
	if i == nil {
		return
	}
	delete(a.items, t.Reference)
	i.gone = true
	a.leaveHeap(i)
}

// Forget takes an agency out of the schedule, with all of its insertions. None of them may be in flight.
func (s *Schedule) Forget(agencyID string) {
	a := s.agencies[agencyID]
	if a == nil {
		return
	}
	delete(s.agencies, agencyID)
	at := slices.Index(s.order, a)
	s.order = slices.Delete(s.order, at, at+1)
	if s.next > at {
		s.next--
	}
}

// Pause gives out nothing of an agency before until; the zero time ends a pause. With probing, afterwards one insertion
// is given out at a time.
func (s *Schedule) Pause(agencyID string, until time.Time, probing bool) {
	a := s.agency(agencyID)
	a.paused, a.probing = until, probing
}

// Next gives out the insertion to poll now. If there is none, it says how long nothing will be due; zero means until
// something is added, urged or resumed.
func (s *Schedule) Next(now time.Time) (t Target, wait time.Duration, ok bool) {
	for n := range s.order {
		k := (s.next + n) % len(s.order)
		a := s.order[k]
		if a.blocked(now) {
			continue
		}
		if i := a.take(now); i != nil {
			s.next = (k + 1) % len(s.order)
			i.flying = true
			a.flying++
			return i.target, 0, true
		}
	}
	return Target{}, s.wait(now), false
}

// Result ends the flight of an insertion and says when it is due again.
func (s *Schedule) Result(t Target, due time.Time) {
	a := s.agency(t.Agency)
	i := a.items[t.Reference]
	a.flying = max(0, a.flying-1)
	if i == nil || !i.flying {
		return
	}
	i.flying, i.due = false, due
	if i.urgent {
		a.urgent = append(a.urgent, i)
		return
	}
	heap.Push(&a.due, i)
}

// Len is the number of insertions of an agency in the schedule; Oldest is when the one that has been due the longest
// became so, zero if all are urgent, in flight or absent.
func (s *Schedule) Len(agencyID string) int { return len(s.agency(agencyID).items) }

// Oldest is when the agency's insertion that has been due the longest became so; zero if there is none.
func (s *Schedule) Oldest(agencyID string) time.Time {
	if a := s.agency(agencyID); len(a.due) > 0 {
		return a.due[0].due
	}
	return time.Time{}
}

// Urgent is the number of an agency's insertions that wait to be looked at for a reason.
func (s *Schedule) Urgent(agencyID string) int { return len(s.agency(agencyID).urgent) }

func (a *agency) blocked(now time.Time) bool {
	return now.Before(a.paused) || a.probing && a.flying > 0
}

// take gives out an urgent insertion, else the one that has been due the longest.
func (a *agency) take(now time.Time) *item {
	for len(a.urgent) > 0 {
		i := a.urgent[0]
		a.urgent = a.urgent[1:]
		if !i.gone {
			i.urgent = false
			return i
		}
	}
	if len(a.due) == 0 || now.Before(a.due[0].due) {
		return nil
	}
	return heap.Pop(&a.due).(*item)
}

func (a *agency) leaveHeap(i *item) {
	if i.index >= 0 {
		heap.Remove(&a.due, i.index)
	}
}

// wait is the time until the first pause ends or the first insertion is due.
func (s *Schedule) wait(now time.Time) time.Duration {
	var first time.Time
	for _, a := range s.order {
		if a.probing && a.flying > 0 || len(a.due)+len(a.urgent) == 0 {
			continue
		}
		at := a.paused
		if len(a.urgent) == 0 && a.due[0].due.After(at) {
			at = a.due[0].due
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.IsZero() {
		return 0
	}
	return max(first.Sub(now), time.Millisecond)
}

type dueHeap []*item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *dueHeap) Push(x any)        { i := x.(*item); i.index = len(*h); *h = append(*h, i) }
func (h *dueHeap) Pop() any {
	old := *h
	i := old[len(old)-1]
	*h = old[:len(old)-1]
	i.index = -1
	return i
}
