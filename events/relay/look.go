package relay

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"doorbell/events"
)

// Reasons of watch.stream_repaired.
const (
	reasonTailLost  = "tail_lost"
	reasonRecreated = "recreated"
	reasonForeign   = "foreign_message"
	reasonImported  = "imported"
	reasonMissing   = "missing" // not at the end, and sent again on request
)

// reportEvery bounds how often strays are reported: each report is an event in the stream that the strays are in.
const reportEvery = time.Minute

// verify finds out what the stream holds of this agency, and brings place and fence up to date with it: after a doubt and
// at the beginning of each session.
func (l *lane) verify(ctx context.Context) error {
	c, err := l.r.o.Log.Cursor(l.agency)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	info, err := l.r.state(ctx)
	if err != nil {
		return err
	}
	l.cursor, l.place, l.created = c, c, info.Created.UTC()
	l.incoming, l.landed, l.unsent = importing{}, nil, nil
	l.fences, l.told = map[string]uint64{}, told{places: map[string]uint64{}}
	if c.Sequence > 0 && !info.Created.Equal(c.StreamCreated) {
		return l.mend(ctx, reasonRecreated)
	}
	if c.StreamSequence == 0 {
		return l.look(ctx, 0)
	}
	if info.State.LastSeq < c.StreamSequence {
		return l.mend(ctx, reasonTailLost)
	}
	m, err := l.r.get(ctx, query{Sequence: c.StreamSequence})
	if err != nil {
		return err
	}
	if m != nil && m.value("ce-id") != c.ID {
		return l.mend(ctx, reasonTailLost)
	}
	l.repair = repair{} // in place, or removed on purpose
	return l.look(ctx, c.StreamSequence)
}

// look reads what the stream holds of the agency after a place in the stream: our next events have landed, those that the
// log does not have are taken over, all else is stepped over. The fence becomes the last message that was seen; whatever
// arrives later fails the fence.
func (l *lane) look(ctx context.Context, after uint64) error {
	last, err := l.readForward(ctx, after)
	if err != nil {
		return err
	}
	for last == after { // nothing there: what is the last one before?
		m, err := l.r.get(ctx, query{Last: l.filter})
		if err != nil {
			return err
		}
		if m == nil {
			last = 0
			break
		}
		if m.sequence <= after {
			last = m.sequence
			break
		}
		if last, err = l.readForward(ctx, after); err != nil { // it came in between
			return err
		}
	}
	l.fence = last
	return l.settle()
}

// readForward returns the last place that it read, or after if there was none.
func (l *lane) readForward(ctx context.Context, after uint64) (uint64, error) {
	for {
		m, err := l.r.get(ctx, query{Sequence: after + 1, Next: l.filter})
		if err != nil || m == nil {
			return after, cmp.Or(l.flush(), err)
		}
		if err := l.meet(m); err != nil {
			return after, err
		}
		after = m.sequence
	}
}

// meet takes notice of one message.
func (l *lane) meet(m *stored) error {
	known, ours, err := l.recognise(m)
	switch {
	case err != nil:
		return err
	case ours && known.Sequence > l.place.Sequence: // it need not be sent again
		l.told.places[known.ID] = m.sequence
		if !l.told.anew && m.value(headerResent) == "" { // nor what should stand before it: it does, or was removed
			l.advance(known, m.sequence)
		}
		return nil
	case ours:
		return nil
	}
	e, ok := l.newcomer(m)
	switch {
	case !ok:
		l.strayed(m)
		return nil
	case l.told.above || l.place.Sequence < l.cursor.Sequence: // were the cursor to move now, the lost tail would not be sent again
		l.told.places[e.ID] = m.sequence
		if e.Sequence > l.cursor.Sequence {
			l.told.above = true
			return nil
		}
	}
	if landed, err := l.land(e, m); err != nil || landed {
		return err
	}
	return l.adopt(e, m)
}

