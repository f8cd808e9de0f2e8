package sandbox

import (
	"cmp"
	"slices"
	"time"
)

// sight is what of the model an answer shows: all of it as it is now, unless a
// fault says otherwise.
type sight struct {
	at      time.Time
	past    bool     // at is not now
	without []string // references and ids
	newest  int      // so many of the newest are left out
	another bool     // what was not asked for
	damage  Damage
}

// listed are the insertions in order of publication. The lock is held.
func (s sight) listed(a *agency) []*insertion {
	listed := a.listed
	if s.past {
		listed = a.listedAt(s.at)
	}
	if len(s.without) == 0 {
		return listed
	}
	return slices.DeleteFunc(slices.Clone(listed), func(i *insertion) bool { return slices.Contains(s.without, i.reference) })
}

// listedAt are those that were visible at a moment, in order of publication.
func (a *agency) listedAt(t time.Time) []*insertion {
	type publication struct {
		of   *insertion
		from time.Time
	}
	var visible []publication
	for _, i := range a.known {
		for _, v := range i.visible {
			if v.Contains(t) {
				visible = append(visible, publication{i, v.From})
			}
		}
	}
	slices.SortStableFunc(visible, func(x, y publication) int { return x.from.Compare(y.from) })
	listed := make([]*insertion, len(visible))
	for n, v := range visible {
		listed[n] = v.of
	}
	return listed
}

// version is the record as it is, or was.
func (s sight) version(i *insertion) *insertionVersion {
	if !s.past {
		return i.current()
	}
	return lastUntil(i.versions, s.at, func(v *insertionVersion) time.Time { return v.from })
}

// versionOf is the same for contact requests.
func (s sight) versionOf(c *contactRequest) *contactRequestVersion {
	if !s.past {
		return c.current()
	}
	return lastUntil(c.versions, s.at, func(v *contactRequestVersion) time.Time { return v.from })
}

// lastUntil is the newest version that had begun, or the first.
func lastUntil[V any](versions []V, t time.Time, from func(V) time.Time) V {
	for _, v := range slices.Backward(versions) {
		if !from(v).After(t) {
			return v
		}
	}
	return versions[0]
}

// damageOf says what is wrong with the n-th record of an answer.
func (s sight) damageOf(n int) Damage {
	if n > 0 {
		return ""
	}
	return s.damage
}

// do adds a member that no parser takes without a word. Both of a name that
// stands twice say something else.
func (d Damage) do(o object) object {
	switch d {
	case BadUTF8:
		return append(slices.Clip(o), member{"note", rawText("\"caf\xe9\"")})
	case HalfSurrogate:
		return append(slices.Clip(o), member{"note", rawText(`"half \ud83d"`)})
	case NameTwice:
		return append(slices.Clip(o), member{"note", "first"}, member{"note", "second"})
	}
	return o
}

// mixedUp is the agency asked for or, if the sight shows another, the first other
// one by id. The lock is held.
func (m *Model) mixedUp(id string, s sight) *agency {
	if !s.another {
		return m.agencies[id]
	}
	var others []*agency
	for other, a := range m.agencies {
		if other != id {
			others = append(others, a)
		}
	}
	if len(others) == 0 {
		return m.agencies[id]
	}
	return slices.MinFunc(others, func(x, y *agency) int { return cmp.Compare(x.id, y.id) })
}

// neighbour is the insertion asked for or, if the sight shows another, the first
// other one of its agency that has a contact request. The lock is held.
func (m *Model) neighbour(i *insertion, s sight) *insertion {
	if !s.another {
		return i
	}
	for _, other := range m.agencies[i.agencyID].known {
		if other != i && len(other.contactRequests) > 0 {
			return other
		}
	}
	return i
}
