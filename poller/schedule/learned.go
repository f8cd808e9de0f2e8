package schedule

import (
	"bytes"
	"encoding/binary"
	"math"
)

// learnedVersion changes with what follows, and with what the numbers mean.
const learnedVersion = 2

// learned is what is kept of an agency, in this order, little-endian.
type learned struct {
	Version        uint8
	Leads, Days    [ageBuckets]float64
	Apart          float64
	Excess, Square float64
	Appeared       float64 // ν, a day
	Sights, Cycle  float64
	Changes        [32]float64
	Trials         [trials]uint32
	Count          uint32
}

// Learned is what a restart must know of an agency beside the memory of its insertions. It is about two kilobytes.
func (s *Schedule) Learned(a Agency) []byte {
	g := s.agencies[a]
	l := learned{
		Version: learnedVersion, Leads: g.curve.leads, Days: g.curve.days, Apart: g.curve.apart, Excess: g.curve.excess, Square: g.curve.square,
		Appeared: g.appearing(s.now) * day,
	}
	if h := g.hints; h != nil {
		l.Sights, l.Cycle, l.Changes, l.Trials, l.Count = h.sights, h.cycle, h.changes, h.trials, uint32(h.count)
	}
	b, err := binary.Append(nil, binary.LittleEndian, &l)
	if err != nil {
		return nil // cannot be: all of it has a fixed size
	}
	return b
}

// recall takes up what was learned before. What is damaged in any way is forgotten as a whole.
func (g *agency) recall(b []byte) {
	l := learned{}
	if len(b) != binary.Size(&l) || binary.Read(bytes.NewReader(b), binary.LittleEndian, &l) != nil || !l.sound() {
		return
	}
	g.curve.leads, g.curve.days, g.curve.apart, g.curve.excess, g.curve.square = l.Leads, l.Days, l.Apart, l.Excess, l.Square
	g.curve.fit()
	g.pages.before = l.Appeared / day
	if l.Sights > 0 {
		g.hints = &hints{sights: l.Sights, cycle: l.Cycle, changes: l.Changes, trials: l.Trials, count: int(l.Count)}
		g.hints.choose()
	}
}

func (l *learned) sound() bool {
	numbers := append([]float64{l.Apart, l.Square, l.Appeared, l.Sights, l.Cycle}, l.Leads[:]...)
	numbers = append(append(numbers, l.Days[:]...), l.Changes[:]...)
	for _, x := range numbers {
		if !(x >= 0 && x < 1e12) {
			return false
		}
	}
	return l.Version == learnedVersion && math.Abs(l.Excess) < 1e12
}
