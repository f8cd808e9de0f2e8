package relay

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Reasons of watch.stream_repaired.
const (
	reasonTailLost  = "tail_lost"
	reasonRecreated = "recreated"
	reasonForeign   = "foreign_message"
	reasonImported  = "imported"
	reasonMissing   = "missing" // not at the end, and sent again on request
)

// reportEvery bounds how often foreign messages are reported: each report is an event in the stream that they are in.
const reportEvery = time.Minute

// reconcile finds out what the stream holds of this agency, and brings place and fence up to date with it: after a doubt and
// at the beginning of each session.
func (l *worker) reconcile(ctx context.Context) error {
	c, err := l.r.o.Log.Cursor(l.agency)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	info, err := l.r.state(ctx)
	if err != nil {
		return err
	}
	l.cursor, l.place, l.created = c, c, info.Created.UTC()
	l.incoming, l.confirmed, l.unsent, l.rival.taken = importing{}, nil, nil, 0
	l.streamed = streamed{places: map[string]uint64{}}
	if c.Sequence > 0 && !info.Created.Equal(c.StreamCreated) {
		return l.reconcileLoss(ctx, reasonRecreated)
	}
	if c.StreamSequence == 0 {
		return l.readOn(ctx, 0)
	}
	if info.State.LastSeq < c.StreamSequence {
		return l.reconcileLoss(ctx, reasonTailLost)
	}
	m, err := l.r.stream.Get(ctx, stream.Query{Sequence: c.StreamSequence})
	if err != nil {
		return err
	}
	if m != nil && m.Header.Get("ce-id") != c.ID {
		return l.reconcileLoss(ctx, reasonTailLost)
	}
	l.repair = repair{} // in place, or removed on purpose
	return l.readOn(ctx, c.StreamSequence)
}

// readOn reads what the stream holds of the agency after a place in the stream: our next events have arrived, those that the
// log does not have are taken over, all else is stepped over. The fence becomes the last message that was seen; whatever
// arrives later fails the fence.
func (l *worker) readOn(ctx context.Context, after uint64) (err error) {
	if l.fence, err = l.readToEnd(ctx, after); err != nil {
		return err
	}
	return l.settle()
}

// readToEnd returns the place of the last message of the agency, also where it is not behind after; 0 if there is none.
func (l *worker) readToEnd(ctx context.Context, after uint64) (uint64, error) {
	last, err := l.readForward(ctx, after)
	if err != nil || last > after {
		return last, err
	}
	m, err := l.r.stream.Get(ctx, stream.Query{Last: l.filter})
	if err != nil || m == nil {
		return 0, err
	}
	if m.Sequence <= after {
		return m.Sequence, nil
	}
	last, err = l.readForward(ctx, after) // it came in between
	if err != nil || last > after {
		return last, err
	}
	if err := l.meet(m); err != nil { // a server that finds it from behind only
		return 0, err
	}
	return m.Sequence, l.flush()
}

// readForward returns the last place that it read, or after if there was none.
func (l *worker) readForward(ctx context.Context, after uint64) (uint64, error) {
	for m, err := range l.r.stream.Read(ctx, l.filter, after) {
		if err != nil {
			return after, cmp.Or(l.flush(), err)
		}
		if err := l.meet(m); err != nil {
			return after, err
		}
		after = m.Sequence
	}
	return after, l.flush()
}

// meet takes notice of one message.
func (l *worker) meet(m *stream.Message) error {
	known, ours, err := l.recognise(m)
	switch {
	case err != nil:
		return err
	case ours && known.Sequence > l.place.Sequence: // it need not be sent again
		l.streamed.places[known.ID] = m.Sequence
		if !l.streamed.anew && m.Header.Get(events.ResentHeader) == "" { // nor what should stand before it: it does, or was removed
			l.advance(known, m.Sequence)
		}
		return nil
	case ours:
		return nil
	}
	e, ok := l.importable(m)
	switch {
	case !ok:
		l.countForeign(m)
		return nil
	case l.streamed.above || l.place.Sequence < l.cursor.Sequence: // were the cursor to move now, the lost tail would not be sent again
		l.streamed.places[e.ID] = m.Sequence
		if e.Sequence > l.cursor.Sequence {
			l.streamed.above = true
			return nil
		}
	}
	if arrived, err := l.confirm(e, m); err != nil || arrived {
		return err
	}
	return l.importEvent(e, m)
}

