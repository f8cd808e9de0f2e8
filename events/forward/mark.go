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

// anew is how many beginnings are told apart.
const anew = 8

// mark is what a lane has done of one agency's events. The newest are known by name, which is exact whatever happened to the
// stream: sequences that are used again by a restored store, events that the relay sends again late. Those that were done before them are known by number and time: an event is one of them only if neither is higher than in
// one of the bounds. There is one bound for each time that the numbers began anew, as they do with a new store; a single one would
// swallow what is new, since all events of one commit have one time.
type mark struct {
	// Since is when this agency came to the lane, where that is not when the lane began.
	Since time.Time `json:"since,omitzero"`
	// Below are the highest of those that are no longer named, the latest last.
	Below []bound `json:"below,omitempty"`
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
	name := nameOf(e)
	return slices.Contains(m.Named, name) ||
		slices.ContainsFunc(m.Below, func(b bound) bool { return b.covers(bound{e.Sequence, e.RecordedTime}) })
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

// raise remembers one that is no longer named.
func (m *mark) raise(b bound) {
	if slices.ContainsFunc(m.Below, func(other bound) bool { return other.covers(b) }) {
		return
	}
	if n := len(m.Below); n > 0 && m.Below[n-1].Sequence < b.Sequence {
		last := &m.Below[n-1]
		last.Sequence, last.RecordedTime = b.Sequence, later(last.RecordedTime, b.RecordedTime)
		return
	}
	m.Below = append(m.Below, b)
	m.Below = m.Below[max(0, len(m.Below)-anew):] // better one doubled than one lost
}

func (b bound) covers(other bound) bool {
	return other.Sequence <= b.Sequence && !other.RecordedTime.After(b.RecordedTime)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
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
	for _, b := range other.Below {
		m.raise(b)
	}
	for _, name := range other.Named {
		if !slices.Contains(m.Named, name) {
			m.Named = append(m.Named, name)
		}
	}
	m.trim()
}
