package relay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"doorbell/events"
)

// Status is a snapshot of what the relay does.
type Status struct {
	Open     bool           // server and stream were usable at the last check
	Problem  string         // why not; empty if Open
	Turned   time.Time      // when Run turned last, which it does once a minute at least; before it, when the relay was made
	Agencies []AgencyStatus // sorted by id

	Published map[events.Type]uint64 // events that the stream took since the relay was made, for the first time; under "" those of unknown types
	Failures  map[string]uint64      // attempts that failed, by what a failure means; see the classes of failures
}

// AgencyStatus says how far one agency is.
type AgencyStatus struct {
	AgencyID     string
	Acknowledged uint64 // sequence of the newest event that the stream holds, as far as the log knows
	Foreign      int    // messages below the agency's subjects that were not ours, since the start
	Problem      string // why the last attempt failed; empty: it did not
}

// Status never waits for the network.
func (r *Relay) Status() Status {
	k := r.link
	k.mu.Lock()
	s := Status{Open: k.isOpen, Problem: k.problem}
	k.mu.Unlock()
	r.mu.Lock()
	s.Published, s.Failures = maps.Clone(r.published), maps.Clone(r.failures)
	r.mu.Unlock()
	s.Turned = *r.turned.Load()
	for _, l := range r.all() {
		l.shown.Lock()
		s.Agencies = append(s.Agencies, l.status)
		l.shown.Unlock()
	}
	slices.SortFunc(s.Agencies, func(a, b AgencyStatus) int { return cmp.Compare(a.AgencyID, b.AgencyID) })
	return s
}

// Heartbeat says on core NATS, in no stream, that the agency is watched: state is the caller's word for how it is. Its
// lastSequence is what the stream has acknowledged. Nothing is sent later: without a connection it is an error.
func (r *Relay) Heartbeat(agencyID, state string) error {
	c, err := r.o.Log.Cursor(agencyID)
	if err != nil {
		return fmt.Errorf("heartbeat: %w: %w", ErrLog, err)
	}
	beat, err := json.Marshal(struct {
		AgencyID     string    `json:"agencyId"`
		At           time.Time `json:"at"`
		LastSequence uint64    `json:"lastSequence"`
		State        string    `json:"state"`
	}{agencyID, time.Now().UTC().Truncate(time.Millisecond), c.Sequence, state})
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if err := r.o.Conn.Publish(r.o.Prefix+".heartbeat."+events.Token(agencyID), beat); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// countPublished counts a batch that the stream took for the first time.
func (r *Relay) countPublished(batch []events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range batch {
		if slices.Contains(events.Types, e.Type) {
			r.published[e.Type]++
		} else {
			r.published[""]++
		}
	}
}

func (r *Relay) countFailed(c class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures[strings.ReplaceAll(string(c), " ", "_")]++
}
