package forward

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
)

// named is how many events of an agency a lane remembers one by one. The others are remembered by the highest of them.
const named = 32

// mark is what a lane has done of one agency's events. The newest are known by name, which is exact whatever happened to the
// stream: sequences that are used again by a restored store, events that the relay sends again late, halts that were sent before
// their turn. Those that were done before them are known by number and time. An event is one of them only if both are no higher:
// a store that is begun anew has low numbers, but later times.
type mark struct {
	// Since is when this agency came to the lane, where that is not when the lane began.
	Since time.Time `json:"since,omitzero"`
	// Below is the highest of those that are no longer named.
	Below *bound `json:"below,omitempty"`
	// Named are sequence, recorded time in milliseconds, and half of the id; in the order in which they were done.
	Named []string `json:"named,omitempty"`
}

type bound struct {
	Sequence     uint64    `json:"sequence"`
	RecordedTime time.Time `json:"recordedTime"`
}

// nameOf is an event in a list of what is done.
func nameOf(e events.Event) string {
	return fmt.Sprintf("%d %d %.13s", e.Sequence, e.RecordedTime.UnixMilli(), e.ID)
}

// has says whether an event is done.
func (m *mark) has(e events.Event) bool {
	if m == nil {
		return false
	}
	return slices.Contains(m.Named, nameOf(e)) ||
		m.Below != nil && e.Sequence <= m.Below.Sequence && !e.RecordedTime.After(m.Below.RecordedTime)
}

// add remembers an event.
func (m *mark) add(e events.Event) {
	if m.has(e) {
		return
	}
	m.Named = append(m.Named, nameOf(e))
	m.trim()
}

// trim forgets the names of the oldest.
func (m *mark) trim() {
	for len(m.Named) > named {
		b := boundOf(m.Named[0])
		m.Named = slices.Delete(m.Named, 0, 1)
		m.raise(b)
	}
}

func (m *mark) raise(b bound) {
	if m.Below == nil {
		m.Below = &bound{}
	}
	m.Below.Sequence = max(m.Below.Sequence, b.Sequence)
	if b.RecordedTime.After(m.Below.RecordedTime) {
		m.Below.RecordedTime = b.RecordedTime
	}
}

func boundOf(name string) (b bound) {
	sequence, rest, _ := strings.Cut(name, " ")
	millis, _, _ := strings.Cut(rest, " ")
	b.Sequence, _ = strconv.ParseUint(sequence, 10, 64)
	ms, _ := strconv.ParseInt(millis, 10, 64)
	b.RecordedTime = time.UnixMilli(ms).UTC()
	return b
}

// join takes over what another lane has done of the agency.
func (m *mark) join(other *mark) {
	if other.Below != nil {
		m.raise(*other.Below)
	}
	for _, name := range other.Named {
		if !slices.Contains(m.Named, name) {
			m.Named = append(m.Named, name)
		}
	}
	m.trim()
}
