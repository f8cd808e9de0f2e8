package sandbox

import (
	"container/heap"
	"context"
	"time"
)

// timetable is what is still to be done, by its own time, which may run faster
// than the clock of a model. It is not safe for concurrent use.
type timetable struct {
	model   *Model
	speed   float64
	begin   time.Time // by its own time
	opened  time.Time // by the model's clock
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
	t := &timetable{model: m, speed: speed, begin: begin, opened: m.now()}
	if begin.IsZero() {
		t.begin = t.opened
	}
	if speed <= 0 {
		t.speed = 1
	}
	return t
}

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
	return t.opened.Add(time.Duration(float64(after) / t.speed)), true
}

// now is the timetable's own time.
func (t *timetable) now() time.Time {
	passed := t.model.now().Sub(t.opened)
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
