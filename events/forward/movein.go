package forward

import (
	"maps"
	"slices"
	"strings"
	"time"

	"doorbell/events"
)

// coverage is which agencies a lane takes.
type coverage []Filter

// anyOther stands for every agency that nobody names. No agency is called so.
const anyOther = "\x00"

func (c coverage) has(agency string) bool {
	return slices.ContainsFunc(c, func(f Filter) bool { return f.covers(agency) })
}

func (c coverage) hasType(t events.Type) bool {
	return slices.ContainsFunc(c, func(f Filter) bool { return f.wantsType(t) })
}

// names are the agencies that the filters name.
func (c coverage) names() (names []string) {
	for _, f := range c {
		names = append(append(names, f.Agencies...), f.Except...)
	}
	return names
}

// moveIn brings the memory into line with today's routes. What an agency has done, and what waits for it, moves with it from a lane
// that it has left to the one that it has come to. A lane that is no more is forgotten.
func (f *Forwarder) moveIn() {
	f.state.change(func(m *memory) {
		h := handover{old: m.Lanes, now: map[string]coverage{}, begun: time.Now().UTC()}
		for _, l := range f.lanes {
			h.now[l.key] = l.filters
		}
		m.Lanes = map[string]*laneState{}
		for _, l := range f.lanes {
			m.Lanes[l.key] = h.settle(l)
		}
		m.Leftover = f.leftover(m.Leftover, h.old)
	})
	if err := f.state.save(); err != nil {
		f.o.Log.Error("the forwarder cannot write its state", "forwarder", f.o.Name, "err", err.Error())
	}
}

// leftover are consumers of lanes that are no more, or that have another name now.
func (f *Forwarder) leftover(known []string, old map[string]*laneState) []string {
	for _, s := range old {
		if s.Consumer != "" {
			known = append(known, s.Consumer)
		}
	}
	slices.Sort(known)
	return slices.DeleteFunc(slices.Compact(known), func(c string) bool {
		return slices.ContainsFunc(f.lanes, func(l *lane) bool { return l.consumer == c })
	})
}

// handover is the change from the routes of the last run to those of this one.
type handover struct {
	old   map[string]*laneState
	now   map[string]coverage
	begun time.Time
}

// settle is the memory with which a lane begins.
func (h handover) settle(l *lane) *laneState {
	before, known := h.old[l.key]
	s := &laneState{Agencies: map[string]*mark{}, Filters: l.filters}
	var was coverage
	if known {
		*s = *before
		s.Agencies = before.copyAgencies() // others look at what there was
		was, s.Filters = before.Filters, l.filters
	}
	gained, donors := h.gained(l, was)
	switch {
	case len(donors) > 0:
		h.takeOver(s, was, gained, donors)
	case !s.Since.IsZero():
		h.widen(s, was, gained, s.Since, h.begun)
	}
	h.addTypes(l, s, was, donors)
	for a := range s.Agencies {
		if !h.now[l.key].has(a) {
			delete(s.Agencies, a)
		}
	}
	return s
}

// addTypes lets types in that were not taken before: they begin now. The server would deliver all that came since it delivered last.
func (h handover) addTypes(l *lane, s *laneState, was coverage, donors []*laneState) {
	before := s.Types
	s.Types = map[events.Type]time.Time{}
	for _, d := range donors {
		was = append(slices.Clone(was), d.Filters...)
		maps.Copy(s.Types, d.Types)
	}
	maps.Copy(s.Types, before)
	for _, t := range events.Types {
		_, known := s.Types[t]
		switch {
		case !coverage(l.filters).hasType(t):
			delete(s.Types, t)
		case !known && !s.Since.IsZero() && !was.hasType(t):
			s.Types[t] = h.begun
		}
	}
}

