package poller

import (
	"time"

	"doorbell/poller/schedule"
	"doorbell/poller/watch"
)

// Freshness is how long the insertions of an agency wait for a poll, and what is asked why.
type Freshness struct {
	Insertions    int               `json:"insertions"`    // that are polled
	NeverPolled   int               `json:"neverPolled"`   // of those
	OldestSeconds float64           `json:"oldestSeconds"` // since the last poll of the one that waits the longest
	CapSeconds    float64           `json:"capSeconds"`    // none should wait longer
	PastCap       int               `json:"pastCap"`       // so many do
	Turns         map[string]uint64 `json:"turns"`         // since the start of the process, by reason; a walk's are pages
	Latency       Latency           `json:"latency"`       // of contact requests that came in
	Hints         Hints             `json:"hints"`
}

// Hints is how well changes of the records of a list betray contact requests, as measured.
type Hints struct {
	Acting   bool     `json:"acting"`            // insertions whose record hints are polled soon
	Recall   float64  `json:"recall"`            // share of the contact requests that the members betray
	Rate     float64  `json:"rate"`              // share of the readings of a record at which one of them changed without any
	Measured int      `json:"measured"`          // contact requests that this is measured with
	Members  []string `json:"members,omitempty"` // of records, that betray the most, as JSON pointers
}

// hints are those of an agency.
func (t *scheduler) hints(agencyID string) (h Hints) {
	t.look(agencyID, func(s *schedule.Schedule, p *scheduled) {
		f := s.Hints(p.handle)
		h = Hints{Acting: f.Acting, Recall: rounded(f.Recall), Rate: rounded(f.Rate), Measured: f.Trials}
		for n, name := range p.members.names {
			if f.Bits&(1<<n) != 0 {
				h.Members = append(h.Members, pointer("/"+watch.EscapePointer.Replace(name)))
			}
		}
		if f.Bits&otherMembers != 0 {
			h.Members = append(h.Members, "others")
		}
	})
	return h
}

// wait is how an insertion waits: since its last good answer, or since it came into the schedule.
type wait struct {
	reference string
	since     time.Time
	never     bool // was it polled
}

// waits are those of all insertions of an agency.
func (t *scheduler) waits(agencyID string) (all []wait) {
	t.look(agencyID, func(s *schedule.Schedule, p *scheduled) {
		all = make([]wait, 0, len(p.slots))
		for slot, reference := range p.references {
			switch {
			case reference == "":
			case p.came[slot] != 0:
				all = append(all, wait{reference, time.Unix(int64(p.came[slot]), 0), true})
			default:
				all = append(all, wait{reference, s.Memory(p.slots[reference]).LastPoll, false})
			}
		}
	})
	return all
}

// cap is how long an insertion may wait at the most: what is configured, else four times what taking turns needs with the
// whole budget. An alarm for less than three intervals would say nothing.
func (t *scheduler) cap() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.options.Staleness > 0 {
		return t.options.Staleness
	}
	insertions := 0
	for _, p := range t.byID {
		insertions += t.schedule.Len(p.handle)
	}
	turns := time.Duration(float64(insertions) / t.options.Budget * float64(time.Second))
	return max(4*turns, 3*t.options.Interval)
}

// standing counts how the insertions of an agency wait at a moment.
type standing struct {
	cap                     time.Duration
	insertions, never, past int
	oldest                  time.Time // since when the one waits that waits the longest
	answerable, late        int       // of those that do not fail by themselves: how many, and how many are past the cap for sure
}

// grace is how much longer than the cap an insertion must wait to be late: an answer takes its time.
func grace(most time.Duration) time.Duration { return max(most/10, 10*time.Second) }

func (a *agency) standing(now time.Time) standing {
	s := standing{cap: a.p.scheduler.cap()}
	for _, w := range a.p.scheduler.waits(a.id) {
		if s.add(w, now) && a.aside(w.reference) {
			s.answerable--
			s.late--
		}
	}
	return s
}

// add counts an insertion, and says whether it is late.
func (s *standing) add(w wait, now time.Time) (late bool) {
	age := now.Sub(w.since)
	s.insertions++
	s.answerable++
	if w.never {
		s.never++
	}
	if age > s.cap {
		s.past++
	}
	if s.oldest.IsZero() || w.since.Before(s.oldest) {
		s.oldest = w.since
	}
	if late = age > s.cap+grace(s.cap); late {
		s.late++
	}
	return late
}

// behind says whether at least a tenth of the insertions that could be answered is late.
func (s standing) behind() bool { return s.late > 0 && 10*s.late >= s.answerable }

// aside says whether an insertion is not polled in turn for a reason of its own, which is told otherwise: a halt, a refusal
// that the list is to explain, a failure that becomes a gap.
func (a *agency) aside(reference string) bool {
	if _, halted := a.access().Insertion(reference); halted {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.looks[reference]
	if l == nil {
		return false
	}
	return l.refusal != nil || l.retry.state().Failures > 0
}

// freshness is that of an agency; its latencies are added to those of all.
func (a *agency) freshness(now time.Time, all *histogram) *Freshness {
	s := a.standing(now)
	f := &Freshness{
		Insertions: s.insertions, NeverPolled: s.never, CapSeconds: rounded(s.cap.Seconds()), PastCap: s.past,
		Turns: a.p.scheduler.turns(a.id), Hints: a.p.scheduler.hints(a.id),
	}
	if !s.oldest.IsZero() {
		f.OldestSeconds = rounded(max(0, now.Sub(s.oldest)).Seconds())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f.Latency = a.latencies.latency(now)
	a.latencies.addTo(all, now)
	return f
}
