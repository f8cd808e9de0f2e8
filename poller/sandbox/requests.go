package sandbox

import (
	"cmp"
	"slices"
	"time"
)

// The two operations of the API, as [Request], [Call] and [Filter] name them. A
// request for anything else has the operation "".
const (
	OperationInsertions      = "insertions"
	OperationContactRequests = "contact_requests"
)

// Why a request was refused with 403. The answer does not tell; [Request] does.
const (
	RefusalNoKey           = "no_key"
	RefusalScheme          = "wrong_scheme"
	RefusalMalformed       = "malformed"
	RefusalUnknownKey      = "unknown_key"
	RefusalDeactivatedKey  = "deactivated_key"
	RefusalUnknownAgency   = "unknown_agency"
	RefusalNotLinked       = "agency_not_linked"
	RefusalUnknownProperty = "unknown_property" // with Options.UnknownStatus 403
	RefusalWithdrawn       = "withdrawn"        // with Options.WithdrawnStatus 403
)

// Request is one request that the API received and answered.
type Request struct {
	At        time.Time `json:"at"` // arrival
	Operation string    `json:"operation"`
	// AgencyID is the one in the path or, for contact requests, the one that
	// owns the reference; empty if the model knows no such agency.
	AgencyID  string `json:"agencyId"`
	Reference string `json:"propertyReferenceId,omitempty"` // as decoded from the path, also when unknown
	Key       string `json:"key"`                           // label; empty without a known key
	RawPath   string `json:"rawPath"`                       // as received, still escaped
	RawQuery  string `json:"rawQuery"`
	// Status that was sent; 0 if the client was gone, or cut off, before one was.
	Status  int    `json:"status"`
	Refusal string `json:"refusal,omitempty"` // why a 403
	Faulted bool   `json:"faulted,omitempty"` // a fault had its hand in it
	Broken  bool   `json:"broken,omitempty"`  // not written to the last byte
	// Served are the references or the ids in a good answer, or in the one that a
	// 304 stands for.
	Served []string `json:"served,omitempty"`
}

// Filter selects requests. Empty fields select all.
type Filter struct {
	AgencyID  string
	Operation string
	Reference string
	Key       string
	Status    int
}

// Count is a number of requests that have all this in common.
type Count struct {
	AgencyID  string `json:"agencyId"`
	Operation string `json:"operation"`
	Key       string `json:"key"`
	Status    int    `json:"status"`
	Requests  int    `json:"requests"`
}

// ledger counts every request, by references too as far as the model knows
// them, and keeps the newest whole ones if told to. What a stranger can invent
// (agencies, references, keys, paths) never becomes a counter.
type ledger struct {
	counters map[Filter]int
	keep     int
	log      []*Request
}

func newLedger(keep int) ledger {
	return ledger{counters: map[Filter]int{}, keep: keep}
}

func (l *ledger) add(r *Request, known bool) {
	counter := Filter{AgencyID: r.AgencyID, Operation: r.Operation, Key: r.Key, Status: r.Status}
	if known {
		counter.Reference = r.Reference
	}
	l.counters[counter]++
	if l.keep == 0 {
		return
	}
	l.log = append(l.log, r)
	if l.keep > 0 && len(l.log) >= 2*l.keep {
		l.log = slices.Clone(l.newest())
	}
}

func (l *ledger) newest() []*Request {
	if l.keep < 0 || len(l.log) <= l.keep {
		return l.log
	}
	return l.log[len(l.log)-l.keep:]
}

func (f Filter) selects(r Filter) bool {
	return (f.AgencyID == "" || f.AgencyID == r.AgencyID) &&
		(f.Operation == "" || f.Operation == r.Operation) &&
		(f.Reference == "" || f.Reference == r.Reference) &&
		(f.Key == "" || f.Key == r.Key) &&
		(f.Status == 0 || f.Status == r.Status)
}

// Requests says how many requests the filter selects, of all that were ever
// answered. A request counts when its answer is complete or given up, so that
// who has read an answer finds it counted. A reference that the model does not
// know is not counted by itself; ask [Model.Log].
func (m *Model) Requests(f Filter) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for counter, requests := range m.ledger.counters {
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
	for counter, requests := range m.ledger.counters {
		counter.Reference = ""
		united[counter] += requests
	}
	counts := []Count{}
	for c, requests := range united {
		counts = append(counts, Count{c.AgencyID, c.Operation, c.Key, c.Status, requests})
	}
	slices.SortFunc(counts, func(x, y Count) int {
		return cmp.Or(cmp.Compare(x.AgencyID, y.AgencyID), cmp.Compare(x.Operation, y.Operation),
			cmp.Compare(x.Key, y.Key), cmp.Compare(x.Status, y.Status))
	})
	return counts
}

// KeepLog changes [Options].KeepLog and forgets what was logged before.
func (m *Model) KeepLog(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger.keep, m.ledger.log = n, nil
}

// Log returns the remembered requests that the filter selects, in the order of
// their answers.
func (m *Model) Log(f Filter) []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	var selected []Request
	for _, r := range m.ledger.newest() {
		if f.selects(Filter{r.AgencyID, r.Operation, r.Reference, r.Key, r.Status}) {
			selected = append(selected, *r)
		}
	}
	return selected
}
