package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// compare reads which events the stream holds whose ids its server may not know: those behind
// Cursor.Read, once after each failure, reconnect and change of the leader. The embedded stream is
// read from its beginning after each start of the server, and offered the whole log, because
// damaged files may lack any message.
func (r *Relay) compare(ctx context.Context, info *jetstream.StreamInfo) error {
	s, server := &r.session, r.o.Conn.ConnectedServerId()
	if info.Cluster != nil {
		server = info.Cluster.Leader
	}
	if s.compared == server {
		if r.o.Embedded && s.cursor.Position >= s.cursor.Highest && !s.relearns { // the server knows the ids of what is still to come
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
	others, recently := false, time.Now().Add(-lateArrivals) // others may find what we shall find, too
	end, err := r.stream.ReadToEnd(ctx, r.subjects(), after, func(m *stream.Message) error {
		r.turn() // a million messages take minutes
		if e, err := events.Decode(m.Header, m.Data); err == nil {
			s.present[e.ID] = m.Sequence
			offered := e.StoreID == r.o.StoreID && e.Sequence <= s.cursor.Position
			others = others || !offered && slices.Contains(agencies, e.AgencyID) && e.RecordedTime.After(recently)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !others {
		s.cursor.Read = max(s.cursor.Read, end)
	}
	s.compared, s.relearns = server, s.relearns || s.cursor.Highest == 0 && len(s.present) > 0
	return nil
}

func (r *Relay) subjects() string { return events.StreamSubjects(r.o.Prefix) }
