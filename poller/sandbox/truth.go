package sandbox

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Truth is everything that was ever true, for whoever judges a client.
type Truth struct {
	At              time.Time             `json:"at"` // when it was asked
	Agencies        []string              `json:"agencies"`
	Keys            []KeyTruth            `json:"keys"`
	Insertions      []InsertionTruth      `json:"insertions"`      // by agency, in order of first publication
	ContactRequests []ContactRequestTruth `json:"contactRequests"` // by insertion, oldest first
}

// KeyTruth says what a key may see. The key itself is never told.
type KeyTruth struct {
	Label    string   `json:"label"`
	Active   bool     `json:"active"`
	Agencies []string `json:"agencies"`
}

// InsertionTruth is the past of one reference of one agency.
type InsertionTruth struct {
	AgencyID  string             `json:"agencyId"`
	Reference string             `json:"propertyReferenceId"`
	Visible   []Interval         `json:"visible"`
	Versions  []InsertionVersion `json:"versions"` // oldest first
	Served    Served             `json:"served"`   // in lists, all versions together
}

// InsertionVersion is a record, valid from a moment to the next version.
type InsertionVersion struct {
	From   time.Time `json:"from"`
	Record Insertion `json:"record"`
	Served Served    `json:"served"`
}

// ContactRequestTruth is the past of one contact request.
type ContactRequestTruth struct {
	AgencyID    string                  `json:"agencyId"`
	Reference   string                  `json:"propertyReferenceId"`
	ID          string                  `json:"id"`
	CreatedAt   time.Time               `json:"createdAt"`
	VisibleFrom time.Time               `json:"visibleFrom"`
	RedactedAt  time.Time               `json:"redactedAt,omitzero"`
	Versions    []ContactRequestVersion `json:"versions"` // oldest first
	Served      Served                  `json:"served"`   // all versions together
}

// ContactRequestVersion is a record, valid from a moment to the next version.
type ContactRequestVersion struct {
	From   time.Time      `json:"from"`
	Record ContactRequest `json:"record"`
	Served Served         `json:"served"`
}

// Interval is a span of time, From included, Until not. A zero Until means that
// it has not ended.
type Interval struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
}

// Contains says whether t lies in the interval.
func (i Interval) Contains(t time.Time) bool {
	return !t.Before(i.From) && (i.Until.IsZero() || t.Before(i.Until))
}

// VisibleAt says whether the insertion was on the list at t.
func (i InsertionTruth) VisibleAt(t time.Time) bool {
	return slices.ContainsFunc(i.Visible, func(v Interval) bool { return v.Contains(t) })
}

// Served counts good answers that held a record: status 200, or a 304 that stands
// for one, written to the last byte.
type Served struct {
	Count int       `json:"count"`
	First time.Time `json:"first,omitzero"` // zero: never
	Keys  []string  `json:"keys,omitempty"` // labels of the keys it was served to
}

func (s *Served) add(label string, at time.Time) {
	if s.Count == 0 {
		s.First = at
	}
	s.Count++
	if !slices.Contains(s.Keys, label) {
		s.Keys = append(s.Keys, label)
	}
}

// takeBack undoes add for an answer whose last byte could not be written.
func (s *Served) takeBack() {
	s.Count--
	if s.Count == 0 {
		*s = Served{}
	}
}

func (s Served) plus(other Served) Served {
	if s.Count == 0 || other.Count > 0 && other.First.Before(s.First) {
		s.First = other.First
	}
	s.Count += other.Count
	keys := slices.Concat(s.Keys, other.Keys)
	slices.Sort(keys)
	s.Keys = slices.Compact(keys)
	return s
}

// Insertion looks up one reference of one agency.
func (t Truth) Insertion(agencyID, reference string) (InsertionTruth, bool) {
	for _, i := range t.Insertions {
		if i.AgencyID == agencyID && i.Reference == reference {
			return i, true
		}
	}
	return InsertionTruth{}, false
}

// ContactRequest looks up one contact request.
func (t Truth) ContactRequest(id string) (ContactRequestTruth, bool) {
	for _, c := range t.ContactRequests {
		if c.ID == id {
			return c, true
		}
	}
	return ContactRequestTruth{}, false
}

// Truth returns a copy of the whole past. Who has read an answer to its end
// finds it counted here.
func (m *Model) Truth() Truth {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := Truth{
		At:       m.options.Now(),
		Agencies: slices.Sorted(maps.Keys(m.agencies)),
		Keys:     m.keyTruths(),
	}
	for _, id := range t.Agencies {
		for _, i := range m.agencies[id].known {
			t.Insertions = append(t.Insertions, i.truth())
			for _, c := range i.contactRequests {
				t.ContactRequests = append(t.ContactRequests, c.truth())
			}
		}
	}
	return t
}

func (m *Model) keyTruths() []KeyTruth {
	var truths []KeyTruth
	for _, k := range m.keys {
		truths = append(truths, KeyTruth{Label: k.label, Active: k.active, Agencies: slices.Sorted(maps.Keys(k.agencies))})
	}
	slices.SortFunc(truths, func(x, y KeyTruth) int { // key-2 before key-10
		return cmp.Or(cmp.Compare(len(x.Label), len(y.Label)), cmp.Compare(x.Label, y.Label))
	})
	return truths
}

func (i *insertion) truth() InsertionTruth {
	t := InsertionTruth{AgencyID: i.agencyID, Reference: i.reference, Visible: slices.Clone(i.visible)}
	for _, v := range i.versions {
		t.Versions = append(t.Versions, InsertionVersion{v.from, v.record.clone(), v.served.plus(Served{})})
		t.Served = t.Served.plus(v.served)
	}
	return t
}

func (c *contactRequest) truth() ContactRequestTruth {
	t := ContactRequestTruth{
		AgencyID: c.owner.agencyID, Reference: c.owner.reference, ID: c.id,
		CreatedAt: c.current().record.CreatedAt, VisibleFrom: c.visibleFrom, RedactedAt: c.redactedAt,
	}
	for _, v := range c.versions {
		t.Versions = append(t.Versions, ContactRequestVersion{v.from, v.record.clone(), v.served.plus(Served{})})
		t.Served = t.Served.plus(v.served)
	}
	return t
}
