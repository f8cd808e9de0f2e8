package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// session is what the relay knows about the stream since it last prepared, and how far the log is
// published.
type session struct {
	prepared   time.Time // when the relay prepared last; zero: it has to prepare first
	reconnects uint64    // the number of reconnects before that
	maxMessage int       // limit in bytes on headers and payload of one message together
	window     time.Duration

	// the server or leader whose stream compare has read; empty: it has to
	compared string
	present  map[string]uint64 // the ids of the events that it found, with their stream sequences
	// compare has erased damaged messages, and the server was not restarted since
	erased bool
	// the store was lost or set back, and may log any event of the stream again
	relearns bool

	loaded bool // the cursor was read
	cursor events.Cursor
	doubt  map[uint64]bool // positions of events that were sent and not acknowledged
	// of each agency, the newest acknowledged position since the cursor was written
	newest map[string]uint64
}

// ready prepares if that is due: after a failure, a rewind or a reconnect, and once a minute.
func (r *Relay) ready(ctx context.Context) error {
	s, reconnects := &r.session, r.o.Conn.Stats().Reconnects
	if !s.prepared.IsZero() && time.Since(s.prepared) < prepareEvery &&
		s.reconnects == reconnects && r.o.Conn.IsConnected() {
		return nil
	}
	if !r.o.Embedded && (s.prepared.IsZero() || s.reconnects != reconnects) {
		s.compared = "" // the server may have been restarted
	}
	s.prepared, s.reconnects = time.Time{}, reconnects
	return r.prepare(ctx)
}

// prepare makes sure that the stream can be used, and finds out whether the stream has lost events
// and whether the store was set back.
func (r *Relay) prepare(ctx context.Context) error {
	s := &r.session
	if !s.loaded {
		c, err := r.o.Log.Cursor()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		s.cursor, s.loaded = c, true
	}
	if r.o.Conn.IsClosed() {
		return ErrClosed
	}
	if !r.o.Conn.IsConnected() {
		return stream.ErrNotConnected
	}
	info, err := r.inspect(ctx)
	if err != nil {
		return err
	}
	why, err := r.lost(ctx, info)
	if err != nil {
		return err
	}
	if why != "" {
		if err := r.rewind(info.Created, why); err != nil {
			return err
		}
	}
	s.cursor.StreamCreated = info.Created
	if err := r.compare(ctx, info); err != nil {
		return err
	}
	if err := r.meetOthers(ctx); err != nil {
		return err
	}
	if err := r.erasePending(ctx); err != nil {
		return err
	}
	s.prepared = time.Now()
	return nil
}

// lost returns why the stream must have lost events that it had acknowledged; empty if nothing
// shows that it has.
func (r *Relay) lost(ctx context.Context, info *jetstream.StreamInfo) (why string, err error) {
	c := r.session.cursor
	switch {
	case c.Position == 0:
		return "", nil
	case !c.StreamCreated.Equal(info.Created):
		return "it was recreated", nil
	case info.State.LastSeq < c.StreamSequence:
		return "it ends before the last acknowledged message", nil
	case c.StreamSequence == 0:
		return "", nil
	}
	m, err := r.stream.Get(ctx, stream.Query{Sequence: c.StreamSequence})
	if err != nil {
		return "", err
	}
	if m != nil && m.Header.Get(nats.MsgIdHdr) != c.ID {
		return "another message is in the place of the last acknowledged one", nil
	}
	return "", nil // no message: it expired, or was purged or deleted, which is respected
}

// rewind moves the cursor to the beginning of the log: everything is offered again.
func (r *Relay) rewind(created time.Time, why string) error {
	s := &r.session
	r.o.Logger.Warn("the stream has lost events: those in the log are offered again",
		"stream", r.o.Stream, "why", why)
	s.cursor = events.Cursor{StreamCreated: created, Highest: s.cursor.Highest}
	s.prepared, s.compared, s.present = time.Time{}, "", nil
	return r.write()
}

