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

// reportEvery bounds how often it is reported what others have written: each report is an event in the stream beside it.
const reportEvery = time.Minute

// reconcile finds out what the stream holds of this agency, and brings cursor and fence up to date with it: after a doubt and
// at the beginning of each session.
func (l *worker) reconcile(ctx context.Context, s session) error {
	c, err := l.r.o.Log.Cursor(l.agency)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	info, err := l.r.state(ctx)
	if err != nil {
		return err
	}
	if created := info.Created.UTC(); !created.Equal(l.created) {
		l.created, l.foreign.seen = created, 0
	}
	l.cursor = c
	l.arrived, l.unsent, l.page, l.pageBytes, l.taken = nil, nil, nil, 0, 0
	loss, err := l.findLoss(ctx, info)
	if err != nil {
		return err
	}
	after := l.cursor.StreamSequence
	if loss == "" {
		l.repair = repair{} // in place, or removed on purpose
	} else if after, err = l.resendLost(ctx, s, loss); err != nil {
		return err
	}
	if err := l.readOn(ctx, after); err != nil {
		return err
	}
	return l.reportFound()
}

// findLoss says whether the stream has lost what it had acknowledged, and how; empty: that is not proven.
func (l *worker) findLoss(ctx context.Context, info *jetstream.StreamInfo) (reason string, err error) {
	c := l.cursor
	switch {
	case c.Sequence == 0:
		return "", nil
	case !info.Created.Equal(c.StreamCreated):
		return reasonRecreated, nil
	case info.State.LastSeq < c.StreamSequence:
		return reasonTailLost, nil
	case c.StreamSequence == 0:
		return "", nil
	}
	m, err := l.r.stream.Get(ctx, stream.Query{Sequence: c.StreamSequence})
	if err != nil || m == nil || m.Header.Get("ce-id") == c.ID {
		return "", err
	}
	if e, ok := l.importable(m); ok && e.Sequence < c.Sequence { // see readOn
		known, err := l.isKnown(e)
		if err != nil {
			return "", err
		}
		if erased, err := l.endErased(); err != nil || known && erased {
			return "", err
		}
	}
	return reasonTailLost, nil
}

// endErased says whether the event at the cursor was erased.
func (l *worker) endErased() (bool, error) {
	found, err := l.r.o.Log.Read(l.agency, l.cursor.Sequence-1, 1, 1)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	return len(found) == 1 && found[0].ID == l.cursor.ID && found[0].Erased(), nil
}

// resendLost sends again what follows the newest event that is still in place, and is nowhere in the stream; where that was made anew,
// nothing is in place. The cursor stays until that is done: were the process to end now, the next one would find the same, less what
// has been sent by then. It returns behind which place the stream is to be read.
func (l *worker) resendLost(ctx context.Context, s session, reason string) (after uint64, err error) {
	c := newComparer(l.r, l.agency)
	if err := c.run(ctx); err != nil {
		return 0, err
	}
	if found := c.unerased; len(found) > 0 { // the stream was put back from an older copy
		n, err := l.r.eraseStanding(ctx, found)
		l.r.tellErased(l.agency, len(found), n, err)
		if n > 0 { // the fence, and what is in place, may be of those
			c = newComparer(l.r, l.agency)
			if err := c.run(ctx); err != nil {
				return 0, err
			}
		}
	}
	inPlace := c.inPlace // what is missing before it was removed on purpose, and what stands before it was read
	if reason == reasonRecreated {
		inPlace = events.Cursor{}
	}
	l.foreign.seen = min(l.foreign.seen, inPlace.StreamSequence)
	if _, err := l.sendMissing(ctx, s, c, inPlace.Sequence); err != nil {
		return 0, err
	}
	done := l.repair
	l.repair = repair{}
	if err := l.report(reason, cmp.Or(done.from, max(inPlace.Sequence+1, c.first)), l.cursor.Sequence, done.sent); err != nil {
		return 0, err
	}
	l.cursor.StreamSequence, l.cursor.StreamCreated = 0, l.created // until its event is met; after a crash all is read
	if err := l.r.o.Log.SetCursor(l.agency, l.cursor); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrLog, err)
	}
	return inPlace.StreamSequence, nil
}

