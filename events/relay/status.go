package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Status is a snapshot of the relay.
type Status struct {
	Open    bool   // whether server and stream were usable at the last check
	Problem string // why the last attempt failed; empty if it succeeded
	// the last sign of progress, which comes once a minute or more often; before Run, when the
	// relay was made
	Turned time.Time

	Published map[events.Type]uint64 // events that the stream stored since the relay was made
	Failures  map[string]uint64      // failed attempts by reason; see reason

	// Rivals are agencies that a second doorbell publishes, and when its newest event was recorded.
	Rivals map[string]time.Time
}

// Status never waits for the network.
func (r *Relay) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Published, s.Failures = maps.Clone(s.Published), maps.Clone(s.Failures)
	s.Rivals = maps.Clone(s.Rivals)
	return s
}

// note records how the last step ended, and logs it when it differs from the step before.
func (r *Relay) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.mu.Lock()
	was := r.status.Problem
	r.status.Problem, r.status.Open = text, err == nil || reason(err) == reasonFull
	if err != nil {
		r.status.Failures[reason(err)]++
	}
	r.mu.Unlock()
	switch {
	case text == was:
	case err == nil:
		r.o.Logger.Info("events are published again")
	default:
		r.o.Logger.Warn("events wait in the log", "reason", reason(err), "err", text)
	}
}

// rival notes that another doorbell publishes the agency, and warns the first time.
func (r *Relay) rival(agency string, recorded time.Time) {
	r.mu.Lock()
	_, warned := r.status.Rivals[agency]
	r.status.Rivals[agency] = recorded
	r.mu.Unlock()
	if !warned {
		r.o.Logger.Warn("another doorbell also publishes this agency", "agency", agency,
			"advice", "stop one of them: both send requests to the API; contact requests are still stored only once")
	}
}

// count counts an event that the stream stored.
func (r *Relay) count(t events.Type) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Published[t]++
}

// Reasons of failures.
const (
	reasonFull    = "full"          // no space: the log keeps the events
	reasonGone    = "gone"          // no stream, no leader, no connection
	reasonConfig  = "configuration" // stream or server refuse it
	reasonUnknown = "unknown"       // the outcome is unknown
	reasonLog     = "log"           // the event log failed: the relay ends
)

func reason(err error) string {
	var answer *jetstream.APIError
	switch {
	case errors.Is(err, ErrLog):
		return reasonLog
	case errors.As(err, &answer):
		switch answer.ErrorCode {
		// messages or bytes, resources, memory, storage, limits of the account
		case 10077, 10023, 10028, 10047, 10002:
			return reasonFull
		// no stream, no leader, no JetStream, another stream
		case 10059, 10008, 10039, 10076, 10060:
			return reasonGone
		}
		return reasonConfig
	case errors.Is(err, stream.ErrUnfit), errors.Is(err, ErrNoStream),
		errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrPermissionViolation):
		return reasonConfig
	case errors.Is(err, stream.ErrNotConnected), errors.Is(err, ErrClosed),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected):
		return reasonGone
	}
	return reasonUnknown
}

// Heartbeat publishes on core NATS, outside any stream, that the agency is watched; state is the
// caller's word for its condition. lastSequence is the agency's newest acknowledged position.
// Without a connection Heartbeat fails, and nothing is sent later.
func (r *Relay) Heartbeat(agencyID, state string) error {
	last, err := r.o.Log.Last(agencyID)
	if err != nil {
		return fmt.Errorf("heartbeat: %w: %w", ErrLog, err)
	}
	beat, err := json.Marshal(struct {
		AgencyID     string    `json:"agencyId"`
		At           time.Time `json:"at"`
		LastSequence uint64    `json:"lastSequence"`
		State        string    `json:"state"`
	}{agencyID, time.Now().UTC().Truncate(time.Millisecond), last, state})
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if err := r.o.Conn.Publish(r.o.Prefix+".heartbeat."+events.Token(agencyID), beat); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}