// meetOthers reads the last message of each agency. If it carries our store id and a position
// beyond the log, the store was set back. If it carries another store id and was recorded after
// this relay was made, a second doorbell publishes the agency.
func (r *Relay) meetOthers(ctx context.Context) error {
	agencies, err := r.o.Log.Agencies()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	setBack := uint64(0) // the highest position that this store had used before
	for _, agency := range agencies {
		m, err := r.stream.Get(ctx, stream.Query{Last: events.AgencyFilter(r.o.Prefix, agency)})
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		e, err := events.Decode(m.Header, m.Data)
		switch {
		case err != nil: // not written by a doorbell
		case e.StoreID != r.o.StoreID:
			if e.RecordedTime.After(r.started) {
				r.rival(agency, e.RecordedTime)
			}
		default:
			behind, err := r.behind(e)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrLog, err)
			}
			if behind {
				setBack = max(setBack, e.Sequence)
			}
		}
	}
	if setBack == 0 {
		return nil
	}
	r.session.relearns = true
	r.o.Logger.Warn(
		"the store is older than the stream, as after a restored backup: it continues after what it has published", "stream", r.o.Stream)
	for _, agency := range agencies {
		if err := r.o.SetBack(agency); err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		if err := r.applyRedactions(ctx, agency); err != nil {
			return err
		}
	}
	// last: the next prepare would not see that the store was set back
	if err := r.o.Log.Reserve(setBack); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	return nil
}

// behind reports whether the log ends before an event that this store has published, or holds
// another event at its position.
func (r *Relay) behind(e events.Event) (bool, error) {
	last, err := r.o.Log.LastPosition()
	if err != nil {
		return false, err
	}
	if e.Sequence > last {
		return true, nil
	}
	ours, found, err := r.o.Log.Lookup(e.Sequence)
	return found && ours.ID != e.ID, err
}