// readOn reads what the stream holds of the agency after a place: our next events have arrived, those that the log does not have are
// imported, all else is stepped over. The fence becomes the last message that was seen; whatever arrives later fails the fence.
func (l *worker) readOn(ctx context.Context, after uint64) error {
	unplaced := l.cursor.StreamSequence == 0
	last, err := l.r.stream.ReadToEnd(ctx, l.filter, after, l.meet)
	if errCommit := l.commit(); errCommit != nil {
		return errCommit
	}
	l.fence = last
	if err != nil || !unplaced {
		return err
	}
	if l.cursor.StreamSequence == 0 { // its event is nowhere: where it was erased, the last one before it stands for it
		erased, err := l.endErased()
		if err != nil || !erased || last == 0 {
			return err
		}
		l.cursor.StreamSequence = last
	}
	if err := l.r.o.Log.SetCursor(l.agency, l.cursor); err != nil { // else another loss before the next event would not be found
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	return nil
}

// meet takes notice of one message.
func (l *worker) meet(m *stream.Message) error {
	e, ok := l.importable(m)
	if !ok {
		l.countForeign(m)
		return nil
	}
	if known, err := l.isKnown(e); err != nil || known {
		if known && e.ID == l.cursor.ID {
			l.cursor.StreamSequence = m.Sequence
		}
		return err
	}
	if next, err := l.isNext(e); err != nil {
		return err
	} else if next {
		l.arrived, l.unsent = append(l.arrived, l.unsent[0].WithSequence(e.Sequence)), l.unsent[1:]
		l.advance(e, m.Sequence)
		if len(l.unsent) == 0 {
			return l.commit()
		}
		return nil
	}
	if len(l.arrived) > 0 {
		if err := l.commit(); err != nil {
			return err
		}
	}
	l.page = append(l.page, e)
	l.pageBytes += len(e.Data)
	if e.Sequence > l.cursor.Sequence {
		l.advance(e, m.Sequence)
	}
	if len(l.page) >= importEvents || l.pageBytes >= importBytes {
		return l.commit()
	}
	return nil
}

// countForeign notes a message that is not ours, once.
func (l *worker) countForeign(m *stream.Message) {
	if m.Sequence <= l.foreign.seen {
		return
	}
	l.foreign.seen = m.Sequence
	l.foreign.count++
	l.show(func(s *AgencyStatus) { s.Foreign++ })
	l.r.o.Logger.Debug("message stepped over", "agency", l.agency, "stream_sequence", m.Sequence)
}

const (
	importEvents = 256
	importBytes  = 1 << 20
	// maxSequence is the highest sequence that is believed: there is room to count on.
	maxSequence = 1 << 62
)

// importable returns the event that a message is, if it is one of this agency in every respect.
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

// claim is which event a message says it is.
func claim(m *stream.Message) (sequence uint64, id string, ok bool) {
	id = m.Header.Get("ce-id")
	sequence, err := strconv.ParseUint(m.Header.Get("ce-sequence"), 10, 64)
	return sequence, id, err == nil && sequence > 0 && id != "" && m.Header.Get(nats.MsgIdHdr) == id
}

// isKnown says whether the log has an event of the stream among its published ones, or has had it: one of our own from before its
// beginning was trimmed. One of our own in the middle that it does not have is of an earlier life of this store.
func (l *worker) isKnown(e events.Event) (bool, error) {
	for _, after := range []uint64{e.Sequence - 1, 0} {
		found, err := l.r.o.Log.Read(l.agency, after, 1, 1)
		switch {
		case err != nil:
			return false, fmt.Errorf("%w: %w", ErrLog, err)
		case len(found) == 0:
			return false, nil
		case found[0].Sequence == e.Sequence:
			return found[0].ID == e.ID, nil
		case found[0].Sequence > e.Sequence && after == 0:
			return e.StoreID == l.r.o.StoreID, nil
		}
	}
	return false, nil
}

// isNext says whether an event of the stream is our next unsent one, the answer to whose batch was lost, and not what the store had
// published before it was set back: that has the same id, and perhaps happened before.
func (l *worker) isNext(e events.Event) (bool, error) {
	if len(l.page) > 0 || e.Sequence <= l.cursor.Sequence {
		return false, nil
	}
	if len(l.unsent) == 0 {
		next, err := l.r.o.Log.Unsent(l.agency, importEvents, importBytes)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrLog, err)
		}
		l.unsent = next
	}
	return len(l.unsent) > 0 && l.unsent[0].ID == e.ID && l.unsent[0].StoreID == e.StoreID && l.unsent[0].RecordedTime.Equal(e.RecordedTime), nil
}

// commit makes durable what was read: of our own events that they have arrived, of others that they are published.
func (l *worker) commit() (err error) {
	arrived, page := l.arrived, l.page
	l.arrived, l.unsent, l.page, l.pageBytes = nil, nil, nil, 0 // what waits may be published already
	switch {
	case len(arrived) > 0:
		err = l.r.o.Log.Publish(l.agency, arrived, l.cursor)
	case len(page) > 0:
		err = l.r.o.Log.Import(l.agency, page, l.cursor)
		l.taken += len(page)
		l.imported.count(page)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	l.show(func(a *AgencyStatus) { a.Acknowledged = l.cursor.Sequence })
	return nil
}

// imported is what was imported and not reported yet.
type imported struct {
	from, to uint64
	events   int
	news     bool // there are others among them than reports like ours
}

func (i *imported) count(list []events.Event) {
	for _, e := range list {
		if i.events == 0 || e.Sequence < i.from {
			i.from = e.Sequence
		}
		i.to, i.events = max(i.to, e.Sequence), i.events+1
		i.news = i.news || e.Type != events.TypeWatchStreamRepaired
	}
}

// reportFound reports what others have written, at most once a minute. Reports alone are not reported: two doorbells of one agency
// would never end.
func (l *worker) reportFound() error {
	if l.foreign.count+l.imported.events == 0 || time.Since(l.reported) < reportEvery {
		return nil
	}
	if l.foreign.count > 0 {
		l.r.o.Logger.Warn("the stream holds messages that are not ours", "agency", l.agency, "count", l.foreign.count,
			"last_stream_sequence", l.foreign.seen)
		if err := l.report(reasonForeign, l.cursor.Sequence, l.cursor.Sequence, 0); err != nil {
			return err
		}
	}
	if i := l.imported; i.events > 0 {
		l.r.o.Logger.Warn("events of the stream were imported into the log, which did not have them", "agency", l.agency,
			"from", i.from, "to", i.to, "count", i.events)
		if i.news {
			if err := l.report(reasonImported, i.from, i.to, 0); err != nil {
				return err
			}
		}
	}
	l.foreign.count, l.imported, l.reported = 0, imported{}, time.Now()
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

// state asks for the stream's creation time and last sequence.
func (r *Relay) state(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := r.js.Stream(ctx, r.o.Stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", r.o.Stream, err)
	}
	return s.CachedInfo(), nil
}
