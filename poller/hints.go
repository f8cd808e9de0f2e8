package poller

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
)

// reading is what a walk read of an insertion: which members of its record are other than at the last reading. They may
// betray that a contact request has come, and whether they do is for the schedule to learn.
type reading struct {
	reference string
	members   []string
	marks     []uint32 // of the members that no digest holds
	first     bool     // marks of before do not count
}

// tellSeen tells the schedule what a walk has read of some insertions, once it is committed.
func (a *agency) tellSeen(sights []watch.Listed, d watch.PageDiff) {
	if len(sights) == 0 {
		return
	}
	list := make([]reading, len(sights))
	for n, s := range sights {
		list[n] = reading{s.Reference, changedMembers(d.Insertions[n].Event), s.Marks, d.Insertions[n].Published}
	}
	a.p.scheduler.seen(a.id, list, sights[0].At)
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
// requests. They are kept by the slots of the schedule, in memory only.
type marks struct {
	names []string // top-level members that are ignored, or of which a part is
	last  []uint32 // by slot, one for each name
}

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

// members gives the top-level members of an agency's records a bit each, in the order in which they were first seen to
// change. All others share the last one. The zero value knows none.
type members struct{ names []string }

const (
	ownBits      = 31      // members that have one of their own
	otherMembers = 1 << 31 // all others
	longestName  = 255     // of a member that gets one
)

// of is the bit of a member, which it gets now if it has none.
func (m *members) of(name string) uint32 {
	n := slices.Index(m.names, name)
	if n < 0 {
		if n = len(m.names); n == ownBits || len(name) > longestName {
			return otherMembers
		}
		m.names = append(m.names, name)
	}
	return 1 << n
}

// learnedForm holds what was learned of bits, and whose they are: apart from each other neither means anything.
type learnedForm struct {
	Members []string        `json:"members"`
	Learned json.RawMessage `json:"learned"`
}

func (m *members) encode(learned []byte) []byte {
	b, err := json.Marshal(learnedForm{m.names, learned})
	if err != nil {
		return nil // cannot be
	}
	return b
}

// restore takes the names from what encode returned, and returns what was learned of their bits. Of anything else it takes
// nothing.
func (m *members) restore(all []byte) (learned []byte) {
	var l learnedForm
	if json.Unmarshal(all, &l) != nil || len(l.Members) > ownBits {
		return nil
	}
	m.names = l.Members
	return l.Learned
}

// seen says what a walk has read of insertions.
func (t *scheduler) seen(agencyID string, list []reading, at time.Time) {
	t.change(agencyID, func(s *schedule.Schedule, p *scheduled) {
		for _, r := range list {
			i, ok := p.slots[r.reference]
			if !ok {
				continue
			}
			var changed uint32
			members := append(r.members, p.marks.read(int(i.Slot), r.marks, r.first)...)
			for _, name := range members {
				changed |= p.members.of(name)
			}
			s.Seen(i, changed, at)
			t.observe(observation{agency: agencyID, reference: r.reference, seen: true, changed: members})
		}
	})
}

// walked says that a walk has read a page, of as many as the last complete one had; 0 where that is not known.
func (t *scheduler) walked(agencyID string, page, of int, at time.Time) {
	t.change(agencyID, func(s *schedule.Schedule, p *scheduled) {
		s.Read(p.handle, page, of, at)
		t.observe(observation{agency: agencyID, page: page, of: of})
	})
}
