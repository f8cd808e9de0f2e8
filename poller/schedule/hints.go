package schedule

import "time"

// hints are what the records of an agency's insertions betray.
type hints struct {
	sights    float64
	j, misses float64
}

// informative is J: 0 while hints are not acted on.
func (g *agency) informative() float64 { return 0 }

// Seen says that a walk read the record of an insertion, and which of its members had changed since the walk before: a bit
// for each.
func (s *Schedule) Seen(name Insertion, changed uint32, at time.Time) {}
