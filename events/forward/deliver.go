package forward

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	digestAbove = 5       // so many may wait before digests are made
	maxPending  = 1000    // messages that a worker has fetched and not acknowledged
	maxBytes    = 8 << 20 // of memory for them, more or less
)

// item is a message that was fetched and is not acknowledged.
type item struct {
	lane    *worker
	message jetstream.Msg
	event   events.Event
	place   uint64    // in the stream
	pending uint64    // how many wait behind it
	foreign bool      // no event of ours
	sent    bool      // before its turn, to find out whether the receiver takes anything
	stored  time.Time // by the server's clock
	fetched time.Time
	gone    bool // it was erased since
}

// wanted says whether a worker has to send an event.
func (i *item) wanted() (wanted bool) {
	l := i.lane
	if i.foreign || i.sent || i.gone || i.event.Origin != events.OriginLive || kindOf(i.event.Type) != l.kind {
		return false
	}
	for _, f := range l.filters {
		wanted = wanted || f.wants(i.event)
	}
	if !wanted {
		return false
	}
	resent := i.message.Headers().Get(events.ResentHeader) != ""
	l.f.state.look(func(m *memory) {
		early := m.Workers[l.key].Early || resent // a worker that began at an empty stream gets all that a restored store sends again
		wanted = (!early || m.took(i.event)) && !m.done(l.kind, i.event)
	})
	return wanted
}

// errCut ends a worker where a test wants it to end.
var errCut = errors.New("cut")

// The steps at which a test can cut.
const (
	stepSent   = "sent"
	stepMarked = "marked"
	stepDead   = "dead"
	stepDone   = "done"
)

func (l *worker) step(name string) error {
	if l.f.cut != nil && l.f.cut(name) {
		return errCut
	}
	return nil
}

// work makes one attempt to deliver what stands at the head of the queue, and does what the outcome demands.
func (l *worker) work(ctx context.Context, c jetstream.Consumer) error {
	if l.batch == 0 {
		if err := l.choose(ctx, c); err != nil {
			return err
		}
	}
	for _, i := range l.queue[:l.batch] {
		l.findErased(ctx, i)
	}
	together := l.together()
	if len(together) == 0 {
		return l.finish(l.batch)
	}
	l.attempts++
	l.status.write(func(s *WorkerStatus) { s.Attempts = l.attempts })
	err := l.deliver(ctx, together)
	var permanent *Permanent
	var gone *Gone
	switch {
	case err == nil:
		return l.done(together)
	case errors.Is(err, errStopped):
		return ctx.Err()
	case errors.As(err, &gone):
		l.switchOff(err)
		return nil
	case errors.As(err, &permanent) && (permanent.Partly || len(together) == 1):
		return l.giveUp(ctx, c, together, err)
	case errors.As(err, &permanent): // one of them may be why: each for itself, and then digests again
		l.split()
		return nil
	case l.attempts >= l.f.o.Tries && len(together) > 1:
		l.split()
	case l.attempts >= l.f.o.Tries && l.proven == together[0].place:
		return l.giveUp(ctx, c, together, err)
	case l.attempts >= l.f.o.Tries:
		if err := l.probe(ctx, c); err != nil {
			return err
		}
	}
	return l.retry(ctx, c, err)
}

// choose says how many of the queue are sent as one. The first halt of a cause is sent at once: it may be mended before others are
// refused. What follows within Options.Settle waits for its end and is one.
func (l *worker) choose(ctx context.Context, c jetstream.Consumer) error {
	l.batch, l.attempts = 1, 0
	head := l.queue[0]
	if l.dest.traits.Digest < 2 || head.place <= l.singly {
		return nil
	}
	cause := haltKey(head.event)
	if cause != "" {
		if last := l.causes[cause]; time.Since(last) < l.f.o.Settle {
			if !sleep(ctx, time.Until(last.Add(l.f.o.Settle))) {
				return ctx.Err()
			}
			if err := l.fill(ctx, c); err != nil {
				return err
			}
		}
		maps.DeleteFunc(l.causes, func(_ string, last time.Time) bool { return time.Since(last) > l.f.o.Settle })
		l.causes[cause] = time.Now()
	}
	count, halts, last := 0, 0, 0
	for n, i := range l.queue {
		if !i.wanted() {
			continue
		}
		same := cause != "" && haltKey(i.event) == cause
		if !same && count-halts >= l.dest.traits.Digest {
			break
		}
		if cause == "" && haltKey(i.event) != "" { // it goes with those that belong to it
			break
		}
		count, last = count+1, n+1
		if same {
			halts++
		}
	}
	if count > digestAbove || halts > 1 {
		l.batch = last
	}
	return nil
}

