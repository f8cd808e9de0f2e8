package trace

import (
	"time"

	"doorbell/poller/schedule"
)

// epoch is the beginning of a trace.
var epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// real is the scheduler of this product.
type real struct {
	s        *schedule.Schedule
	t        *Trace
	births   bool // the records say when they were published
	agencies []schedule.Agency
	known    [][]int32 // by agency and slot
	names    []schedule.Insertion
	created  []time.Time
	whys     [schedule.Retry + 1]int
}

func newReal(t *Trace, o schedule.Options, births bool) *real {
	r := &real{s: schedule.New(o), t: t, births: births, names: make([]schedule.Insertion, len(t.Insertions))}
	for range t.Agencies {
		r.agencies = append(r.agencies, r.s.Enter(nil))
		r.known = append(r.known, nil)
	}
	return r
}

// add tells when an insertion was published if the records say it, or the list did not show it before.
func (r *real) add(i int32, at time.Duration) {
	var m schedule.Memory
	if at > 0 {
		m.Born = epoch.Add(at)
	}
	if r.births {
		m.Born = epoch.Add(r.t.Insertions[i].Born)
	}
	k := r.owner(i)
	name := r.s.Add(r.agencies[k], m, epoch.Add(at))
	for int(name.Slot) >= len(r.known[k]) {
		r.known[k] = append(r.known[k], -1)
	}
	r.names[i], r.known[k][name.Slot] = name, i
}

func (r *real) owner(i int32) int { return r.t.Agency(int(r.t.Insertions[i].slot)) }

func (r *real) urge(i int32) { r.s.Urge(r.names[i], schedule.Urgent) }

func (r *real) remove(i int32) {
	r.s.Remove(r.names[i])
	r.known[r.owner(i)][r.names[i].Slot] = -1
}

func (r *real) next(at time.Duration) (turn, time.Duration) {
	n, pause := r.s.Next(epoch.Add(at))
	r.whys[n.Why]++
	k := 0
	for k < len(r.agencies)-1 && r.agencies[k] != n.Insertion.Agency {
		k++
	}
	switch n.Why {
	case schedule.None:
		return turn{}, pause
	case schedule.Walk:
		return turn{walk, int32(k)}, 0
	case schedule.Urgent, schedule.Hint:
		return turn{urgent, r.known[k][n.Insertion.Slot]}, 0
	}
	return turn{poll, r.known[k][n.Insertion.Slot]}, 0
}

func (r *real) polled(i int32, at time.Duration, created []time.Duration) {
	r.created = r.created[:0]
	for _, c := range created {
		r.created = append(r.created, epoch.Add(c))
	}
	r.s.Polled(r.names[i], epoch.Add(at), r.created)
}

func (r *real) read(agency, page, of int, at time.Duration) {
	r.s.Read(r.agencies[agency], page, of, epoch.Add(at))
}

func (r *real) seen(i int32, changed uint32, at time.Duration) {
	r.s.Seen(r.names[i], changed, epoch.Add(at))
}
