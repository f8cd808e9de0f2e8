package poller

import (
	"fmt"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// Status is how the watch stands at one moment, fit for a machine and a person. It holds no person's data and no key.
type Status struct {
	At                time.Time `json:"at"`
	BaseURL           string    `json:"baseUrl"`
	RequestsPerSecond float64   `json:"requestsPerSecond"`          // the ceiling
	Effective         float64   `json:"effectiveRequestsPerSecond"` // what is left of it where the API answered 429, or 503 with Retry-After
	LastMinute        int       `json:"requestsLastMinute"`
	Requests          uint64    `json:"requests"`          // since the start of the process
	Down              string    `json:"down,omitempty"`    // the base URL does not answer; the next try
	NoSpace           bool      `json:"noSpace,omitempty"` // the disk is full: nothing is asked

	RequestCounts    []RequestCount      `json:"requestCounts,omitempty"`
	RequestDurations []OperationDuration `json:"requestDurations,omitempty"`

	Latency  Latency        `json:"latency"` // of the contact requests of all agencies
	Agencies []AgencyStatus `json:"agencies"`
}

// AgencyStatus is how the watch of one agency stands.
type AgencyStatus struct {
	AgencyID         string       `json:"agencyId"`
	State            string       `json:"state"` // starting, baselining, watching, held, backing_off, stale or halted; of a daemon also waiting_for_stream
	WatchStart       time.Time    `json:"watchStart"`
	Insertions       int          `json:"insertions"`
	Disappeared      int          `json:"disappeared"` // still polled for last contact requests
	LastGoodAnswer   time.Time    `json:"lastGoodAnswer,omitzero"`
	LastCompleteWalk time.Time    `json:"lastCompleteWalk,omitzero"`
	LastWalk         WalkStatus   `json:"lastWalk"`
	OldestPoll       time.Time    `json:"oldestPoll,omitzero"` // when the insertion was polled last that waits the longest
	FirstPolls       int          `json:"firstPolls"`          // insertions that were never polled
	Halts            []HaltStatus `json:"halts,omitempty"`
	Held             *HeldStatus  `json:"held,omitempty"`
	Alarms           []Alarm      `json:"alarms,omitempty"`
	// Dialects is what was learned of the answers to the two operations.
	Dialects     map[listings.Operation]listings.Dialect `json:"dialects,omitempty"`
	Key          string                                  `json:"key,omitempty"` // slot of the key that is shown: current or next
	LastError    string                                  `json:"lastError,omitempty"`
	LastSequence uint64                                  `json:"lastSequence"`
	Freshness    *Freshness                              `json:"freshness,omitempty"` // of a daemon that runs
	Walks        WalkCounts                              `json:"walks"`
	// Latencies are how long contact requests that came in waited for their event, as Latency, since the start of the process.
	Latencies *Histogram `json:"latencies,omitempty"`
}

// WalkStatus is how the last walk went.
type WalkStatus struct {
	At         time.Time     `json:"at,omitzero"`
	Took       time.Duration `json:"took,omitempty"` // nanoseconds
	Complete   bool          `json:"complete"`
	Reason     string        `json:"reason,omitempty"` // why it is partial
	Pages      int           `json:"pages"`
	Insertions int           `json:"insertions"`
}

// WalkCounts counts walks since the start of the process.
type WalkCounts struct {
	Complete uint64 `json:"complete"`
	Partial  uint64 `json:"partial"`
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

// Alarm is something that keeps us from seeing, as a watch event has told it.
type Alarm struct {
	Kind                string    `json:"kind"`      // stale, schema_drifted or gap_detected
	Operation           string    `json:"operation"` // insertions or contact_requests
	PropertyReferenceID string    `json:"propertyReferenceId,omitempty"`
	Since               time.Time `json:"since"`
}

// HeldStatus is a change that is not believed yet.
type HeldStatus struct {
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until"`
	Missing int       `json:"missing"`
	Known   int       `json:"known"`
	Approve string    `json:"approve"`
}

// Status describes the watch as it stands. It may be called at any time.
func (p *Poller) Status() (Status, error) {
	now := time.Now()
	s := Status{
		At: now.UTC(), BaseURL: p.o.API.BaseURL, RequestsPerSecond: p.o.RequestsPerSecond, Requests: p.budget.count(),
		Effective: rounded(p.budget.effective(now)), LastMinute: p.budget.lately(now),
		Agencies: make([]AgencyStatus, 0, len(p.watched())),
	}
	s.NoSpace = p.full.Load()
	s.RequestCounts, s.RequestDurations = p.stats.requests(), p.stats.durations()
	if b := p.base.state(); b.Failures > 0 {
		s.Down = b.Until.UTC().Format(time.RFC3339)
	}
	err := p.store.View(func(tx *store.Tx) error {
		for _, a := range p.watched() {
			state, _, err := tx.Agency(a.id)
			if err != nil {
				return err
			}
			one := a.status(state)
			one.LastSequence = tx.LastSequence(a.id)
			s.Agencies = append(s.Agencies, one)
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	var all histogram
	for n := range s.Agencies { // takes a while: not inside of a transaction
		if a := p.agency(s.Agencies[n].AgencyID); a != nil {
			s.Agencies[n].Freshness = a.freshness(now, &all)
		}
	}
	s.Latency = all.latency()
	return s, nil
}

func (a *agency) status(state store.Agency) AgencyStatus {
	s := AgencyStatus{AgencyID: a.id, WatchStart: state.WatchStart, LastCompleteWalk: state.LastCompleteWalk, Dialects: shownDialects(state)}
	x := a.access()
	for _, h := range x.List("") {
		s.Halts = append(s.Halts, haltStatus(a.id, h))
	}
	s.Held = heldStatus(a.id, state.Held)
	s.Alarms, s.Key = a.alarms(state), x.Keys.Slot(x.Keys.Shown(listings.OperationInsertions).Fingerprint()).Slot
	s.OldestPoll, s.FirstPolls = a.p.scheduler.waiting(a.id)
	a.mu.Lock()
	s.Insertions, s.Disappeared, s.LastWalk, s.LastError, s.LastGoodAnswer = a.known, a.gone, a.lastWalk, a.lastError, a.answers.Good
	s.Walks = a.ended
	waited := a.waited.export(latencyBounds)
	a.mu.Unlock()
	s.Latencies = &waited
	s.State = a.state(state)
	return s
}

func haltStatus(agencyID string, h store.Halt) HaltStatus {
	return HaltStatus{
		Scope: h.Scope, PropertyReferenceID: h.Reference, Since: h.Since, Status: h.Status,
		ProbableReason: h.ProbableReason, Advice: h.Advice, Resume: watch.ResumeCommand(agencyID, h.Reference),
	}
}

// alarms are those of whole operations, and of insertions that cannot be read.
func (a *agency) alarms(state store.Agency) []Alarm {
	list := operationAlarms(state)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.saved {
		if t.Told {
			list = append(list, insertionAlarm(t))
		}
	}
	slices.SortFunc(list, func(x, y Alarm) int { return x.Since.Compare(y.Since) })
	return list
}

func insertionAlarm(t store.Failure) Alarm {
	return Alarm{Kind: watch.Gap, Operation: string(listings.OperationContactRequests), PropertyReferenceID: t.Name, Since: t.Since}
}

func operationAlarms(state store.Agency) (list []Alarm) {
	for _, op := range operations {
		o := state.Operation(string(op))
		for _, kind := range watch.Alarms {
			if since := watch.Since(o, kind); !since.IsZero() {
				list = append(list, Alarm{Kind: kind, Operation: string(op), Since: since})
			}
		}
	}
	return list
}

func heldStatus(agencyID string, h *store.Held) *HeldStatus {
	if h == nil {
		return nil
	}
	return &HeldStatus{Reason: h.Reason, Until: h.Until, Missing: h.Missing, Known: h.Known, Approve: "doorbell approve " + agencyID}
}

// state names how an agency stands, as its heartbeat says it.
func (a *agency) state(state store.Agency) string {
	switch {
	case a.isHalted(listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id}):
		return "halted"
	case state.Held != nil:
		return "held"
	case a.stale():
		return "stale"
	case a.walking.state().Failures > 0 || a.asking.state().Failures >= operationLimit || a.p.base.state().Failures > 0:
		return "backing_off"
	case state.CompleteWalks == 0:
		return "starting"
	case !state.Baselined:
		return "baselining"
	}
	return "watching"
}

// Remembered describes what the store of a stopped daemon knows.
func Remembered(s *store.Store) (Status, error) {
	ids, err := s.Agencies()
	if err != nil {
		return Status{}, err
	}
	all := Status{At: time.Now().UTC(), BaseURL: s.BaseURL(), Agencies: []AgencyStatus{}}
	err = s.View(func(tx *store.Tx) error {
		for _, id := range ids {
			one, err := remembered(tx, id)
			if err != nil {
				return err
			}
			all.Agencies = append(all.Agencies, one)
		}
		return nil
	})
	return all, err
}

func remembered(tx *store.Tx, id string) (AgencyStatus, error) {
	state, _, err := tx.Agency(id)
	if err != nil {
		return AgencyStatus{}, err
	}
	s := AgencyStatus{
		AgencyID: id, State: "stopped", WatchStart: state.WatchStart, LastCompleteWalk: state.LastCompleteWalk,
		LastSequence: tx.LastSequence(id), Held: heldStatus(id, state.Held), Alarms: operationAlarms(state), Dialects: shownDialects(state),
	}
	halts, err := tx.Halts(id)
	if err != nil {
		return s, err
	}
	for _, h := range halts {
		s.Halts = append(s.Halts, haltStatus(id, h))
	}
	failures, err := tx.Failures(id)
	if err != nil {
		return s, err
	}
	for _, t := range failures {
		if t.Told {
			s.Alarms = append(s.Alarms, insertionAlarm(t))
		}
	}
	return s, tx.Insertions(id, func(i store.Insertion) error {
		if i.GoneSince.IsZero() {
			s.Insertions++
		}
		return nil
	})
}

// Access is how a watch would begin to ask for an agency, by what a stopped daemon remembers.
type Access struct {
	Key, Next listings.Key // the one that it would show, and the one that it would try if that is refused; zero: none
	Halt      *store.Halt  // of the whole agency or all of its contact requests, which it would keep; nil: none

	Dialects map[listings.Operation]listings.Dialect // what was learned of the answers
}

// RememberedAccess holds what is remembered of keys and halts against the keys that are configured now.
func RememberedAccess(tx *store.Tx, k AgencyKeys) (Access, error) {
	state, _, err := tx.Agency(k.ID)
	if err != nil {
		return Access{}, err
	}
	halts, err := tx.Halts(k.ID)
	if err != nil {
		return Access{}, err
	}
	x := watch.RestoreAccess(k.ID, state.Keys, halts, time.Now()).Configure(k.Key, k.Next, time.Now())
	access := Access{Key: x.Keys.Shown(listings.OperationInsertions), Dialects: dialects(state)}
	if other := x.Keys.Other(); other != access.Key && !x.Keys.WasRefused(other.Fingerprint()) {
		access.Next = other
	}
	for s, h := range x.Halts {
		if s.Scope != events.ScopeInsertion {
			access.Halt = &h
		}
	}
	return access, nil
}

// ResumeRemembered ends halts in the store of a stopped daemon, as Resume does in a running one.
func ResumeRemembered(s *store.Store, agencyID, reference string) (ended int, err error) {
	err = s.Update(func(tx *store.Tx) error {
		ended = 0
		state, known, err := tx.Agency(agencyID)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
		}
		halts, err := tx.Halts(agencyID)
		if err != nil {
			return err
		}
		c := watch.RestoreAccess(agencyID, state.Keys, halts, time.Now()).Resume(reference, time.Now())
		ended = len(c.Ended)
		return putAccess(tx, c)
	})
	return ended, err
}