// land is true if an event of the stream is our next unsent one: the answer to its batch was lost.
func (l *lane) land(e events.Event, m *stored) (bool, error) {
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
		if err := l.takeOver(); err != nil { // after which it may be told
			return false, err
		}
	}
	next := l.unsent[0].WithSequence(e.Sequence)
	l.landed, l.unsent = append(l.landed, next), l.unsent[1:]
	l.advance(next, m.sequence)
	if len(l.unsent) == 0 {
		return true, l.flush()
	}
	return true, nil
}

// isSent says whether an event of the stream is this unsent one, and not what the store has told before it was set back: that has
// the same id, and perhaps happened before.
func isSent(unsent, e events.Event) bool {
	return unsent.ID == e.ID && unsent.StoreID == e.StoreID && unsent.RecordedTime.Equal(e.RecordedTime)
}

// flush commits what the look has found.
func (l *lane) flush() error {
	if len(l.landed) > 0 {
		landed := l.landed
		l.landed, l.unsent = nil, nil
		return l.commit(landed, l.place.StreamSequence)
	}
	return l.takeOver()
}

// mend handles a stream that lost what it had acknowledged. It finds the newest event that is still in place; what follows it, up
// to the cursor, and is nowhere in the stream is sent again by the lane. Of a stream that was made anew nothing is in place, so all
// of it is read. The cursor stays until that is done: were the process to end now, the next one would find the same, less what has
// been sent by then.
func (l *lane) mend(ctx context.Context, reason string) error {
	l.place, l.told.anew = events.Cursor{}, reason == reasonRecreated
	newest, err := l.r.get(ctx, query{Last: l.filter})
	if err != nil {
		return err
	}
	l.fence = 0
	if newest != nil {
		l.fence = newest.sequence
		e, ours, err := l.recognise(newest)
		if err != nil {
			return err
		}
		if ours && !l.told.anew && newest.value(headerResent) == "" { // what was sent again may stand behind later ones
			l.advance(e, newest.sequence)
		} else if err := l.scan(ctx); err != nil {
			return err
		}
	}
	if l.repair.again = l.repair.reason != ""; !l.repair.again {
		l.repair = repair{reason: reason, from: l.place.Sequence + 1, upTo: l.place.Sequence}
	}
	l.repair.to = l.cursor.Sequence
	return l.settle()
}

// scan reads everything that the stream holds of the agency, because its last message is not ours.
func (l *lane) scan(ctx context.Context) error {
	last, err := l.readForward(ctx, 0)
	l.fence = last
	return err
}

// strayed notes a message that is not ours, once.
func (l *lane) strayed(m *stored) {
	if m.sequence <= l.strays.seen && l.strays.created.Equal(l.created) {
		return
	}
	l.strays.seen, l.strays.created = m.sequence, l.created
	l.strays.unreported++
	l.show(func(s *AgencyStatus) { s.Foreign++ })
	l.r.o.Logger.Debug("message stepped over", "agency", l.agency, "stream_sequence", m.sequence)
}

// settle makes what was found durable: the cursor where events have landed, the reports where there is something to tell.
func (l *lane) settle() error {
	if err := l.store(); err != nil {
		return err
	}
	if err := l.reportImport(); err != nil {
		return err
	}
	if l.strays.unreported == 0 || time.Since(l.strays.reported) < reportEvery && !l.strays.reported.IsZero() {
		return nil
	}
	l.r.o.Logger.Warn("the stream holds messages that are not ours", "agency", l.agency, "count", l.strays.unreported,
		"last_stream_sequence", l.strays.seen)
	if err := l.report(reasonForeign, l.place.Sequence, l.place.Sequence, 0); err != nil {
		return err
	}
	l.strays.unreported, l.strays.reported = 0, time.Now()
	return nil
}

// report appends watch.stream_repaired to the agency's own log, from where it is published like any event.
func (l *lane) report(reason string, from, to uint64, sent int) error {
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
