package sandbox

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Truth is everything that was ever true, for the judge of a client.
type Truth struct {
	At       time.Time `json:"at"` // when it was read
	Agencies []string  `json:"agencies"`
	// by agency, in order of the last publication
	Insertions      []InsertionTruth      `json:"insertions"`
	ContactRequests []ContactRequestTruth `json:"contactRequests"` // by insertion, oldest first
}

// InsertionTruth is the past of one reference of one agency.
type InsertionTruth struct {
	AgencyID  string               `json:"agencyId"`
	Reference string               `json:"propertyReferenceId"`
	Visible   []Interval           `json:"visible"`
	Versions  []Version[Insertion] `json:"versions"` // oldest first
	// good lists that held it: status 200, written to the last byte
	Served int `json:"served"`
}

// ContactRequestTruth is the past of one contact request.
type ContactRequestTruth struct {
	AgencyID    string                    `json:"agencyId"`
	Reference   string                    `json:"propertyReferenceId"`
	ID          string                    `json:"id"`
	CreatedAt   time.Time                 `json:"createdAt"`
	VisibleFrom time.Time                 `json:"visibleFrom"`
	Versions    []Version[ContactRequest] `json:"versions"` // oldest first
	Served      int                       `json:"served"`   // good answers that held it, as above
}

// Version is a record, valid from a moment to the next version.
type Version[T any] struct {
	From   time.Time `json:"from"`
	Record T         `json:"record"`

	// what responses show of it beside what the rendering decides, made once; never changed
	tree object
}

// recorded is an [Insertion] or a [ContactRequest].
type recorded[T any] interface {
	clone() T
	tree() (object, error)
}

// revise adds a version to those of a record.
func revise[T recorded[T]](versions *[]Version[T], record T, now time.Time) error {
	tree, err := record.tree()
	if err == nil {
		*versions = append(*versions, Version[T]{From: now, Record: record.clone(), tree: tree})
	}
	return err
}

// newest is the last of the versions.
func newest[T any](versions []Version[T]) Version[T] { return versions[len(versions)-1] }

// Interval is a span of time, From included, Until not. A zero Until means that it has not ended.
type Interval struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
}

// VisibleAt says whether the insertion was on the list at t.
func (i InsertionTruth) VisibleAt(t time.Time) bool {
	return slices.ContainsFunc(i.Visible, func(v Interval) bool { return !t.Before(v.From) && (v.Until.IsZero() || t.Before(v.Until)) })
}

// AbsentBetween reports whether it had come off the list by the second moment, and was not back by
// the first.
func (i InsertionTruth) AbsentBetween(from, to time.Time) bool {
	for n, v := range i.Visible {
		ended := !v.Until.IsZero() && !v.Until.After(to)
		if ended && (n+1 == len(i.Visible) || i.Visible[n+1].From.After(from)) {
			return true
		}
	}
	return false
}

// Insertion looks up one reference of one agency.
func (t Truth) Insertion(agencyID, reference string) (InsertionTruth, bool) {
	return find(t.Insertions, func(i InsertionTruth) bool { return i.AgencyID == agencyID && i.Reference == reference })
}

// ContactRequest looks up one contact request.
func (t Truth) ContactRequest(id string) (ContactRequestTruth, bool) {
	return find(t.ContactRequests, func(c ContactRequestTruth) bool { return c.ID == id })
}

// find returns the first that is wanted.
func find[T any](all []T, wanted func(T) bool) (found T, ok bool) {
	if n := slices.IndexFunc(all, wanted); n >= 0 {
		return all[n], true
	}
	return found, false
}

