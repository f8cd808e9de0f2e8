package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// compare reads which events the stream holds if the server itself may not know: after a start of
// the embedded server, whose files may lack any message, and where a probe shows that ids were
// forgotten.
func (r *Relay) compare(ctx context.Context, info *jetstream.StreamInfo) error {
	s, server := &r.session, r.o.Conn.ConnectedServerId()
	switch {
	case r.o.Embedded && s.server != server:
		present, err := r.mend(ctx)
		if err != nil {
			return err
		}
		s.server, s.present = server, present
		s.cursor = events.Cursor{StreamCreated: info.Created, Highest: s.cursor.Highest}
		return nil
	case r.o.Embedded && s.present == nil: // a running server forgets no id inside the window
		return nil
	}
	leader := ""
	if info.Cluster != nil {
		leader = info.Cluster.Leader
	}
	if !r.o.Embedded && s.probed && s.leader == leader {
		return nil // subscribers without JetStream receive a probe
	}
	since, err := r.mayHoldSince()
	if err != nil {
		return err
	}
	oldest, err := r.oldestSince(ctx, info, since)
	if err != nil {
		return err
	}
	known, err := r.knows(ctx, oldest)
	if err != nil {
		return err
	}
	if leader != s.leader { // it may have forgotten others
		s.present = nil
	}
	switch {
	case known && s.cursor.Position >= s.cursor.Highest:
		s.present = nil
	case !known && s.present == nil:
		r.o.Logger.Warn("the NATS server has forgotten ids of messages that it holds: events are compared with the stream", "stream", r.o.Stream)
		if s.present, err = r.present(ctx, oldest.Sequence-1); err != nil {
			return err
		}
	}
	s.leader, s.probed = leader, true
	return nil
}

// mayHoldSince returns the time from which on the stream may hold events that are about to be
// offered. That is the start of the window, or earlier if the next event is older. Such an event
// may have been acknowledged all the same: a crash or a restored backup loses the last positions of
// the cursor.
func (r *Relay) mayHoldSince() (time.Time, error) {
	s := &r.session
	since := s.windowStart()
	list, err := r.o.Log.Events(max(s.cursor.Position, s.cursor.Highest), 1, 1)
	if err != nil {
		return since, fmt.Errorf("%w: %w", ErrLog, err)
	}
	for _, e := range list {
		if e.RecordedTime.Before(since) {
			since = e.RecordedTime.Add(-time.Hour) // clocks differ
		}
	}
	return since, nil
}

// oldestSince returns the oldest message with an id since a moment; nil: there is none.
func (r *Relay) oldestSince(ctx context.Context, info *jetstream.StreamInfo, since time.Time) (m *stream.Message, err error) {
	next := func(sequence uint64) *stream.Message {
		if err == nil {
			m, err = r.stream.Get(ctx, stream.Query{Sequence: sequence, Next: r.subjects()})
		}
		return m
	}
	first := max(1, info.State.FirstSeq)
	behind := sort.Search(int(info.State.LastSeq+1-min(first, info.State.LastSeq+1)), func(n int) bool {
		m := next(first + uint64(n))
		return err != nil || m == nil || m.Time.After(since)
	})
	for next(first + uint64(behind)); err == nil && m != nil && m.Header.Get(nats.MsgIdHdr) == ""; {
		next(m.Sequence + 1)
	}
	return m, err
}

// Error codes of a server that does not know the id of a probe.
const (
	noRollup    jetstream.ErrorCode = 10111 // it refuses the rollup
	idInProcess jetstream.ErrorCode = 10158 // an older cluster still holds the id of an earlier probe
)

// knows reports whether the server knows the id of a message. At its start a server loads the ids
// from one message up to the end (rebuildDedupe), so if it knows one id it also knows those of all
// later messages. After a crash nats-server 2.15.2 may start too late: an erased message that is
// the last of its block counts as one from 1970.
//
// The probe is a message that is never stored: it asks for a rollup that does not exist. A server
// looks at the id first and then refuses the rollup, in a cluster before the message is replicated.
// A wrong Nats-Expected-Last-Msg-Id would be refused only after replication, and a cluster then
// stops the stream for good. Plain subscribers receive the probe as well. Its subject is therefore
// one that no event has, and belongs to an agency that this relay may publish.
func (r *Relay) knows(ctx context.Context, m *stream.Message) (bool, error) {
	if m == nil {
		return true, nil
	}
	agencies, err := r.o.Log.Agencies()
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	subject := r.o.Prefix + ".v1.probe"
	if len(agencies) > 0 {
		subject = events.Subject(r.o.Prefix, agencies[0], "probe")
	}
	ack, err := r.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: nats.Header{
		nats.MsgIdHdr:                  {m.Header.Get(nats.MsgIdHdr)},
		jetstream.ExpectedStreamHeader: {r.o.Stream},
		jetstream.MsgRollup:            {"probe"},
	}})
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused) && (refused.ErrorCode == noRollup || refused.ErrorCode == idInProcess):
		return false, nil
	case err != nil:
		return false, err
	}
	return ack.Duplicate, nil
}

// present returns the ids of the events that the stream holds after a sequence, with their own
// sequences.
func (r *Relay) present(ctx context.Context, after uint64) (map[string]uint64, error) {
	present := map[string]uint64{}
	_, err := r.stream.ReadToEnd(ctx, r.subjects(), after, func(m *stream.Message) error {
		r.turn() // a million messages take minutes
		if e, err := events.Decode(m.Header, m.Data); err == nil {
			present[e.ID] = m.Sequence
		}
		return nil
	})
	return present, err
}

// mend does what present does, for the whole embedded stream, and erases events that cannot be
// decoded: the checksum of nats-server does not cover the length of the headers, so damage there
// goes unnoticed. The server may still know the id of an erased message until it is restarted. The
// restart remains due if an error interrupts mend after the first erasure.
func (r *Relay) mend(ctx context.Context) (present map[string]uint64, err error) {
	s := &r.session
	present = map[string]uint64{}
	n, err := r.stream.Erase(ctx, r.subjects(), func(m *stream.Message) bool {
		r.turn()
		e, err := events.Decode(m.Header, m.Data)
		if err == nil {
			present[e.ID] = m.Sequence
			return false
		}
		damaged := slices.ContainsFunc(events.Types, func(t events.Type) bool { return strings.HasSuffix(m.Subject, "."+string(t)) })
		if damaged {
			s.outdated = r.o.Conn.ConnectedServerId()
		}
		return damaged
	})
	if err != nil || s.outdated == "" || s.outdated != r.o.Conn.ConnectedServerId() {
		return present, err
	}
	r.o.Logger.Error("the stream held damaged messages, which were erased: the server is restarted, and they are published again",
		"stream", r.o.Stream, "count", n)
	if err := r.o.Restart(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("restart of the server: %w", err)
	}
	return nil, ErrNotConnected // until it is back
}

func (r *Relay) subjects() string { return events.StreamSubjects(r.o.Prefix) }
