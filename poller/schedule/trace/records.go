package trace

import (
	"math/rand/v2"
	"time"
)

// Records says what the records of the list tell from one reading to the next.
type Records struct {
	Recall    float64 // part of the contact requests that change a record, as a counter would
	Edits     float64 // changes a day that have nothing to do with contact requests
	Always    bool    // something in a record changes on every reading
	OneMember bool    // all of this happens to one member, instead of to one each
}

// The members.
const (
	counter = 1 << iota
	edited
	stamp
)

// records are those of all slots.
type records struct {
	Records
	t    *Trace
	lead []int32         // by slot: the first contact request that is younger than the last reading
	due  []time.Duration // and when it comes, for ever if none does
	edit []time.Duration // the next edit
	r    *rand.Rand
}

const never = 1 << 62

func newRecords(t *Trace, o Records) *records {
	n := t.Market.Insertions
	return &records{
		Records: o, t: t, lead: make([]int32, n), due: make([]time.Duration, n), edit: make([]time.Duration, n),
		r: rand.New(rand.NewPCG(t.Seed, 1<<40)),
	}
}

// appear begins with the record of an insertion that the list did not show before.
func (r *records) appear(slot int, i int32, at time.Duration) {
	r.lead[slot], r.due[slot], r.edit[slot] = r.t.Insertions[i].first, never, never
	if r.Recall > 0 {
		r.due[slot] = -never
		r.betrayed(slot, i, at)
	}
	if r.Edits > 0 {
		r.edit[slot] = at + r.pause()
	}
}

// changed says which members have changed since the last reading.
func (r *records) changed(slot int, i int32, at time.Duration) (members uint32) {
	if r.due[slot] <= at && r.betrayed(slot, i, at) {
		members |= counter
	}
	if r.edit[slot] <= at {
		members |= edited
		r.edit[slot] = at + r.pause()
	}
	if r.Always {
		members |= stamp
	}
	if r.OneMember && members != 0 {
		return counter
	}
	return members
}

// betrayed steps over the contact requests up to a moment, and says whether one of them shows.
func (r *records) betrayed(slot int, i int32, at time.Duration) (shows bool) {
	k, last := r.lead[slot], r.t.Insertions[i].last
	for k < last && r.t.Leads[k] <= at {
		shows = shows || r.Recall >= 1 || r.r.Float64() < r.Recall
		k++
	}
	r.lead[slot], r.due[slot] = k, never
	if k < last {
		r.due[slot] = r.t.Leads[k]
	}
	return shows
}

func (r *records) pause() time.Duration { return days(r.r.ExpFloat64() / r.Edits) }
