package sandbox

import (
	"container/heap"
	"context"
	"sync/atomic"
	"time"
)

// timetable is what is still to be done, by its own time, which may run faster
// than the clock of a model. It is not safe for concurrent use.
type timetable struct {
	model   *Model
	speed   float64
	begin   time.Time    // by its own time
	opened  atomic.Int64 // the same by the model's clock, in nanoseconds
	entries entries
	count   int
}

type entry struct {
	at     time.Time
	number int // of two at one moment the first comes first
	do     func()
}

type entries []entry

func (e entries) Len() int { return len(e) }
func (e entries) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].number < e[j].number
}
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(x any)   { *e = append(*e, x.(entry)) }
func (e *entries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newTimetable(m *Model, begin time.Time, speed float64) *timetable {
	t := &timetable{model: m, speed: speed, begin: begin}
	t.open()
	if begin.IsZero() {
		t.begin = t.openedAt()
	}
	if speed <= 0 {
		t.speed = 1
	}
	return t
}

// open makes now the beginning; calls may ask for the time meanwhile. It returns
// by how much that is later than before.
func (t *timetable) open() time.Duration {
	now := t.model.now().UnixNano()
	return time.Duration(now - t.opened.Swap(now))
}

func (t *timetable) openedAt() time.Time { return time.Unix(0, t.opened.Load()).UTC() }

// at plans something for a moment of the timetable's own time.
func (t *timetable) at(moment time.Time, do func()) {
	t.count++
	heap.Push(&t.entries, entry{moment, t.count, do})
}

// every plans something again and again, for the first time after one interval.
func (t *timetable) every(first time.Time, interval time.Duration, do func()) {
	t.at(first, func() {
		t.every(first.Add(interval), interval, do)
		do()
	})
}

// next says when, by the model's clock, something is due.
func (t *timetable) next() (time.Time, bool) {
	if len(t.entries) == 0 {
		return time.Time{}, false
	}
	after := t.entries[0].at.Sub(t.begin)
	return t.openedAt().Add(time.Duration(float64(after) / t.speed)), true
}

// now is the timetable's own time.
func (t *timetable) now() time.Time {
	passed := t.model.now().Sub(t.openedAt())
	return t.begin.Add(time.Duration(float64(passed) * t.speed))
}

// step does the next thing, whether it is time or not.
func (t *timetable) step() bool {
	if len(t.entries) == 0 {
		return false
	}
	heap.Pop(&t.entries).(entry).do()
	return true
}

// run does everything in its time, until the context ends.
func (t *timetable) run(ctx context.Context) {
	for {
		due, ok := t.next()
		if !ok {
			<-ctx.Done()
			return
		}
		if !wait(ctx, due.Sub(t.model.now())) || ctx.Err() != nil {
			return
		}
		t.step()
	}
}