// applyRedactions hands the redactions in the stream to the store, which erases the people they
// name.
func (r *Relay) applyRedactions(ctx context.Context, agency string) error {
	var list []events.Event
	for m, err := range r.stream.Read(ctx,
		events.Subject(r.o.Prefix, agency, events.TypeContactRequestRedacted), 0) {
		if err != nil {
			return err
		}
		if e, err := events.Decode(m.Header, m.Data); err == nil && e.AgencyID == agency {
			list = append(list, e)
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := r.o.Redacted(agency, list); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	return nil
}

// lateArrivals is how long a contact request may take to be found: by how much one that the stream
// lacks may be older than the newest one there, and how far two doorbells may lie apart.
const lateArrivals = 48 * time.Hour

// WatchedSince is for a store that never watched an agency. It returns since when another store has
// watched it: contact requests created after that moment are new, or already in the stream. The
// time is zero if the stream holds nothing of the agency. Redactions in the stream have been passed
// to Options.Redacted when it returns.
func (r *Relay) WatchedSince(ctx context.Context, agency string) (since time.Time, err error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return since, err
	}
	defer unlock()
	if err := r.ready(ctx); err != nil {
		return since, r.explain(err)
	}
	recorded := func(q stream.Query) (at time.Time) { // zero: there is no such event
		m, failed := r.stream.Get(ctx, q)
		if err = cmp.Or(err, failed); m != nil {
			e, _ := events.Decode(m.Header, m.Data)
			at = e.RecordedTime
		}
		return at
	}
	// A redaction does not show that the agency was polled: an operator may ask for one at any
	// time.
	newest := recorded(
		stream.Query{Last: events.Subject(r.o.Prefix, agency, events.TypeContactRequestCreated)})
	changed := recorded(
		stream.Query{Last: events.Subject(r.o.Prefix, agency, events.TypeContactRequestChanged)})
	if changed.After(newest) {
		newest = changed
	}
	// The oldest is read last: another doorbell may just be publishing the first message of the
	// agency.
	since = recorded(stream.Query{Sequence: 1, Next: events.AgencyFilter(r.o.Prefix, agency)})
	if err != nil {
		return time.Time{}, r.explain(err)
	}
	if early := newest.Add(-lateArrivals); early.After(since) {
		since = early
	}
	return since, r.applyRedactions(ctx, agency)
}

// publish offers a page of the log, one event at a time, and reports whether more may follow. It
// writes the cursor after the page, but not for each page of positions that were acknowledged
// before: those are offered again after a crash without harm.
func (r *Relay) publish(ctx context.Context) (more bool, err error) {
	s := &r.session
	list, err := r.o.Log.Events(s.cursor.Position, pageEvents, pageBytes)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	for _, e := range list {
		if err = r.offer(ctx, e); err != nil || s.prepared.IsZero() { // the cursor went back
			break
		}
		if err = ctx.Err(); err != nil {
			break
		}
	}
	if len(s.newest) > 0 && (len(list) == 0 || s.cursor.Position > s.cursor.Highest) {
		if failed := r.write(); failed != nil {
			return false, failed
		}
	}
	return len(list) > 0, err
}

// mayOffer reports whether an event can be offered without being stored twice. The server may
// already have forgotten the id of an acknowledged event that is about to leave the window. It
// forgets the ids of deleted messages at a restart, so an erased event is never offered.
func (r *Relay) mayOffer(e events.Event) bool {
	s := &r.session
	known := s.window - min(time.Hour, s.window/10) // no id within that is about to be forgotten
	return !e.Erased() && (e.Sequence > s.cursor.Highest || time.Since(e.RecordedTime) < known)
}

// offer publishes an event, and moves the cursor when it is acknowledged, also as a duplicate. An
// event that may not be offered is passed over.
func (r *Relay) offer(ctx context.Context, e events.Event) error {
	s := &r.session
	if r.mayOffer(e) {
		ack, err := r.send(ctx, e)
		if err != nil {
			return err
		}
		if !ack.Duplicate {
			r.count(e.Type)
		}
		if !ack.Duplicate && ack.Sequence <= s.cursor.StreamSequence {
			return r.rewind(s.cursor.StreamCreated,
				"a new message was stored before the last acknowledged one")
		}
		if ack.Sequence > s.cursor.StreamSequence {
			s.cursor.StreamSequence, s.cursor.ID = ack.Sequence, e.ID
		}
		if ack.Sequence == s.cursor.Read+1 {
			s.cursor.Read++
		}
	}
	s.cursor.Position, s.newest[e.AgencyID] = e.Sequence, e.Sequence
	return nil
}

// send publishes an event unless the relay knows that the stream holds it.
func (r *Relay) send(ctx context.Context, e events.Event) (*jetstream.PubAck, error) {
	s := &r.session
	if sequence := s.present[e.ID]; sequence > 0 {
		return &jetstream.PubAck{Sequence: sequence, Duplicate: true}, nil
	}
	s.doubt[e.Sequence] = true
	ack, err := r.js.PublishMsg(ctx, r.message(e))
	if err != nil {
		return nil, err
	}
	delete(s.doubt, e.Sequence)
	return ack, nil
}

// message returns an event in the form in which it is published.
func (r *Relay) message(e events.Event) *nats.Msg {
	resent := e.Sequence <= r.session.cursor.Highest
	e = e.Fit(r.session.maxMessage)
	m := &nats.Msg{
		Subject: events.Subject(r.o.Prefix, e.AgencyID, e.Type),
		Header:  nats.Header(e.Header()), Data: e.Data,
	}
	m.Header[jetstream.ExpectedStreamHeader] = []string{r.o.Stream}
	if resent {
		m.Header[events.ResentHeader] = []string{"1"}
	}
	return m
}

// write stores the cursor.
func (r *Relay) write() error {
	s := &r.session
	if err := r.o.Log.Acknowledge(s.cursor, s.newest); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	s.cursor.Highest = max(s.cursor.Highest, s.cursor.Position)
	clear(s.newest)
	return nil
}

// explain says why NATS could not be used. An error of the log is returned as it is, whatever the
// state of the connection.
func (r *Relay) explain(err error) error {
	if errors.Is(err, ErrLog) || errors.Is(err, ErrClosed) {
		return err
	}
	return stream.Explain(r.o.Conn, err)
}
