package poller

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
)

// recordRead is what a walk read of an insertion: which members of its record are other than at the last reading. They may
// betray that a contact request has come, and whether they do is for the schedule to learn.
type recordRead struct {
	reference string
	members   []string
}

// tellSeen tells the schedule what a walk has read of some insertions, once it is committed.
func (a *agency) tellSeen(sights []pageSight, d pageDiff) {
	if len(sights) == 0 {
		return
	}
	list := make([]recordRead, len(sights))
	for n, s := range sights {
		list[n] = recordRead{s.Reference, changedMembers(d.insertions[n].payload)}
	}
	if len(a.marks.names) > 0 {
		slots := a.p.turns.places(a.id, list)
		for n, s := range sights {
			if slots[n] >= 0 {
				list[n].members = append(list[n].members, a.marks.read(slots[n], s.Record, d.insertions[n].published)...)
			}
		}
	}
	a.p.turns.seen(a.id, list, sights[0].at)
}

// changedMembers are the top-level members that an event tells as changed.
func changedMembers(p events.Payload) (names []string) {
	changed, ok := p.(*events.InsertionChanged)
	if !ok {
		return nil
	}
	for _, c := range changed.Changes {
		if name := topMember(c.Path); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// topMember is the name of the top-level member that an RFC 6901 pointer leads through.
func topMember(pointer string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
}

// marks tell whether members that no digest holds have changed: what users ignore first is a counter of views, or of contact
// requests. They are kept by the slots of the schedule, in memory only, and are those of the goroutine that walks. A record
// that is the same byte for byte costs one hash.
type marks struct {
	names   []string // top-level members that are ignored, or of which a part is
	seed    maphash.Seed
	records []uint64 // by slot; 0: not read yet
	members []uint32 // by slot, one for each name
}

// mostMarks bounds what is kept of an insertion.
const mostMarks = 16

func newMarks(ignored []string) marks {
	m := marks{seed: maphash.MakeSeed()}
	for _, pointer := range ignored {
		if name := topMember(pointer); pointer != "" && !slices.Contains(m.names, name) && len(m.names) < mostMarks {
			m.names = append(m.names, name)
		}
	}
	return m
}

// read returns which of the members are other than at the last reading; none at the first one of a slot.
func (m *marks) read(slot int, record []byte, first bool) (changed []string) {
	for slot >= len(m.records) {
		m.records = append(m.records, 0)
		m.members = append(m.members, make([]uint32, len(m.names))...)
	}
	before := m.records[slot]
	if m.records[slot] = maphash.Bytes(m.seed, record) | 1; m.records[slot] == before {
		return nil
	}
	now, _ := members(record)
	for n, name := range m.names {
		at := slot*len(m.names) + n
		mark := markOf(now[name])
		if mark != m.members[at] && before != 0 && !first {
			changed = append(changed, name)
		}
		m.members[at] = mark
	}
	return changed
}

func markOf(value []byte) uint32 {
	if value == nil {
		return 0
	}
	digest, _ := listings.Digest(value, nil) // of a record that has one
	return binary.BigEndian.Uint32(digest[:])
}

// places are the slots of insertions, -1 for those that are not in the schedule.
func (t *turns) places(agencyID string, list []recordRead) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := make([]int, len(list))
	p := t.byID[agencyID]
	for n, h := range list {
		slots[n] = -1
		if p == nil {
			continue
		}
		if i, ok := p.slots[h.reference]; ok {
			slots[n] = int(i.Slot)
		}
	}
	return slots
}

// seen says what a walk has read of insertions.
func (t *turns) seen(agencyID string, list []recordRead, at time.Time) {
	t.change(agencyID, func(s *schedule.Schedule, p *party) {
		for _, h := range list {
			i, ok := p.slots[h.reference]
			if !ok {
				continue
			}
			var changed uint32
			for _, name := range h.members {
				changed |= p.members.of(name)
			}
			s.Seen(i, changed, at)
			t.tell(news{agency: agencyID, reference: h.reference, seen: true, changed: h.members})
		}
	})
}

// walked says that a walk has read a page, of as many as the last complete one had; 0 where that is not known.
func (t *turns) walked(agencyID string, page, of int, at time.Time) {
	t.change(agencyID, func(s *schedule.Schedule, p *party) {
		s.Read(p.handle, page, of, at)
		t.tell(news{agency: agencyID, page: page, of: of})
	})
}