// findErased finds what was erased while it waited here for a while: it is passed over.
func (l *worker) findErased(ctx context.Context, i *item) {
	if !i.wanted() || time.Since(i.fetched) < l.f.o.AckWait {
		return
	}
	if gone, _ := l.erased(ctx, i); gone {
		l.pass(i)
	}
}

// pass passes over an item that was erased.
func (l *worker) pass(i *item) {
	i.gone = true
	l.f.o.Log.Info("contact request was erased before it was delivered", "forwarder", l.f.o.Name, "lane", l.key, "event_id", i.event.ID)
}

// together are the items of the batch that are sent.
func (l *worker) together() (together []*item) {
	known := map[string]bool{}
	for _, i := range l.queue[:l.batch] {
		if i.wanted() && !known[i.event.ID] {
			known[i.event.ID] = true
			together = append(together, i)
		}
	}
	return together
}

// split sends what was one delivery one by one.
func (l *worker) split() { l.singly, l.batch = l.queue[l.batch-1].place, 0 }

// haltKey tells halts apart that have causes of their own: those with one key and one probable reason are one.
func haltKey(e events.Event) string {
	if e.Type != events.TypeAccessHalted {
		return ""
	}
	var p struct {
		ProbableReason string        `json:"probableReason"`
		Key            events.KeyRef `json:"key"`
	}
	if json.Unmarshal(e.Data, &p) != nil || p.Key.Fingerprint == "" {
		return ""
	}
	return p.Key.Fingerprint + " " + p.ProbableReason
}

// deliver sends items as one.
func (l *worker) deliver(ctx context.Context, together []*item) error {
	d := Delivery{Events: make([]events.Event, len(together))}
	for n, i := range together {
		d.Events[n] = i.event
	}
	if err := l.dest.send(ctx, d, l.f.o.SendLimit, l.f.o.Drain); err != nil {
		return err
	}
	l.status.write(func(s *WorkerStatus) {
		s.Sent, s.Events, s.LastSent = s.Sent+1, s.Events+uint64(len(together)), time.Now()
	})
	return nil
}

// done remembers and acknowledges, in this order: a crash in between finds what was done.
func (l *worker) done(together []*item) error {
	if err := l.step(stepSent); err != nil {
		return err
	}
	l.remember(together)
	if err := l.step(stepMarked); err != nil {
		return err
	}
	e := together[0].event
	if l.attempts > 1 {
		l.f.o.Log.Info("delivered after retries", "forwarder", l.f.o.Name, "lane", l.key, "event_id", e.ID, "agency", e.AgencyID, "attempt", l.attempts)
	}
	l.f.o.Log.Debug("forwarded", "forwarder", l.f.o.Name, "lane", l.key, "events", len(together), "event_id", e.ID)
	l.status.write(func(s *WorkerStatus) { s.LastError, s.LastErrorAt = "", time.Time{} })
	return l.finish(l.batch)
}

// remember writes down what is done.
func (l *worker) remember(together []*item) {
	l.f.state.change(func(m *memory) {
		for _, i := range together {
			m.add(l.kind, i.event)
		}
	})
	l.save()
}

// finish acknowledges the first n of the queue, and removes them.
func (l *worker) finish(n int) error {
	for _, i := range l.queue[:n] {
		if i.foreign {
			l.skipForeign()
		}
		l.f.state.change(func(m *memory) {
			m.Workers[l.key].Position = &position{i.place, i.message.Headers().Get(nats.MsgIdHdr), l.stream}
			if i.sent { // probe sent it before
				m.add(l.kind, i.event)
			}
		})
		if err := i.message.Ack(); err != nil {
			return err
		}
	}
	waiting := l.waiting() - uint64(n)
	l.queue, l.batch, l.attempts = l.queue[n:], 0, 0
	l.status.write(func(s *WorkerStatus) { s.Waiting, s.Attempts = waiting, 0 })
	return l.step(stepDone)
}

