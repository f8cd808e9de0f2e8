package poller

import (
	"cmp"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// Status is the state of the watch at one moment, for machines and people. It holds no
// person's data and no key.
type Status struct {
	At                time.Time `json:"at"`
	BaseURL           string    `json:"baseUrl"`
	RequestsPerSecond float64   `json:"requestsPerSecond"` // the ceiling
	// what is left of it where the API answered 429, or 503 with Retry-After
	Effective  float64 `json:"effectiveRequestsPerSecond"`
	LastMinute int     `json:"requestsLastMinute"`
	Requests   uint64  `json:"requests"` // since the start of the process
	// the base URL does not answer; the next try
	Down string `json:"down,omitempty"`

	Latency  Latency        `json:"latency"` // of the contact requests of all agencies
	Agencies []AgencyStatus `json:"agencies"`
	Metrics  *Metrics       `json:"-"` // of a daemon that runs
}

// AgencyStatus is the state of the watch of one agency.
type AgencyStatus struct {
	AgencyID string `json:"agencyId"`
	// starting, baselining, watching, held, backing_off, stale or halted; of a daemon also
	// waiting_for_stream
	State            string       `json:"state"`
	WatchStart       time.Time    `json:"watchStart"`
	Insertions       int          `json:"insertions"`
	LastGoodAnswer   time.Time    `json:"lastGoodAnswer,omitzero"`
	LastCompleteWalk time.Time    `json:"lastCompleteWalk,omitzero"`
	LastWalk         WalkStatus   `json:"lastWalk"`
	Halts            []HaltStatus `json:"halts,omitempty"`
	Held             *HeldStatus  `json:"held,omitempty"`
	Alarms           []Alarm      `json:"alarms,omitempty"`
	// Volatile are members that change at each reading and are left out.
	Volatile []store.Volatile `json:"volatile,omitempty"`
	// Places are the JSON pointers to the records in responses, by operation.
	Places       map[listings.Operation]string `json:"places,omitempty"`
	LastError    string                        `json:"lastError,omitempty"`
	LastSequence uint64                        `json:"lastSequence"`
	Freshness    *Freshness                    `json:"freshness,omitempty"` // of a daemon that runs
}

// WalkStatus is how the last walk went.
type WalkStatus struct {
	At         time.Time `json:"at,omitzero"`
	Complete   bool      `json:"complete"`
	Reason     string    `json:"reason,omitempty"` // why it is partial
	Pages      int       `json:"pages"`
	Insertions int       `json:"insertions"`
}

// HaltStatus is a scope that is not asked for any more, why, and what to do.
type HaltStatus struct {
	Scope               events.Scope `json:"scope"`
	PropertyReferenceID string       `json:"propertyReferenceId,omitempty"`
	Since               time.Time    `json:"since"`
	Status              int          `json:"status"`
	ProbableReason      string       `json:"probableReason"`
	Advice              string       `json:"advice"`
	Resume              string       `json:"resume"`
}

// Alarm is something that keeps us from seeing, as a watch event has reported it.
type Alarm struct {
	Kind                string    `json:"kind"`      // stale, schema_drifted or gap_detected
	Operation           string    `json:"operation"` // insertions or contact_requests
	PropertyReferenceID string    `json:"propertyReferenceId,omitempty"`
	Since               time.Time `json:"since"`
}

// HeldStatus is a change that is not believed yet.
type HeldStatus struct {
	// contact_requests where people vanished; absent for insertions
	Operation listings.Operation `json:"operation,omitempty"`
	Reason    string             `json:"reason"`
	Until     time.Time          `json:"until"`
	Missing   int                `json:"missing"`
	Known     int                `json:"known"`
	Approve   string             `json:"approve"`
}

// Freshness is how long the insertions of an agency wait for a poll.
type Freshness struct {
	Insertions  int `json:"insertions"`  // that are polled
	NeverPolled int `json:"neverPolled"` // of those
	// since the last poll of the one that waits the longest
	OldestSeconds float64 `json:"oldestSeconds"`
	CapSeconds    float64 `json:"capSeconds"` // none should wait longer
	PastCap       int     `json:"pastCap"`    // how many do
	Latency       Latency `json:"latency"`    // of contact requests that came in
}

// Status describes the present state of the watch, except for LastSequence, which only the store
// knows. It may be called at any time: it waits for no commit.
func (p *Poller) Status() Status {
	now := time.Now()
	s := Status{
		At: now.UTC(), BaseURL: p.o.API.BaseURL, RequestsPerSecond: p.o.RequestsPerSecond,
		Requests: p.budget.count(), Effective: rounded(p.budget.effective(now)),
		LastMinute: p.budget.lately(now), Agencies: make([]AgencyStatus, len(p.agencies)),
		Metrics: p.metrics,
	}
	if b := p.base.state(); b.Failures > 0 {
		s.Down = b.Until.UTC().Format(time.RFC3339)
	}
	var all []float64
	for n, a := range p.agencies {
		s.Agencies[n] = a.status(now)
		all = append(all, a.lastDay(now)...)
	}
	s.Latency = latencyOf(all)
	return s
}

func (a *agency) status(now time.Time) AgencyStatus {
	is, x := a.published(), a.access()
	s := AgencyStatus{
		AgencyID: a.id, State: a.state(is), WatchStart: is.state.WatchStart,
		LastCompleteWalk: is.state.LastCompleteWalk, LastGoodAnswer: x.Good,
		Places: places(is.state), Freshness: a.freshness(now),
	}
	a.mu.Lock()
	s.Insertions, s.LastWalk, s.LastError = a.known, a.lastWalk, a.lastError
	a.mu.Unlock()
	for _, h := range x.List() {
		s.Halts = append(s.Halts, HaltStatus{
			Scope: h.Scope, PropertyReferenceID: h.Reference, Since: h.Since, Status: h.Status,
			ProbableReason: h.ProbableReason, Advice: h.Advice,
			Resume: watch.ResumeCommand(a.id, h.Reference),
		})
	}
	if h := cmp.Or(is.state.Held, is.state.Redaction); h != nil {
		s.Held = &HeldStatus{
			Reason: h.Reason, Until: h.Until, Missing: h.Missing, Known: h.Known,
			Approve: "doorbell approve " + a.id,
		}
		if is.state.Held == nil {
			s.Held.Operation = listings.OperationContactRequests
		}
	}
	for _, v := range is.state.Volatile {
		v.Path = watch.DescribePointer(v.Path)
		s.Volatile = append(s.Volatile, v)
	}
	for _, alarm := range is.alarms {
		s.Alarms = append(s.Alarms, Alarm{
			Kind: watch.Raised(alarm.Kind), Operation: alarm.Operation,
			PropertyReferenceID: alarm.Reference, Since: alarm.Since,
		})
	}
	slices.SortFunc(s.Alarms, func(x, y Alarm) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(y.Operation, x.Operation),
			cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.PropertyReferenceID, y.PropertyReferenceID))
	})
	return s
}

