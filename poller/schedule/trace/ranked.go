package trace

import (
	"math"
	"slices"
	"time"
)

// policy decides what is asked next. Insertions are numbers of the trace.
type policy interface {
	add(i int32, at time.Duration)                             // the list shows it for the first time
	urge(i int32)                                              // it has just appeared, or is no longer in the list
	remove(i int32)                                            // it is not asked again
	next(at time.Duration) (turn, time.Duration)               // what to ask, or how long to wait
	polled(i int32, at time.Duration, created []time.Duration) // what next gave out was asked
	read(agency, page, of int, at time.Duration)               // so was a page of a list
	seen(i int32, changed uint32, at time.Duration)            // which showed a record that it had shown before
}

type turn struct {
	kind turnKind
	i    int32 // insertion or agency
}

type turnKind uint8

const (
	wait turnKind = iota
	poll
	urgent // a poll that was urgent
	walk
)

// ranked polls the insertion with the largest index. Those of about one rate stand in a lane, in the order of their last
// polls, so that only the first of each lane is looked at.
type ranked struct {
	t        *Trace
	rate     func(i int32, at time.Duration) float64
	index    func(rate, age float64) float64
	cap      time.Duration // 0: none
	excited  bool          // found contact requests raise the rate
	members  []member
	lanes    [lanes]lane
	used     []int32 // lanes that ever held something
	urgents  []int32
	period   time.Duration // between two pages
	round    time.Duration // in which all are polled once
	nextPage time.Duration
	pages    int
	bumps    []bump // to come, the next one first
}

const (
	lanes     = 256
	perOctave = 6
	slowest   = 1e-7 // a day; the rate of the first lane
)

// lane is a queue. What is compared of its first insertion stands here once more, side by side with that of other lanes.
type lane struct {
	head, tail int32 // -1: empty
	used       bool
	rate       float64
	last       time.Duration
}

type member struct {
	rate       float64
	last       time.Duration // poll
	burst      float64
	prev, next int32
	lane       int32 // -1: in none
	urgent     bool
}

type bump struct {
	at time.Duration
	i  int32
}

func newRanked(t *Trace, round, period time.Duration) *ranked {
	r := &ranked{
		t: t, round: round, period: period, members: make([]member, len(t.Insertions)),
		rate:  func(int32, time.Duration) float64 { return 1 },
		index: func(rate, age float64) float64 { return rate * age * age },
	}
	for l := range r.lanes {
		r.lanes[l] = lane{head: -1, tail: -1}
	}
	for i := range r.members {
		r.members[i].lane = -1
	}
	return r
}

// newTurns lets all insertions take turns.
func newTurns(t *Trace, round, period time.Duration) policy { return newRanked(t, round, period) }

// newProportional polls insertions in proportion to their true rates.
func newProportional(t *Trace, round, period time.Duration) policy {
	r := newRanked(t, round, period)
	r.rate = func(i int32, at time.Duration) float64 { return t.Insertions[i].Rate(at) }
	r.index = func(rate, age float64) float64 { return rate * age }
	return r
}

// newOracle is the best that is possible for one that knows the true rates, but not what happens.
func newOracle(t *Trace, round, period, most time.Duration) policy {
	r := newRanked(t, round, period)
	r.cap, r.excited = most, true
	r.rate = func(i int32, at time.Duration) float64 { return t.Insertions[i].base(at) }
	for i := range t.Insertions {
		if one := &t.Insertions[i]; !one.flat {
			for at := one.Born + days(bumpEvery); at < min(one.Gone, t.Span); at += days(bumpEvery) {
				r.bumps = append(r.bumps, bump{at, int32(i)})
			}
		}
	}
	slices.SortFunc(r.bumps, func(a, b bump) int { return int(a.at - b.at) })
	return r
}

// add lets those that are there at the beginning have been polled one after the other before it.
func (r *ranked) add(i int32, at time.Duration) {
	r.members[i].last = at
	if at == 0 {
		r.members[i].last = -r.round * time.Duration(len(r.t.slots)-int(r.t.Insertions[i].slot)) / time.Duration(len(r.t.slots))
	}
	r.link(i, at)
}

func (r *ranked) urge(i int32) {
	if m := &r.members[i]; !m.urgent {
		m.urgent = true
		r.urgents = append(r.urgents, i)
	}
}