// gained are the agencies that the lane has now and had not before, each with the lanes that it has left.
func (h handover) gained(l *lane, was coverage) (gained map[string][]*laneState, donors []*laneState) {
	gained = map[string][]*laneState{}
	for _, agency := range h.names() {
		if !h.now[l.key].has(agency) || was.has(agency) {
			continue
		}
		gained[agency] = nil
		for key, d := range h.old {
			left := coverage(d.Filters).has(agency) && !h.now[key].has(agency)
			if key != l.key && strings.HasSuffix(key, laneKey("", l.kind)) && !d.Since.IsZero() && left {
				gained[agency] = append(gained[agency], d)
				donors = append(donors, d)
			}
		}
	}
	return gained, donors
}

// names are all agencies that anything is known of, and the one that stands for the others.
func (h handover) names() []string {
	names := []string{anyOther}
	for _, c := range h.now {
		names = append(names, c.names()...)
	}
	for _, d := range h.old {
		names = append(names, coverage(d.Filters).names()...)
		for a := range d.Agencies {
			names = append(names, a)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// takeOver gives a lane what others leave behind. Its consumer has to begin where the last of them stands.
func (h handover) takeOver(s *laneState, was coverage, gained map[string][]*laneState, donors []*laneState) {
	first := s.Since.IsZero()
	s.Consumer = ""  // what is there stands behind what others leave
	since := h.begun // of agencies that come from nowhere
	for _, d := range gained[anyOther] {
		since = earlier(since, d.Since)
	}
	if !first {
		for _, d := range donors {
			s.Position = s.Position.earlier(d.Position)
		}
		h.widen(s, was, gained, s.Since, since)
	} else {
		s.Since, s.Position = since, donors[0].Position
		for _, d := range donors[1:] {
			s.Position = s.Position.earlier(d.Position)
		}
	}
	for agency, from := range gained {
		if agency == anyOther {
			continue
		}
		m := s.mark(agency)
		m.Since = h.begun
		for _, d := range from {
			m.Since = earlier(m.Since, d.since(agency))
			if theirs := d.Agencies[agency]; theirs != nil {
				m.join(theirs)
			}
		}
	}
	s.Early = true
}

// widen lets agencies in that were not there before: they begin at the time since, the others where they began.
func (h handover) widen(s *laneState, was coverage, gained map[string][]*laneState, began, since time.Time) {
	if _, all := gained[anyOther]; all {
		for _, agency := range was.names() {
			if was.has(agency) && s.mark(agency).Since.IsZero() {
				s.mark(agency).Since = began
			}
		}
		s.Since, s.Early = since, true
		return
	}
	for agency := range gained {
		s.mark(agency).Since = h.begun
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// earlier is the place from which on neither misses anything.
func (p *position) earlier(other *position) *position {
	if p == nil || other == nil || p.Sequence < other.Sequence {
		return p.or(other)
	}
	return other
}

// or is nil if one of both is.
func (p *position) or(other *position) *position {
	if other == nil {
		return nil
	}
	return p
}

// mark is what was done of an agency.
func (s *laneState) mark(agency string) *mark {
	m := s.Agencies[agency]
	if m == nil {
		m = &mark{}
		s.Agencies[agency] = m
	}
	return m
}

// copyAgencies returns marks that can be changed without changing these.
func (s *laneState) copyAgencies() map[string]*mark {
	marks := map[string]*mark{}
	for agency, m := range s.Agencies {
		marks[agency] = &mark{Since: m.Since, Below: slices.Clone(m.Below), Named: slices.Clone(m.Named)}
	}
	return marks
}

// old says whether an event is from before the lane's business began. By its time it is told only where it has to be, as clocks differ:
// also of what the stream had lost, since a lane that began at an empty stream gets all that a restored store sends again.
func (s *laneState) old(e events.Event, resent bool) bool {
	if e.RecordedTime.Before(s.Types[e.Type]) {
		return true
	}
	m := s.Agencies[e.AgencyID]
	return (s.Early || resent || m != nil && !m.Since.IsZero()) && e.RecordedTime.Before(s.since(e.AgencyID))
}

// since is from when on an agency's events are the lane's business.
func (s *laneState) since(agency string) time.Time {
	if m := s.Agencies[agency]; m != nil && !m.Since.IsZero() {
		return m.Since
	}
	return s.Since
}
