package forward

import (
	"context"
	"errors"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// item is an event of the stream with its place.
type item struct {
	event    events.Event
	header   nats.Header
	place    uint64
	at       time.Time // when the stream took it
	attempts int       // how often it was delivered
	waiting  uint64    // how many wait behind it
}

// errCut ends a lane where a test wants it to end.
var errCut = errors.New("cut")

// The steps at which a test can cut.
const (
	stepSent   = "sent"
	stepMarked = "marked"
	stepBuried = "buried"
	stepDone   = "done"
)

func (l *lane) step(name string) error {
	if l.f.cut != nil && l.f.cut(name) {
		return errCut
	}
	return nil
}

// read recognises an event of ours.
func (l *lane) read(m jetstream.Msg) (*item, bool) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, false
	}
	i := &item{header: m.Headers(), place: meta.Sequence.Stream, at: meta.Timestamp, attempts: int(meta.NumDelivered), waiting: meta.NumPending}
	i.event, err = events.Decode(m.Headers(), m.Data())
	return i, err == nil && m.Subject() == events.Subject(l.f.o.Prefix, i.event.AgencyID, i.event.Type)
}

// wanted says whether an event is the lane's business and not done.
func (l *lane) wanted(i *item) (wanted bool) {
	if i.event.Origin != events.OriginLive || kindOf(i.event.Type) != l.kind {
		return false
	}
	for _, f := range l.filters {
		wanted = wanted || f.wants(i.event)
	}
	if !wanted {
		return false
	}
	l.f.state.look(func(m *memory) {
		s := m.Lanes[l.key]
		old := l.early && i.event.RecordedTime.Before(s.since(i.event.AgencyID))
		old = old || i.event.RecordedTime.Before(s.Types[i.event.Type])
		wanted = !old && !s.Agencies[i.event.AgencyID].has(i.event)
	})
	return wanted
}

// handle brings one message to its end, or gives it back to the server for later.
func (l *lane) handle(ctx context.Context, m jetstream.Msg) error {
	i, ours := l.read(m)
	if !ours {
		return l.refuse(m)
	}
	l.status.write(func(s *LaneStatus) { s.Waiting = i.waiting + 1 })
	if !l.wanted(i) {
		return l.finish(m, i)
	}
	l.status.write(func(s *LaneStatus) { s.Attempts = i.attempts })
	stop := l.holdOn(m)
	defer stop()
	together, err := l.gather(ctx, i)
	if err != nil {
		return errors.Join(err, m.NakWithDelay(time.Second))
	}
	err = l.deliver(ctx, together)
	var never *Never
	if errors.As(err, &never) && !never.Partly && len(together) > 1 { // one of them may be why: each for itself
		l.singly = together[len(together)-1].place
		together, l.tried = together[:1], l.tried[:1]
		err = l.deliver(ctx, together)
	}
	stop()
	return l.conclude(ctx, m, i, together, err)
}

// deliver sends items as one.
func (l *lane) deliver(ctx context.Context, together []*item) error {
	d := Delivery{Events: make([]events.Event, len(together))}
	for n, i := range together {
		d.Events[n] = i.event
	}
	err := l.dest.send(ctx, d, l.f.o.SendLimit, l.f.o.Drain)
	if err != nil {
		return err
	}
	l.status.write(func(s *LaneStatus) {
		s.Sent, s.Events, s.LastSent = s.Sent+1, s.Events+uint64(len(together)), time.Now()
	})
	return nil
}

// conclude does what the outcome of a send demands.
func (l *lane) conclude(ctx context.Context, m jetstream.Msg, i *item, together []*item, err error) error {
	var never *Never
	var off *Off
	switch {
	case err == nil:
		return l.done(m, i, together)
	case errors.Is(err, errStopped):
		return m.Nak()
	case errors.As(err, &off):
		return l.switchOff(m, err)
	case errors.As(err, &never):
		return l.giveUp(ctx, m, together, err)
	}
	if i.attempts >= l.f.o.Tries && after(err) == 0 {
		if taken, probed := l.probe(ctx, i); probed != nil {
			return probed
		} else if taken {
			return l.giveUp(ctx, m, together[:1], err)
		}
	}
	return l.later(m, i, err)
}

// done marks and acknowledges, in this order: a crash in between finds the mark.
func (l *lane) done(m jetstream.Msg, i *item, together []*item) error {
	if err := l.step(stepSent); err != nil {
		return err
	}
	l.mark(i, together[1:]...)
	if err := l.step(stepMarked); err != nil {
		return err
	}
	if i.attempts > 1 {
		l.f.o.Log.Info("the outlet has taken the message", "forwarder", l.f.o.Name, "lane", l.key, "event_id", i.event.ID,
			"agency", i.event.AgencyID, "attempt", i.attempts)
	}
	l.f.o.Log.Debug("forwarded", "forwarder", l.f.o.Name, "lane", l.key, "events", len(together), "event_id", i.event.ID)
	l.status.write(func(s *LaneStatus) { s.LastError, s.LastErrorAt = "", time.Time{} })
	return l.finish(m, i)
}

