package poller

import (
	"math"
	"time"
)

// judgeStaleness says in the log when the cap cannot be held for the insertions that are there, and again when it can.
// The schedule then does what is possible: all take turns.
func (p *Poller) judgeStaleness() {
	if p.o.MaxStaleness == 0 {
		return
	}
	insertions := 0
	for _, a := range p.watched() {
		insertions += p.turns.count(a.id)
	}
	needed := float64(insertions) / p.o.MaxStaleness.Seconds()
	over := needed > p.o.RequestsPerSecond
	if p.overdue.Swap(over) == over {
		return
	}
	if !over {
		p.log.Info("the staleness that is allowed can be held again", "insertions", insertions, "allowed", p.o.MaxStaleness)
		return
	}
	p.log.Warn("more insertions than can be polled within the staleness that is allowed", "insertions", insertions,
		"allowed", p.o.MaxStaleness, "reached", seconds(float64(insertions)/p.o.RequestsPerSecond),
		"requests_per_second", p.o.RequestsPerSecond, "needed", math.Ceil(needed*100)/100)
}

func seconds(s float64) time.Duration { return time.Duration(s) * time.Second }
