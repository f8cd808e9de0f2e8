package poller

import (
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
)

// recordRead is what a walk read of an insertion: which members of its record are other than at the last reading. They may
// betray that a contact request has come, and whether they do is for the schedule to learn.
type recordRead struct {
	reference string
	members   []string
}

// tellSeen tells the schedule what a walk has read of some insertions, once it is committed.
func (a *agency) tellSeen(sights []watch.Listed, d watch.PageDiff) {
	if len(sights) == 0 {
		return
	}
	list := make([]recordRead, len(sights))
	for n, s := range sights {
		list[n] = recordRead{s.Reference, changedMembers(d.Insertions[n].Event)}
	}
	a.tellMarks(list, func(n int) ([]uint32, bool) { return sights[n].Marks, d.Insertions[n].Published })
	a.p.turns.seen(a.id, list, sights[0].At)
}

// tellMarks adds the members that have changed by their marks. first says of one that what was read before does not count.
func (a *agency) tellMarks(list []recordRead, marks func(n int) (now []uint32, first bool)) {
	if len(a.marks.names) == 0 || len(list) == 0 {
		return
	}
	slots := a.p.turns.places(a.id, list)
	for n, slot := range slots {
		if slot >= 0 {
			now, first := marks(n)
			list[n].members = append(list[n].members, a.marks.read(slot, now, first)...)
		}
	}
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
// requests. They are kept by the slots of the schedule, in memory only, and are those of the goroutine that walks.
type marks struct {
	names []string // top-level members that are ignored, or of which a part is
	last  []uint32 // by slot, one for each name
}

func newMarks(ignored []string) marks { return marks{names: listings.Watched(ignored)} }

// read returns which of the members are other than at the last reading; none at the first one of a slot.
func (m *marks) read(slot int, now []uint32, first bool) (changed []string) {
	if len(now) != len(m.names) {
		return nil // nobody had to look
	}
	if missing := (slot+1)*len(m.names) - len(m.last); missing > 0 {
		m.last = append(m.last, make([]uint32, missing)...)
	}
	last := m.last[slot*len(m.names):][:len(now)]
	for n, mark := range now {
		if mark != last[n] && last[n] != listings.MarkUnknown && !first {
			changed = append(changed, m.names[n])
		}
	}
	copy(last, now)
	return changed
}

// places are the slots of insertions, -1 for those that are not in the schedule.
func (t *turns) places(agencyID string, list []recordRead) []int {
	slots := slices.Repeat([]int{-1}, len(list))
	t.look(agencyID, func(_ *schedule.Schedule, p *party) {
		for n, h := range list {
			if i, ok := p.slots[h.reference]; ok {
				slots[n] = int(i.Slot)
			}
		}
	})
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