// mark remembers what is done: the item in hand, whose turn it is, if there is one, and those that are done before their turn.
func (l *lane) mark(inHand *item, ahead ...*item) {
	l.remembered(func(s *laneState) {
		if inHand != nil {
			s.mark(inHand.event.AgencyID).add(inHand.event)
		}
		for _, i := range ahead {
			s.mark(i.event.AgencyID).addAhead(i.event)
		}
	})
	l.save()
}

// finish acknowledges. An acknowledgement that gets lost makes the server deliver again what is found done.
func (l *lane) finish(m jetstream.Msg, i *item) error {
	l.remembered(func(s *laneState) {
		s.Position = &position{Sequence: i.place, ID: i.header.Get(nats.MsgIdHdr)}
		if m := s.Agencies[i.event.AgencyID]; m != nil {
			m.turn(i.event)
		}
	})
	l.status.write(func(s *LaneStatus) { s.Waiting, s.Attempts = i.waiting, 0 })
	if err := m.Ack(); err != nil {
		return err
	}
	return l.step(stepDone)
}

// refuse puts away what is no event of ours.
func (l *lane) refuse(m jetstream.Msg) error {
	l.status.write(func(s *LaneStatus) { s.Foreign++ })
	if !l.strange {
		l.strange = true
		l.f.o.Log.Error("the stream holds a message that is no event of ours; it is passed over, like all others of its kind",
			"forwarder", l.f.o.Name, "lane", l.key, "stream", l.f.o.Stream)
	}
	return m.Term() // without a reason: old servers would not understand
}

// complain tells what an outlet said.
func (l *lane) complain(err error) string {
	why := reason(err)
	l.status.write(func(s *LaneStatus) { s.LastError, s.LastErrorAt = why, time.Now() })
	return why
}

// switchOff stops sending to the destination. The message is given back, for the next start.
func (l *lane) switchOff(m jetstream.Msg, err error) error {
	if !l.dest.off.Swap(true) {
		l.f.o.Log.Error("the outlet is gone: nothing more is sent to it until doorbell is started anew, what is for it waits in the stream",
			"forwarder", l.f.o.Name, "destination", l.dest.name, "err", l.complain(err))
	}
	l.status.write(func(s *LaneStatus) { s.Off = true })
	return m.Nak()
}

// later gives a message back until after the pause.
func (l *lane) later(m jetstream.Msg, i *item, err error) error {
	why, wait := l.complain(err), max(pause(i.attempts), after(err))
	if i.attempts == 1 || i.attempts%l.f.o.Tries == 0 {
		l.f.o.Log.Warn("the outlet does not take a message; it is tried again", "forwarder", l.f.o.Name, "lane", l.key,
			"event_id", i.event.ID, "agency", i.event.AgencyID, "attempt", i.attempts, "err", why)
	}
	return m.NakWithDelay(wait)
}

// giveUp makes a dead letter of each message, and then has done with them. A letter that cannot be written is tried again: the
// message must be somewhere.
func (l *lane) giveUp(ctx context.Context, m jetstream.Msg, together []*item, err error) error {
	i, why := together[0], l.complain(err)
	stop := l.holdOn(m)
	var failed error
	for n := 0; n < len(together) && failed == nil; n++ {
		failed = l.bury(context.WithoutCancel(ctx), together[n], i.attempts, why)
	}
	stop()
	if failed != nil {
		l.status.write(func(s *LaneStatus) { s.LastError = "no dead letter can be written: " + failed.Error() })
		l.f.o.Log.Error("a message was refused for good and no dead letter can be written; it is tried again", "forwarder", l.f.o.Name,
			"lane", l.key, "event_id", i.event.ID, "refused", why, "err", failed.Error())
		return m.NakWithDelay(pause(i.attempts))
	}
	if err := l.step(stepBuried); err != nil {
		return err
	}
	l.mark(i, together[1:]...)
	l.status.write(func(s *LaneStatus) {
		s.DeadLetters, s.Attempts, s.Waiting = s.DeadLetters+uint64(len(together)), 0, i.waiting
	})
	l.f.o.Log.Error("a message is among the dead letters", "forwarder", l.f.o.Name, "lane", l.key, "event_id", i.event.ID, "events", len(together),
		"agency", i.event.AgencyID, "attempt", i.attempts, "err", why)
	l.remembered(func(s *laneState) { s.Position = &position{Sequence: i.place, ID: i.header.Get(nats.MsgIdHdr)} })
	if err := m.Term(); err != nil {
		return err
	}
	return l.step(stepDone)
}

// probe finds out whether the message or the outlet is why a message is not taken after so many tries: it sends the next one. If
// that is taken, the outlet works.
func (l *lane) probe(ctx context.Context, i *item) (taken bool, err error) {
	next, err := l.ahead(ctx, i, 1, func(*item) bool { return true })
	if err != nil || len(next) == 0 {
		return false, nil // nobody waits behind it, so nobody is kept waiting
	}
	switch err := l.deliver(ctx, next[:1]); {
	case err == nil:
		if err := l.step(stepSent); err != nil {
			return true, err
		}
		l.mark(nil, next[0])
		return true, l.step(stepMarked)
	default:
		var never *Never
		return errors.As(err, &never), nil // its own turn comes
	}
}
