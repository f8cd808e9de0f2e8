package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// compare reads which events the stream holds whose ids its server may not know: those behind
// Cursor.Read, once after each failure, reconnect and change of the leader. The embedded stream is
// read from its beginning after each start of the server, and offered the whole log, because
// damaged files may lack any message. Its messages that cannot be decoded are erased: the checksum
// of nats-server does not cover the length of the headers, so damage there goes unnoticed.
func (r *Relay) compare(ctx context.Context, info *jetstream.StreamInfo) error {
	s, server := &r.session, r.o.Conn.ConnectedServerId()
	if info.Cluster != nil {
		server = info.Cluster.Leader
	}
	if s.compared == server {
		// the server knows the ids of what is still to come
		if r.o.Embedded && s.cursor.Position >= s.cursor.Highest && !s.relearns {
			s.present = nil
		}
		return nil
	}
	if r.o.Embedded {
		s.cursor = events.Cursor{StreamCreated: info.Created, Highest: s.cursor.Highest}
	}
	after := s.cursor.Read
	if s.relearns {
		after = 0
	}
	agencies, err := r.o.Log.Agencies()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	s.present = map[string]uint64{}
	// others may find what we shall find, too
	others, recently := false, time.Now().Add(-lateArrivals)
	end, err := r.stream.ReadToEnd(ctx, r.subjects(), after, func(m *stream.Message) error {
		r.turn() // a million messages take minutes
		e, err := events.Decode(m.Header, m.Data)
		switch {
		case err == nil:
			s.present[e.ID] = m.Sequence
			offered := e.StoreID == r.o.StoreID && e.Sequence <= s.cursor.Position
			others = others ||
				!offered && slices.Contains(agencies, e.AgencyID) && e.RecordedTime.After(recently)
		case r.o.Embedded && slices.ContainsFunc(events.Types, func(t events.Type) bool { return strings.HasSuffix(m.Subject, "."+string(t)) }):
			s.erased = true // also if the reply to the erasure is lost
			_, err := r.stream.EraseAt(ctx, m.Sequence)
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.erased { // until it is restarted the server knows their ids
		r.o.Logger.Error(
			"the stream held damaged messages, which were erased: they are published again",
			"stream", r.o.Stream)
		err := r.restart(ctx)
		s.erased = !errors.Is(err, stream.ErrNotConnected)
		return err
	}
	if !others {
		s.cursor.Read = max(s.cursor.Read, end)
	}
	s.compared, s.relearns = server, s.relearns || s.cursor.Highest == 0 && len(s.present) > 0
	return nil
}

// restart restarts the embedded server. It never returns nil: the server has to be back first.
func (r *Relay) restart(ctx context.Context) error {
	if err := r.o.Restart(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("restart of the server: %w", err)
	}
	return stream.ErrNotConnected
}

func (r *Relay) subjects() string { return events.StreamSubjects(r.o.Prefix) }