func (r *ranked) remove(i int32) { r.unlink(i) }

func (r *ranked) next(at time.Duration) (turn, time.Duration) {
	if at >= r.nextPage {
		r.nextPage = at + r.period
		r.pages++
		return turn{walk, int32(r.pages % r.t.Agencies)}, 0
	}
	for len(r.bumps) > 0 && r.bumps[0].at <= at {
		r.lift(r.bumps[0].i, at)
		r.bumps = r.bumps[1:]
	}
	if len(r.urgents) > 0 {
		i := r.urgents[0]
		r.urgents = r.urgents[1:]
		r.members[i].urgent = false
		return turn{urgent, i}, 0
	}
	if i := r.best(at); i >= 0 {
		return turn{poll, i}, 0
	}
	return turn{}, time.Second
}

// best is the insertion with the largest index, or the oldest one if it would wait too long.
func (r *ranked) best(at time.Duration) int32 {
	most, best, oldest, since := -1.0, int32(-1), int32(-1), at
	for _, k := range r.used {
		l := &r.lanes[k]
		if l.head < 0 {
			continue
		}
		if l.last < since {
			oldest, since = l.head, l.last
		}
		if x := r.index(l.rate, float64(at-l.last)); x > most {
			most, best = x, l.head
		}
	}
	if r.cap > 0 && oldest >= 0 && at-since > r.cap-r.cap/64 {
		return oldest
	}
	return best
}

func (r *ranked) polled(i int32, at time.Duration, created []time.Duration) {
	m := &r.members[i]
	if r.excited {
		m.burst *= math.Exp(-float64(at-m.last) / float64(excitation))
		for _, c := range created {
			m.burst += math.Exp(-float64(at-c) / float64(excitation))
		}
	}
	m.last = at
	r.unlink(i)
	r.link(i, at)
}

func (r *ranked) read(int, int, int, time.Duration) {}

func (r *ranked) seen(int32, uint32, time.Duration) {}

// link puts an insertion at the end of the lane of its rate.
func (r *ranked) link(i int32, at time.Duration) {
	m, l := r.place(i, at)
	m.prev, m.next = r.lanes[l].tail, -1
	if m.prev >= 0 {
		r.members[m.prev].next = i
	} else {
		r.lanes[l].head = i
	}
	r.lanes[l].tail = i
	r.front(l)
}

// front notes what is first in a lane.
func (r *ranked) front(l int32) {
	if i := r.lanes[l].head; i >= 0 {
		r.lanes[l].rate, r.lanes[l].last = r.members[i].rate, r.members[i].last
	}
}

// place says what lane an insertion belongs to.
func (r *ranked) place(i int32, at time.Duration) (*member, int32) {
	m := &r.members[i]
	m.rate = r.rate(i, at) + offspring*m.burst/inDays(excitation)
	m.lane = int32(min(max(perOctave*math.Log2(m.rate/slowest), 0), lanes-1))
	if l := &r.lanes[m.lane]; !l.used {
		l.used = true
		r.used = append(r.used, m.lane)
	}
	return m, m.lane
}

func (r *ranked) unlink(i int32) {
	m := &r.members[i]
	if m.lane < 0 {
		return
	}
	if m.prev >= 0 {
		r.members[m.prev].next = m.next
	} else {
		r.lanes[m.lane].head = m.next
	}
	if m.next >= 0 {
		r.members[m.next].prev = m.prev
	} else {
		r.lanes[m.lane].tail = m.prev
	}
	r.front(m.lane)
	m.lane = -1
}

// lift puts an insertion whose rate has just risen among those of its new lane.
func (r *ranked) lift(i int32, at time.Duration) {
	if r.members[i].lane < 0 {
		return
	}
	r.unlink(i)
	m, l := r.place(i, at)
	after := r.lanes[l].tail
	for after >= 0 && r.members[after].last > m.last {
		after = r.members[after].prev
	}
	m.prev = after
	if after >= 0 {
		m.next, r.members[after].next = r.members[after].next, i
	} else {
		m.next, r.lanes[l].head = r.lanes[l].head, i
	}
	if m.next >= 0 {
		r.members[m.next].prev = i
	} else {
		r.lanes[l].tail = i
	}
	r.front(l)
}
