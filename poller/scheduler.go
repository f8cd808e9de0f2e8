package poller

import (
	"slices"
	"sync"
	"time"

	"doorbell/poller/schedule"
)

// scheduler is the schedule by the names of agencies and insertions. Safe for concurrent use.
type scheduler struct {
	options  schedule.Options
	mu       sync.Mutex
	schedule *schedule.Schedule
	byID     map[string]*scheduled
	byHandle map[schedule.Agency]*scheduled
	nudge    chan struct{} // there may be something to do

	observed func(observation) // what tests see of what the schedule is told; nil: nothing
}

// observation is what the schedule is told.
type observation struct {
	agency, reference string
	created           []time.Time // by a poll
	seen              bool        // by a walk
	changed           bool        // the record had
	page, of          int         // of the list; without a reference
}

func (t *scheduler) observe(n observation) {
	if t.observed != nil {
		t.observed(n)
	}
}

// scheduled is an agency in the schedule.
type scheduled struct {
	id         string
	handle     schedule.Agency
	slots      map[string]schedule.Insertion
	references []string // by slot
	came       []uint32 // by slot: when one came that was never polled, in seconds since 1970; 0: it was
	marks      []uint32 // by slot: that of its record at the last reading; 0: there was none
	pageFirst  bool     // the next page of its list goes before all polls
}

// turn is what to ask now. Without a reference it is a page of the agency's list.
type turn struct {
	agency, reference string
	why               schedule.Why
}

func newScheduler(o schedule.Options) *scheduler {
	return &scheduler{
		options: o, schedule: schedule.New(o), byID: map[string]*scheduled{}, byHandle: map[schedule.Agency]*scheduled{},
		nudge: make(chan struct{}, 1),
	}
}

// poke wakes whoever waits for a turn.
func (t *scheduler) poke() { wake(t.nudge) }

// enter puts an agency into the schedule, unless it is there, with what a process before has saved of it; nil or anything else:
// nothing.
func (t *scheduler) enter(agencyID string, saved []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[agencyID] != nil {
		return
	}
	p := &scheduled{id: agencyID, slots: map[string]schedule.Insertion{}, handle: t.schedule.Enter(saved)}
	t.byID[agencyID], t.byHandle[p.handle] = p, p
}

// view does something with an agency of the schedule, if it is there.
func (t *scheduler) view(agencyID string, do func(*schedule.Schedule, *scheduled)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[agencyID]; p != nil { // else it is just coming, or has left
		do(t.schedule, p)
	}
}

// change is view where there may be something to do afterwards.
func (t *scheduler) change(agencyID string, do func(*schedule.Schedule, *scheduled)) {
	t.view(agencyID, do)
	t.poke()
}

// changeOne changes what is planned of one insertion, if it is in the schedule.
func (t *scheduler) changeOne(agencyID, reference string, do func(*schedule.Schedule, schedule.Insertion)) {
	t.change(agencyID, func(s *schedule.Schedule, p *scheduled) {
		if i, ok := p.slots[reference]; ok {
			do(s, i)
		}
	})
}

