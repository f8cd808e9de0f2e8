package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"doorbell/events"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stored is a message in the stream, as far as looking needs it.
type stored struct {
	subject  string
	sequence uint64 // its place in the stream
	header   nats.Header
	data     []byte
}

// query says which message is wanted: the one at Sequence; or the next of a filter from there on; or the filter's last.
type query struct {
	Sequence uint64 `json:"seq,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
}

const noMessage jetstream.ErrorCode = 10037

// get returns a message, or nil if there is none. It asks the leader of the stream and not, as a direct get would, a
// replica that may be behind: what is decided here is whether events are sent again.
func (r *Relay) get(ctx context.Context, q query) (*stored, error) {
	ask, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.AckWait)
	defer cancel()
	reply, err := r.o.Conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+r.o.Stream, ask)
	if err != nil {
		return nil, fmt.Errorf("look: %w", err)
	}
	var a struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string `json:"subject"`
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	switch {
	case json.Unmarshal(reply.Data, &a) != nil:
		return nil, fmt.Errorf("look: %w", errAnswer)
	case a.Error != nil && a.Error.ErrorCode == noMessage:
		return nil, nil
	case a.Error != nil:
		return nil, fmt.Errorf("look: %w", a.Error)
	case a.Message == nil || a.Message.Sequence == 0:
		return nil, fmt.Errorf("look: %w", errAnswer)
	}
	m := &stored{subject: a.Message.Subject, sequence: a.Message.Sequence, data: a.Message.Data}
	if len(a.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(a.Message.Header); err != nil {
			m.header = nil // whoever wrote it, it was not us
		}
	}
	return m, nil
}

// claim is which event a message says it is.
func (m *stored) claim() (sequence uint64, id string, ok bool) {
	id = m.value("ce-id")
	sequence, err := strconv.ParseUint(m.value("ce-sequence"), 10, 64)
	return sequence, id, err == nil && sequence > 0 && id != "" && m.value(nats.MsgIdHdr) == id
}

func (m *stored) value(name string) string {
	if v := m.header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// recognise returns the event of the log that a message is. It is false for what is not ours: a stray, and also an event
// of ours that this log does not have. The second kind is taken over; see import.go.
func (l *lane) recognise(m *stored) (events.Event, bool, error) {
	sequence, id, ok := m.claim()
	if !ok {
		return events.Event{}, false, nil
	}
	found, err := l.r.o.Log.Read(l.agency, sequence-1, 1, 1)
	if err != nil {
		return events.Event{}, false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	if len(found) == 0 || found[0].Sequence != sequence || found[0].ID != id ||
		found[0].StoreID != m.value("ce-storeid") || m.subject != events.Subject(l.r.o.Prefix, l.agency, found[0].Type) {
		return events.Event{}, false, nil
	}
	return found[0], true, nil
}

// state asks for the stream's creation time and last sequence.
func (r *Relay) state(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.AckWait)
	defer cancel()
	s, err := r.js.Stream(ctx, r.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, &jetstream.APIError{Code: 404, ErrorCode: jetstream.JSErrCodeStreamNotFound, Description: "stream not found"}
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", r.o.Stream, err)
	}
	return s.CachedInfo(), nil
}
