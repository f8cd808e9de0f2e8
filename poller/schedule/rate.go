package schedule

import (
	"math"
	"time"
)

// λ is that of a gamma distribution: the contact requests of the insertion itself by their creation
// times, older ones counted less, and in place of what is not known of it yet a few days at the
// mean of its agency. One whose first days we see gets more than the mean, because attention fades.
const (
	memory    = 20.0 // days after which a contact request counts 1/e
	prior     = 0.4  // contact requests that the mean is worth
	newcomer  = 4.0  // times the mean, on top of it, at first,
	novelty   = 1.5  // days in which that fades
	undated   = 7.0  // days ago, in which one has appeared of which that is not known
	firstLead = 1.0  // contact requests in
	firstDays = 8.0  // days: the mean of an agency before anything is known of it

	minRate, maxRate = 1e-5 / 86400, 1e6 / 86400 // believed, a second
)

// observed counts contact requests and the days in which they came, both faded.
type observed struct{ leads, days float64 }

func (o *observed) add(x observed, sign float64) {
	o.leads += sign * x.leads
	o.days += sign * x.days
}

// mean is the rate of an agency's insertions, a second.
func (g *agency) mean() float64 {
	return (firstLead + max(g.seen.leads, 0)) / (firstDays + max(g.seen.days, 0)) / 86400
}

// learn folds in a good poll.
func (s *Schedule) learn(i *item, at time.Duration, created []time.Time) {
	daysSince := func(t time.Duration) float64 { return max(0, (at-t).Hours()/24) }
	days := daysSince(i.last)
	if i.seen.days == 0 { // the first one by this process
		days = daysSince(i.appeared)
		for _, t := range created {
			if !t.IsZero() {
				days = max(days, daysSince(s.moment(t)))
			}
		}
	}
	fade := math.Exp(-days / memory)
	seen := observed{i.seen.leads * fade, i.seen.days*fade + memory*(1-fade)}
	for _, t := range created {
		ago := days / 2
		if !t.IsZero() {
			ago = daysSince(s.moment(t))
		}
		seen.leads += math.Exp(-ago / memory)
	}
	i.agency.seen.add(i.seen, -1)
	i.agency.seen.add(seen, 1)
	i.seen, i.last, i.never = seen, at, false
	mean := i.agency.mean() * 86400 * (1 + newcomer*math.Exp(-daysSince(i.appeared)/novelty))
	i.rate = min(max((prior+seen.leads)/(prior/mean+seen.days)/86400, minRate), maxRate)
}