// confirm is true if an event of the stream is our next unsent one: the answer to its batch was lost.
func (l *worker) confirm(e events.Event, m *stream.Message) (bool, error) {
	if e.Sequence <= max(l.place.Sequence, l.cursor.Sequence) {
		return false, nil
	}
	for {
		if l.unsent == nil {
			next, err := l.r.o.Log.Unsent(l.agency, importEvents, importBytes)
			if err != nil {
				return false, fmt.Errorf("%w: %w", ErrLog, err)
			}
			l.unsent = append([]events.Event{}, next...)
		}
		if len(l.unsent) == 0 || !isSent(l.unsent[0], e) {
			return false, nil
		}
		if len(l.incoming.page) == 0 {
			break
		}
		if err := l.commitImport(); err != nil { // after which it may be published already
			return false, err
		}
	}
	next := l.unsent[0].WithSequence(e.Sequence)
	l.confirmed, l.unsent = append(l.confirmed, next), l.unsent[1:]
	l.advance(next, m.Sequence)
	if len(l.unsent) == 0 {
		return true, l.flush()
	}
	return true, nil
}

// isSent says whether an event of the stream is this unsent one, and not what the store had published before it was set back: that has
// the same id, and perhaps happened before.
func isSent(unsent, e events.Event) bool {
	return unsent.ID == e.ID && unsent.StoreID == e.StoreID && unsent.RecordedTime.Equal(e.RecordedTime)
}

// flush commits what reconciling has found.
func (l *worker) flush() error {
	if len(l.confirmed) > 0 {
		arrived := l.confirmed
		l.confirmed, l.unsent = nil, nil
		return l.commit(arrived, l.place.StreamSequence)
	}
	return l.commitImport()
}

// reconcileLoss handles a stream that lost what it had acknowledged. It finds the newest event that is still in place; what follows it, up
// to the cursor, and is nowhere in the stream is sent again by the worker. Of a stream that was made anew nothing is in place, so all
// of it is read. The cursor stays until that is done: were the process to end now, the next one would find the same, less what has
// been sent by then.
func (l *worker) reconcileLoss(ctx context.Context, reason string) error {
	l.place, l.streamed.anew = events.Cursor{}, reason == reasonRecreated
	newest, err := l.r.stream.Get(ctx, stream.Query{Last: l.filter})
	if err != nil {
		return err
	}
	l.fence = 0
	if newest != nil {
		l.fence = newest.Sequence
		e, ours, err := l.recognise(newest)
		if err != nil {
			return err
		}
		if ours && !l.streamed.anew && newest.Header.Get(events.ResentHeader) == "" { // what was sent again may stand behind later ones
			l.advance(e, newest.Sequence)
		} else if l.fence, err = l.readToEnd(ctx, 0); err != nil {
			return err
		}
	}
	if l.repair.again = l.repair.reason != ""; !l.repair.again {
		l.repair = repair{reason: reason, from: l.place.Sequence + 1, upTo: l.place.Sequence}
	}
	l.repair.to = l.cursor.Sequence
	return l.settle()
}

// countForeign notes a message that is not ours, once.
func (l *worker) countForeign(m *stream.Message) {
	if m.Sequence <= l.foreign.seen && l.foreign.created.Equal(l.created) {
		return
	}
	l.foreign.seen, l.foreign.created = m.Sequence, l.created
	l.foreign.unreported++
	l.show(func(s *AgencyStatus) { s.Foreign++ })
	l.r.o.Logger.Debug("message stepped over", "agency", l.agency, "stream_sequence", m.Sequence)
}