// state names the state of an agency, as in its heartbeat.
func (a *agency) state(is snapshot) string {
	stale := false
	for id := range is.alarms {
		stale = stale || id.Kind == watch.Stale
	}
	switch {
	case a.isHalted(listings.OperationContactRequests, ""):
		return "halted"
	case is.state.Held != nil || is.state.Redaction != nil:
		return "held"
	case stale:
		return "stale"
	case a.walking.state().Failures > 0 || a.asking.state().Failures >= operationLimit ||
		a.p.base.state().Failures > 0:
		return "backing_off"
	case is.state.CompleteWalks == 0:
		return "starting"
	case !is.state.Baselined:
		return "baselining"
	}
	return "watching"
}

// freshness is that of an agency.
func (a *agency) freshness(now time.Time) *Freshness {
	waits, limit := a.p.schedule.Waits(a.id)
	f := &Freshness{
		Insertions: len(waits), CapSeconds: rounded(limit.Seconds()),
		Latency: latencyOf(a.lastDay(now)),
	}
	for _, w := range waits {
		waited := max(0, now.Sub(w.Since))
		if f.OldestSeconds = max(f.OldestSeconds, rounded(waited.Seconds())); w.Never {
			f.NeverPolled++
		}
		if waited > limit {
			f.PastCap++
		}
	}
	return f
}

// places are without names that do not look like one.
func places(state store.Agency) map[listings.Operation]string {
	all := map[listings.Operation]string{}
	for _, op := range operations {
		if p := placeOf(state, op); p.Known {
			all[op] = p.Printable()
		}
	}
	return all
}

// Access is how a watch would begin to ask for an agency, by what a stopped daemon remembers.
type Access struct {
	// of the whole agency or all of its contact requests, which it would keep; nil: none
	Halt  *store.Halt
	Place listings.Place // of its list in earlier responses
}

// RememberedAccess holds the halts that are remembered against the key that is configured now.
func RememberedAccess(tx *store.Tx, k AgencyKeys) (access Access) {
	state, _ := tx.Agency(k.ID)
	access.Place = placeOf(state, listings.OperationInsertions)
	x := watch.RestoreAccess(k.ID, tx.Halts(k.ID), time.Now())
	x = x.After(x.Configure(k.Key, time.Now()), time.Now())
	for s, h := range x.Halts {
		if s.Scope == events.ScopeAgency ||
			s.Scope == events.ScopeContactRequests && access.Halt == nil {
			access.Halt = &h
		}
	}
	return access
}