// skipForeign counts a message that is no event of ours.
func (l *worker) skipForeign() {
	l.status.write(func(s *WorkerStatus) { s.Foreign++ })
	if !l.strange {
		l.strange = true
		l.f.o.Log.Error("foreign message in the stream: it is not an event of doorbell; skipped, like all others of its kind",
			"forwarder", l.f.o.Name, "lane", l.key, "stream", l.f.o.Stream)
	}
}

// failed keeps in the status why a receiver did not take a message.
func (l *worker) failed(err error) string {
	why := reason(err)
	l.status.write(func(s *WorkerStatus) { s.LastError, s.LastErrorAt = why, time.Now() })
	return why
}

// switchOff stops sending to the destination.
func (l *worker) switchOff(err error) {
	if !l.dest.off.Swap(true) {
		l.f.o.Log.Error("receiver is gone: nothing more is sent to it until doorbell is started again; its events wait in the stream",
			"forwarder", l.f.o.Name, "destination", l.dest.name, "err", l.failed(err))
	}
	l.status.write(func(s *WorkerStatus) { s.Off = true })
}

// retry waits before the next attempt.
func (l *worker) retry(ctx context.Context, c jetstream.Consumer, err error) error {
	why, wait := l.failed(err), max(pause(l.attempts), after(err))
	if l.attempts == 1 || l.attempts%l.f.o.Tries == 0 {
		e := l.queue[0].event
		l.f.o.Log.Warn("delivery failed; retrying", "forwarder", l.f.o.Name, "lane", l.key,
			"event_id", e.ID, "agency", e.AgencyID, "attempt", l.attempts, "err", why)
	}
	return l.pause(ctx, c, wait)
}

// giveUp moves messages to the dead letters. While that fails the delivery is tried again: the message must be somewhere.
func (l *worker) giveUp(ctx context.Context, c jetstream.Consumer, together []*item, err error) error {
	e, why := together[0].event, l.failed(err)
	var had []string
	if permanent := (*Permanent)(nil); errors.As(err, &permanent) {
		had = permanent.Had
	}
	var buried []*item
	for _, i := range together {
		written, err := l.toDeadLetters(context.WithoutCancel(ctx), i, l.attempts, why, had)
		if err != nil {
			l.status.write(func(s *WorkerStatus) { s.LastError = "no dead letter can be written: " + err.Error() })
			l.f.o.Log.Error("message permanently rejected, but no dead letter can be written; retrying", "forwarder", l.f.o.Name,
				"lane", l.key, "event_id", e.ID, "refused", why, "err", err.Error())
			return l.pause(ctx, c, pause(l.attempts))
		}
		if written {
			buried = append(buried, i)
		} else {
			l.pass(i)
		}
	}
	if err := l.step(stepDead); err != nil {
		return err
	}
	if len(buried) > 0 {
		l.remember(buried)
		l.status.write(func(s *WorkerStatus) { s.DeadLetters += uint64(len(buried)) })
		e = buried[0].event
		l.f.o.Log.Error("message moved to the dead letters", "forwarder", l.f.o.Name, "lane", l.key, "event_id", e.ID, "events", len(buried),
			"agency", e.AgencyID, "attempt", l.attempts, "err", why)
	}
	return l.finish(l.batch)
}

// probe finds out whether the message or the receiver is why a message is not taken after so many tries: it sends the next one. If
// that is taken, or permanently rejected, the receiver works, and the message has one more try. A restart before its turn doubles it: it
// cannot be remembered as done, as what is done may cover what has a lower number.
func (l *worker) probe(ctx context.Context, c jetstream.Consumer) error {
	if err := l.fill(ctx, c); err != nil {
		return err
	}
	for _, i := range l.queue[1:] {
		if l.findErased(ctx, i); !i.wanted() {
			continue
		}
		err := l.deliver(ctx, []*item{i})
		if i.sent = err == nil; i.sent || errors.As(err, new(*Permanent)) {
			l.proven = l.queue[0].place
		}
		return nil
	}
	return nil // nobody waits behind it, so nobody is kept waiting
}