// settle makes what was found durable: the cursor where events have arrived, the reports where there is something to tell.
func (l *worker) settle() error {
	if err := l.store(); err != nil {
		return err
	}
	if err := l.reportImport(); err != nil {
		return err
	}
	if l.foreign.unreported == 0 || time.Since(l.foreign.reported) < reportEvery && !l.foreign.reported.IsZero() {
		return nil
	}
	l.r.o.Logger.Warn("the stream holds messages that are not ours", "agency", l.agency, "count", l.foreign.unreported,
		"last_stream_sequence", l.foreign.seen)
	if err := l.report(reasonForeign, l.place.Sequence, l.place.Sequence, 0); err != nil {
		return err
	}
	l.foreign.unreported, l.foreign.reported = 0, time.Now()
	return nil
}

// report appends watch.stream_repaired to the agency's own log, from where it is published like any event.
func (l *worker) report(reason string, from, to uint64, sent int) error {
	from = min(from, to) // nothing was missing
	e, err := events.New(&events.WatchStreamRepaired{
		Common:       events.Common{AgencyID: l.agency, ObservedAt: time.Now()},
		Reason:       reason,
		FromSequence: from, ToSequence: to, SentAgain: sent,
	})
	if err != nil {
		return err
	}
	if err := l.r.o.Log.Append(e); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	l.r.o.Logger.Warn("stream repaired", "agency", l.agency, "reason", reason, "from", from, "to", to, "sent_again", sent)
	return nil
}

// The stream is the second memory: what it holds of an agency and the log does not, because the log is a restored backup or
// a new one, is taken over page by page.

const (
	importEvents = 256
	importBytes  = 1 << 20
	// maxSequence is the highest sequence that is believed: there is room to count on.
	maxSequence = 1 << 62
)

// importing is what a reconcile has found in the stream that the log does not have.
type importing struct {
	page  []events.Event // in the order of the stream
	news  []events.Event // those of them that continue the log
	bytes int
}

// imported is what was taken over and not reported yet.
type imported struct {
	from, to uint64
	events   int
	news     bool // there are others among them than reports like ours
	reported time.Time
}

// importable returns the event that a message is, if it is one of this agency in every respect. That the log does not have it
// is known already.
func (l *worker) importable(m *stream.Message) (events.Event, bool) {
	sequence, id, ok := claim(m)
	if !ok || sequence > maxSequence {
		return events.Event{}, false
	}
	e, err := events.Decode(m.Header, m.Data)
	ok = err == nil && e.ID == id && e.AgencyID == l.agency && e.StoreID != "" && e.Origin != events.OriginReplay &&
		m.Subject == events.Subject(l.r.o.Prefix, l.agency, e.Type)
	return e, ok
}

// importEvent takes a message into the log that is an event of this agency and not in it.
func (l *worker) importEvent(e events.Event, m *stream.Message) error {
	late := e.Sequence <= max(l.place.Sequence, l.cursor.Sequence)
	if late {
		if wanted, err := l.late(e, m); err != nil || !wanted {
			return err
		}
	}
	if len(l.incoming.page) == 0 {
		if err := l.flush(); err != nil {
			return err
		}
		if err := l.store(); err != nil {
			return err
		}
	}
	l.incoming.page = append(l.incoming.page, e)
	l.incoming.bytes += len(e.Data)
	if !late {
		l.incoming.news = append(l.incoming.news, e)
		l.advance(e, m.Sequence)
	}
	if len(l.incoming.page) >= importEvents || l.incoming.bytes >= importBytes {
		return l.commitImport()
	}
	return nil
}

// late is an event whose sequence the published part of the log has for another one: two stores counted on their own. Its
// id is remembered, if that is wanted. One of our own is not where the log begins behind it: it was trimmed. In the middle of the log
// it is of an earlier life of this store, and was sent again behind later ones.
func (l *worker) late(e events.Event, m *stream.Message) (wanted bool, err error) {
	there, err := l.logged(e.Sequence)
	switch {
	case err != nil:
		return false, err
	case there == nil: // perhaps it was imported, then trimmed
		first, err := l.r.o.Log.Read(l.agency, 0, 1, 1)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrLog, err)
		}
		return e.StoreID != l.r.o.StoreID || len(first) == 0 || first[0].Sequence < e.Sequence, nil
	case there.ID == e.ID:
		return false, nil
	}
	l.countForeign(m)
	return true, nil
}

