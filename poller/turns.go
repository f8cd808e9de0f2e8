package poller

import (
	"sync"
	"time"

	"doorbell/poller/schedule"
)

// turns is the schedule by the names of agencies and insertions. Safe for concurrent use.
type turns struct {
	mu       sync.Mutex
	schedule *schedule.Schedule
	byID     map[string]*party
	byHandle map[schedule.Agency]*party
	nudge    chan struct{} // there may be something to do
}

// party is an agency in the schedule.
type party struct {
	id         string
	handle     schedule.Agency
	slots      map[string]schedule.Insertion
	references []string // by slot
}

// turn is what to ask now. Without a reference it is a page of the agency's list.
type turn struct {
	agency, reference string
	why               schedule.Why
}

func newTurns(o schedule.Options) *turns {
	return &turns{
		schedule: schedule.New(o), byID: map[string]*party{}, byHandle: map[schedule.Agency]*party{},
		nudge: make(chan struct{}, 1),
	}
}

// poke wakes whoever waits for a turn.
func (t *turns) poke() {
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}

// change changes the schedule.
func (t *turns) change(agencyID string, do func(*schedule.Schedule, *party)) {
	t.mu.Lock()
	p := t.byID[agencyID]
	if p == nil {
		p = &party{id: agencyID, handle: t.schedule.Enter(nil), slots: map[string]schedule.Insertion{}}
		t.byID[agencyID], t.byHandle[p.handle] = p, p
	}
	do(t.schedule, p)
	t.mu.Unlock()
	t.poke()
}

// changeOne changes what is planned of one insertion, if it is in the schedule.
func (t *turns) changeOne(agencyID, reference string, do func(*schedule.Schedule, schedule.Insertion)) {
	t.mu.Lock()
	if p := t.byID[agencyID]; p != nil {
		if i, ok := p.slots[reference]; ok {
			do(t.schedule, i)
		}
	}
	t.mu.Unlock()
	t.poke()
}

// next gives out what to ask now; otherwise it says how long there will be nothing, zero if nobody knows.
func (t *turns) next(now time.Time) (turn, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, wait := t.schedule.Next(now)
	if n.Why == schedule.None {
		return turn{}, wait
	}
	p := t.byHandle[n.Insertion.Agency]
	if n.Why == schedule.Walk {
		return turn{agency: p.id, why: n.Why}, 0
	}
	return turn{agency: p.id, reference: p.references[n.Insertion.Slot], why: n.Why}, 0
}

// leave takes an agency out of the schedule. Nothing of it may be in flight.
func (t *turns) leave(agencyID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[agencyID]; p != nil {
		t.schedule.Leave(p.handle)
		delete(t.byID, agencyID)
		delete(t.byHandle, p.handle)
	}
}

// count is the number of an agency's insertions in the schedule.
func (t *turns) count(agencyID string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[agencyID]; p != nil {
		return t.schedule.Len(p.handle)
	}
	return 0
}

// waiting is how an agency's insertions wait: since when the one that waits the longest, and how many urgently.
func (t *turns) waiting(agencyID string) (since time.Time, urgent int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byID[agencyID]
	if p == nil {
		return time.Time{}, 0
	}
	return t.schedule.Oldest(p.handle), t.schedule.Waiting(p.handle)
}

// add puts an insertion into the schedule, unless it is there.
func (p *party) add(s *schedule.Schedule, reference string, m schedule.Memory, now time.Time) schedule.Insertion {
	if i, ok := p.slots[reference]; ok {
		return i
	}
	i := s.Add(p.handle, m, now)
	p.slots[reference] = i
	for int(i.Slot) >= len(p.references) {
		p.references = append(p.references, "")
	}
	p.references[i.Slot] = reference
	return i
}

// remove takes an insertion out of the schedule.
func (p *party) remove(s *schedule.Schedule, reference string) {
	if i, ok := p.slots[reference]; ok {
		s.Remove(i)
		delete(p.slots, reference)
		p.references[i.Slot] = ""
	}
}