// Truth returns the whole past, whose records are shared with the model. Who has read a response to
// its end finds it counted here.
func (m *Model) Truth() Truth {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := Truth{
		At:       m.options.Now(),
		Agencies: slices.Sorted(maps.Keys(m.agencies)),
	}
	for _, id := range t.Agencies {
		for _, i := range m.agencies[id].insertions {
			one := i.InsertionTruth
			one.Visible, one.Versions = slices.Clone(i.Visible), slices.Clone(i.Versions)
			t.Insertions = append(t.Insertions, one)
			for _, c := range i.contactRequests {
				one := c.ContactRequestTruth
				one.Versions = slices.Clone(c.Versions)
				t.ContactRequests = append(t.ContactRequests, one)
			}
		}
	}
	return t
}

// The two operations of the API, as [Request], [Call] and [Filter] name them. A request for
// anything else has the operation "".
const (
	OperationInsertions      = "insertions"
	OperationContactRequests = "contact_requests"
)

// Request is one request that the API received and answered.
type Request struct {
	Call
	Status int      // that was sent; 0 if the client was gone, or cut off, before one was
	Broken bool     // not written to the last byte
	Served []string // references or ids in a good response
}

// Filter selects requests. Empty fields select all.
type Filter struct {
	AgencyID  string `json:"agencyId"`
	Operation string `json:"operation"`
	Reference string `json:"-"`
	Key       string `json:"key"`
	Status    int    `json:"status"`
}

// Count is a number of requests that have all this in common, but for the reference.
type Count struct {
	Filter
	Requests int `json:"requests"`
}

func (f Filter) selects(r Filter) bool {
	return (f.AgencyID == "" || f.AgencyID == r.AgencyID) &&
		(f.Operation == "" || f.Operation == r.Operation) &&
		(f.Reference == "" || f.Reference == r.Reference) &&
		(f.Key == "" || f.Key == r.Key) &&
		(f.Status == 0 || f.Status == r.Status)
}

// Requests says how many requests the filter selects, of all that were ever answered. A request
// counts when its response is complete or given up, so that who has read a response finds it
// counted. A reference that the model does not know is not counted by itself; see [Model.Log].
func (m *Model) Requests(f Filter) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for counter, requests := range m.counters {
		if f.selects(counter) {
			n += requests
		}
	}
	return n
}

// Counts returns all counters, those of the references of an agency united.
func (m *Model) Counts() []Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	united := map[Filter]int{}
	for counter, requests := range m.counters {
		counter.Reference = ""
		united[counter] += requests
	}
	counts := []Count{}
	for c, requests := range united {
		counts = append(counts, Count{c, requests})
	}
	slices.SortFunc(counts, func(x, y Count) int {
		return cmp.Or(cmp.Compare(x.AgencyID, y.AgencyID), cmp.Compare(x.Operation, y.Operation),
			cmp.Compare(x.Key, y.Key), cmp.Compare(x.Status, y.Status))
	})
	return counts
}

// KeepLog logs requests from now on, and forgets what was logged before.
func (m *Model) KeepLog() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.options.KeepLog, m.log = true, nil
}

// Log returns the logged requests that the filter selects, in the order of their responses.
func (m *Model) Log(f Filter) []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	var selected []Request
	for _, r := range m.log {
		if f.selects(Filter{r.AgencyID, r.Operation, r.Reference, r.Key, r.Status}) {
			selected = append(selected, *r)
		}
	}
	return selected
}

// settle counts a request and, if its response leaves whole, what it shows as served. What a
// stranger can invent (agencies, references, keys, paths) never becomes a counter.
func (m *Model) settle(x *exchange, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !whole {
		x.Broken = true
		x.showNothing()
	}
	counter := Filter{AgencyID: x.AgencyID, Operation: x.Operation, Key: x.Key, Status: x.Status}
	if x.target != nil {
		counter.Reference = x.Reference
	}
	m.counters[counter]++
	if m.options.KeepLog {
		m.log = append(m.log, &x.Request)
	}
	for _, served := range x.shown {
		*served++
	}
}

// takeBack says that the last byte did not leave after all.
func (m *Model) takeBack(x *exchange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, served := range x.shown {
		*served--
	}
	x.Broken = true
	x.showNothing()
}