// logged is the event that the log has at a sequence, or will have with the page that was read; nil if there is none.
func (l *worker) logged(sequence uint64) (*events.Event, error) {
	for i := range l.incoming.page {
		if l.incoming.page[i].Sequence == sequence {
			return &l.incoming.page[i], nil
		}
	}
	found, err := l.r.o.Log.Read(l.agency, sequence-1, 1, 1)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLog, err)
	}
	if len(found) == 0 || found[0].Sequence != sequence {
		return nil, nil
	}
	return &found[0], nil
}

// commitImport commits the page that was read. While a lost tail is sent again the cursor stays.
func (l *worker) commitImport() error {
	page, news := l.incoming.page, l.incoming.news
	if len(page) == 0 {
		return nil
	}
	cursor := l.place
	if cursor.Sequence < l.cursor.Sequence {
		cursor = l.cursor
	}
	if err := l.r.o.Log.Import(l.agency, page, cursor); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	l.incoming, l.unsent = importing{}, nil // what waits may be published already
	l.rival.taken += len(page)
	l.cursor = cursor
	l.show(func(a *AgencyStatus) { a.Acknowledged = l.cursor.Sequence })
	if len(news) == 0 {
		return nil
	}
	d := &l.imported
	if d.events == 0 {
		d.from = news[0].Sequence
	}
	d.to, d.events = news[len(news)-1].Sequence, d.events+len(news)
	for _, e := range news {
		d.news = d.news || e.Type != events.TypeWatchStreamRepaired
	}
	return nil
}

// reportImport tells what was taken over, at most once a minute. Reports alone are not reported: two doorbells of one agency
// would never end.
func (l *worker) reportImport() error {
	d := &l.imported
	if d.events == 0 || time.Since(d.reported) < reportEvery && !d.reported.IsZero() {
		return nil
	}
	l.r.o.Logger.Warn("events of the stream were taken into the log, which did not have them", "agency", l.agency,
		"from", d.from, "to", d.to, "count", d.events)
	if !d.news {
		*d = imported{reported: d.reported}
		return nil
	}
	if err := l.report(reasonImported, d.from, d.to, 0); err != nil {
		return err
	}
	*d = imported{reported: time.Now()}
	return nil
}

// claim is which event a message says it is.
func claim(m *stream.Message) (sequence uint64, id string, ok bool) {
	id = m.Header.Get("ce-id")
	sequence, err := strconv.ParseUint(m.Header.Get("ce-sequence"), 10, 64)
	return sequence, id, err == nil && sequence > 0 && id != "" && m.Header.Get(nats.MsgIdHdr) == id
}

// recognise returns the event of the log that a message is. It is false for what is not ours: a foreign message, and also an event
// of ours that this log does not have. The second kind is taken over.
func (l *worker) recognise(m *stream.Message) (events.Event, bool, error) {
	sequence, id, ok := claim(m)
	if !ok {
		return events.Event{}, false, nil
	}
	found, err := l.r.o.Log.Read(l.agency, sequence-1, 1, 1)
	if err != nil {
		return events.Event{}, false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	if len(found) == 0 || found[0].Sequence != sequence || found[0].ID != id ||
		found[0].StoreID != m.Header.Get("ce-storeid") || m.Subject != events.Subject(l.r.o.Prefix, l.agency, found[0].Type) {
		return events.Event{}, false, nil
	}
	return found[0], true, nil
}

// state asks for the stream's creation time and last sequence.
func (r *Relay) state(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := r.js.Stream(ctx, r.o.Stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", r.o.Stream, err)
	}
	return s.CachedInfo(), nil
}