// next gives out what to ask now; otherwise it says how long there will be nothing, zero if nobody knows.
func (t *scheduler) next(now time.Time) (turn, time.Duration) {
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
func (t *scheduler) leave(agencyID string) {
	t.view(agencyID, func(s *schedule.Schedule, p *scheduled) {
		s.Leave(p.handle)
		delete(t.byID, agencyID)
		delete(t.byHandle, p.handle)
	})
}

// count is the number of an agency's insertions in the schedule.
func (t *scheduler) count(agencyID string) (n int) {
	t.view(agencyID, func(s *schedule.Schedule, p *scheduled) { n = s.Len(p.handle) })
	return n
}

// has says whether an insertion is in the schedule.
func (t *scheduler) has(agencyID, reference string) (is bool) {
	t.view(agencyID, func(_ *schedule.Schedule, p *scheduled) { _, is = p.slots[reference] })
	return is
}

// reasons are why something was asked, in the order in which they are shown.
var reasons = []schedule.Why{schedule.Index, schedule.Cap, schedule.Urgent, schedule.Hint, schedule.Walk, schedule.Retry}

// turns are how many turns an agency was given for each reason, by its name. Those for a walk are pages of the list.
func (t *scheduler) turns(agencyID string) map[string]uint64 {
	all := make(map[string]uint64, len(reasons))
	for _, why := range reasons {
		all[why.String()] = 0
	}
	t.view(agencyID, func(s *schedule.Schedule, p *scheduled) {
		for _, why := range reasons {
			all[why.String()] = s.Count(p.handle)[why]
		}
	})
	return all
}

// polled says that an insertion was polled with a good answer, and when the contact requests were created that were not
// known before.
func (t *scheduler) polled(agencyID, reference string, at time.Time, created []time.Time) {
	t.change(agencyID, func(s *schedule.Schedule, p *scheduled) {
		if i, ok := p.slots[reference]; ok {
			s.Polled(i, at, created)
			p.came[i.Slot] = 0
			t.observe(observation{agency: agencyID, reference: reference, created: created})
		}
	})
}

// reading is what a walk read of an insertion. That its record has changed may betray that a contact request has come, and whether
// it does is for the schedule to learn.
type reading struct {
	reference string
	changed   bool   // in what a digest holds
	mark      uint32 // of the rest; 0: it is as it was
}

// seen says what a walk has read of insertions.
func (t *scheduler) seen(agencyID string, list []reading, at time.Time) {
	t.change(agencyID, func(s *schedule.Schedule, p *scheduled) {
		for _, r := range list {
			i, ok := p.slots[r.reference]
			if !ok {
				continue
			}
			if mark := &p.marks[i.Slot]; r.mark != 0 {
				r.changed = r.changed || *mark != 0 && *mark != r.mark
				*mark = r.mark
			}
			s.Seen(i, r.changed, at)
			t.observe(observation{agency: agencyID, reference: r.reference, seen: true, changed: r.changed})
		}
	})
}

// walked says that a walk has read a page, of as many as the last complete one had; 0 where that is not known.
func (t *scheduler) walked(agencyID string, page, of int, at time.Time) {
	t.change(agencyID, func(s *schedule.Schedule, p *scheduled) {
		s.Read(p.handle, page, of, at)
		t.observe(observation{agency: agencyID, page: page, of: of})
	})
}

// grow makes room for so many insertions at once.
func (p *scheduled) grow(n int) {
	if len(p.slots) == 0 {
		p.slots = make(map[string]schedule.Insertion, n)
	}
	p.references, p.came, p.marks = slices.Grow(p.references, n), slices.Grow(p.came, n), slices.Grow(p.marks, n)
}

// add puts an insertion into the schedule, unless it is there.
func (p *scheduled) add(s *schedule.Schedule, reference string, m schedule.Memory, now time.Time) schedule.Insertion {
	if i, ok := p.slots[reference]; ok {
		return i
	}
	i := s.Add(p.handle, m, now)
	p.slots[reference] = i
	for int(i.Slot) >= len(p.references) {
		p.references, p.came, p.marks = append(p.references, ""), append(p.came, 0), append(p.marks, 0)
	}
	p.references[i.Slot] = reference
	if m.LastPoll.IsZero() {
		p.came[i.Slot] = uint32(now.Unix())
	}
	return i
}

// remove takes an insertion out of the schedule.
func (p *scheduled) remove(s *schedule.Schedule, reference string) {
	if i, ok := p.slots[reference]; ok {
		s.Remove(i)
		p.came[i.Slot], p.marks[i.Slot] = 0, 0
		delete(p.slots, reference)
		p.references[i.Slot] = ""
	}
}

// prioritize lets the next page of an agency's list go before all polls, once: the one that waits, or the one that comes.
func (t *scheduler) prioritize(agencyID string) {
	t.view(agencyID, func(_ *schedule.Schedule, p *scheduled) { p.pageFirst = true })
}

// takePriority says whether a page of an agency's list goes before all polls, which is over then.
func (t *scheduler) takePriority(agencyID string) (is bool) {
	t.view(agencyID, func(_ *schedule.Schedule, p *scheduled) { is, p.pageFirst = p.pageFirst, false })
	return is
}
