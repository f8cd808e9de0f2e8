package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Status is a snapshot of what the relay does.
type Status struct {
	Open    bool      // server and stream could be used when they were looked at last
	Problem string    // why the last attempt failed; empty: it did not
	Turned  time.Time // the last sign of progress, which comes once a minute or more often; before Run, when the relay was made

	Rivals    []string               // agencies that another store has published since this relay was made
	Published map[events.Type]uint64 // events that the stream took since the relay was made; under "" those of unknown types
	Repeated  uint64                 // events that the stream had already
	Failures  map[string]uint64      // attempts that failed, by what a failure means; see reason
}

// Status never waits for the network.
func (r *Relay) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Published, s.Failures = maps.Clone(s.Published), maps.Clone(s.Failures)
	s.Rivals = slices.Sorted(maps.Keys(r.rivals))
	s.Turned = *r.turned.Load()
	return s
}

// opened notes that server and stream can be used.
func (r *Relay) opened() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Open = true
}

// disconnected notes that there is no connection.
func (r *Relay) disconnected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Open, r.status.Problem = false, stream.Explain(r.o.Conn, ErrNotConnected).Error()
}

// sayEvery is how often a failure that goes on is logged again.
const sayEvery = time.Hour

// note shows how the last step ended. A failure is logged when it is another one than before.
func (r *Relay) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.mu.Lock()
	was, now := r.said, time.Now()
	again := err != nil && now.Sub(r.saidAt) >= sayEvery
	if r.said = text; text != was || again {
		r.saidAt = now
	}
	if r.status.Problem = text; err != nil {
		why := reason(err)
		r.status.Failures[why]++
		r.status.Open = r.status.Open && why == reasonFull
	}
	r.mu.Unlock()
	switch {
	case text == was && !again:
	case err == nil:
		r.o.Logger.Info("events are published again")
	default:
		r.o.Logger.Warn("events wait in the log", "reason", reason(err), "err", text)
	}
}

// warnEvery is the minimum time between two warnings of another doorbell that publishes an agency.
const warnEvery = 10 * time.Minute

// rival warns that another doorbell publishes an agency.
func (r *Relay) rival(agency string) {
	r.mu.Lock()
	last, now := r.rivals[agency], time.Now()
	warn := last.IsZero() || now.Sub(last) >= warnEvery
	if warn {
		r.rivals[agency] = now
	}
	r.mu.Unlock()
	if warn {
		r.o.Logger.Warn("another doorbell publishes this agency", "agency", agency,
			"advice", "stop one of them: both send requests to the API; contact requests are stored once all the same")
	}
}

// count counts an event that the stream took, or had already.
func (r *Relay) count(e events.Event, repeated bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := e.Type
	if !slices.Contains(events.Types, kind) {
		kind = ""
	}
	if repeated {
		r.status.Repeated++
	} else {
		r.status.Published[kind]++
	}
}

// What a failure means.
const (
	reasonFull    = "full"          // no space: the log keeps the events
	reasonGone    = "gone"          // no stream, no leader, no connection
	reasonConfig  = "configuration" // stream or server do not let us
	reasonUnknown = "unknown"       // the outcome is unknown
	reasonLog     = "log"           // the event log itself: the end
)

func reason(err error) string {
	var answer *jetstream.APIError
	switch {
	case errors.Is(err, ErrLog):
		return reasonLog
	case errors.As(err, &answer):
		switch answer.ErrorCode {
		case 10077, 10023, 10028, 10047, 10002: // messages or bytes, resources, memory, storage, limits of the account
			return reasonFull
		case 10059, 10008, 10039, 10076, 10060: // no stream, no leader, no JetStream, another stream
			return reasonGone
		}
		return reasonConfig
	case errors.Is(err, ErrStreamUnfit), errors.Is(err, ErrNoStream), errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrPermissionViolation):
		return reasonConfig
	case errors.Is(err, ErrNotConnected), errors.Is(err, ErrClosed), errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected):
		return reasonGone
	}
	return reasonUnknown
}

// Heartbeat says on core NATS, in no stream, that the agency is watched: state is the caller's word for how it is. Its
// lastSequence is the agency's newest acknowledged position. Nothing is sent later: without a connection it is an error.
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
