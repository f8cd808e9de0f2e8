package forward

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// This file is one delivery: its attempts, and what becomes of a message that is not accepted.

// deliver sends a batch until it is accepted or becomes a dead letter. A message that is refused,
// or has failed ten times, lets the others try, one at each retry: if one of them is accepted and
// it is then refused once more, the message itself is the cause.
func (w *worker) deliver(ctx context.Context, c jetstream.Consumer, batch []*item) error {
	for tries := 1; ; tries++ {
		w.note(func(s *WorkerStatus) { s.Attempts = tries })
		left, failure, err := w.attempt(ctx, batch)
		if err != nil || len(left) == 0 {
			return err
		}
		if len(batch) > 1 && slices.ContainsFunc(left, (*item).isSuspect) {
			return nil // any of them may be the cause: they are sent one by one
		}
		batch = left
		first := batch[0]
		if first.isSuspect() && !ofReceiver(failure) {
			if accepted, err := w.witness(ctx, c, first); err != nil {
				return err
			} else if accepted {
				continue
			}
		}
		if tries == 1 || tries%(3*failures) == 0 {
			w.log.Warn("delivery failed; retrying", "event_id", first.event.ID,
				"agency", first.event.AgencyID, "attempt", tries, "err", reason(failure))
		}
		if err := w.pause(ctx, c, first, max(pause(tries), after(failure))); err != nil {
			return err
		}
	}
}

// attempt sends a batch once. It returns the messages that are left to send again, and why.
func (w *worker) attempt(ctx context.Context, batch []*item) (left []*item, failure, err error) {
	batch, failure, err = w.send(ctx, batch)
	switch {
	case err != nil || len(batch) == 0:
		return nil, nil, err
	case failure == nil:
		if err := w.f.cut("sent"); err != nil {
			return nil, nil, err
		}
		return nil, nil, w.finish(batch)
	}
	cause := failure
	for _, i := range batch {
		why := w.isDead(i, cause, len(batch) > 1)
		if why == "" {
			left = append(left, i)
			continue
		}
		written, err := w.toDeadLetters(context.WithoutCancel(ctx), i, why)
		switch {
		case err != nil: // it stays, so as not to be lost
			w.note(func(s *WorkerStatus) { s.LastError = "no dead letter can be written: " + err.Error() })
			w.log.Error("message permanently rejected, but no dead letter can be written; retrying",
				"event_id", i.event.ID, "agency", i.event.AgencyID, "refused", why, "err",
				err.Error())
			left = append(left, i)
			continue
		case !written:
			err = w.drop(i)
		default:
			w.note(func(s *WorkerStatus) { s.DeadLetters, s.WaitingSince = s.DeadLetters+1, time.Time{} })
			w.log.Error("message moved to the dead letters", "event_id", i.event.ID,
				"agency", i.event.AgencyID, "attempt", i.tries, "err", why)
			if err = w.f.cut("dead"); err == nil {
				err = w.finish([]*item{i})
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return left, failure, nil
}

// send sends a batch without the messages that were erased meanwhile, and returns what it has sent.
func (w *worker) send(ctx context.Context, batch []*item) (sent []*item, failure, err error) {
	to := w.f.destinations[batch[0].to[0]]
	done, err := to.turn(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	d := Delivery{}
	for _, i := range batch {
		erased, err := w.erased(ctx, i)
		if erased {
			err = w.drop(i)
		}
		if err != nil {
			return nil, nil, err
		}
		if !erased {
			sent, d.Events = append(sent, i), append(d.Events, i.event)
		}
	}
	if len(sent) == 0 {
		return nil, nil, nil
	}
	for _, i := range sent {
		i.tries++
	}
	failure = to.send(ctx, d)
	now := time.Now()
	if failure == nil {
		w.accepted++
		w.log.Debug("forwarded", "events", len(sent), "event_id", d.Events[0].ID,
			"attempt", sent[0].tries)
	}
	w.note(func(s *WorkerStatus) {
		if failure == nil {
			s.Events, s.LastSent, s.WaitingSince = s.Events+uint64(len(sent)), now, time.Time{}
			s.LastError, s.LastErrorAt, s.FailingSince = "", time.Time{}, time.Time{}
			return
		}
		s.LastError, s.LastErrorAt = reason(failure), now
		if errors.As(failure, new(*Refused)) { // a receiver that refuses works
			s.FailingSince = time.Time{}
		} else if s.FailingSince.IsZero() {
			s.FailingSince = now
		}
		failed := map[string]uint64{failureOf(failure): 1} // a reader may hold the one before
		for word, n := range s.Failed {
			failed[word] += n
		}
		s.Failed = failed
	})
	return sent, failure, nil
}

// failureOf is the reason of a failed attempt in one word, for metrics.
func failureOf(err error) string {
	var retry *Retry
	switch {
	case errors.As(err, new(*Refused)):
		return "refused"
	case !errors.As(err, &retry) || retry.Receiver:
		return "receiver"
	case retry.Unanswered:
		return "unanswered"
	}
	return "busy"
}

// ofReceiver reports whether an error is about the receiver and not about the message.
func ofReceiver(err error) bool {
	retry, is := errors.AsType[*Retry](err)
	return is && retry.Receiver
}

// isDead counts a failed attempt. It returns why the message becomes a dead letter; empty: it does
// not. Of a digest, any message may be the cause, so each is sent alone before it is blamed.
func (w *worker) isDead(i *item, failure error, inDigest bool) (why string) {
	var retry *Retry
	var refused *Refused
	switch {
	case ofReceiver(failure):
		return ""
	case errors.As(failure, &retry) && retry.Unanswered:
		if i.unanswered++; i.unanswered < unanswered {
			return ""
		}
		return "perhaps delivered: " + reason(failure)
	case errors.As(failure, &refused):
		i.failed = max(i.failed, failures)
	default:
		i.failed++
	}
	if i.failed < failures {
		return ""
	}
	compared := i.isSuspect() && w.accepted > i.seen
	if !i.isSuspect() {
		i.suspect, i.seen = time.Now(), w.accepted
	}
	switch {
	case inDigest:
		i.tries = 0
	case compared, refused != nil && refused.Certain:
		return reason(failure)
	case w.other(i) == nil && w.pending == 0 && time.Since(i.suspect) >= lonely:
		return reason(failure) + " (no other message to compare it with)"
	}
	return ""
}

// witness sends another message, to find out whether the receiver accepts any.
func (w *worker) witness(ctx context.Context, c jetstream.Consumer,
	suspect *item,
) (accepted bool, err error) {
	other := w.other(suspect)
	if other == nil || other.tries > 0 {
		if err := w.more(c, len(w.queue)+failures); err != nil {
			return false, err
		}
		other = w.other(suspect)
	}
	if other == nil {
		return false, nil
	}
	before := w.accepted
	_, _, err = w.attempt(ctx, []*item{other})
	return w.accepted > before, err
}

// other returns the message to try next beside a suspect: the one tried least often, preferably one
// of another type.
func (w *worker) other(suspect *item) *item {
	others := slices.DeleteFunc(w.ready(), func(i *item) bool {
		return i == suspect || i.to[0] != suspect.to[0]
	})
	if len(others) == 0 {
		return nil
	}
	rank := func(i *item) int {
		if i.event.Type != suspect.event.Type {
			return 2 * i.tries
		}
		return 2*i.tries + 1
	}
	return slices.MinFunc(others, func(a, b *item) int { return cmp.Compare(rank(a), rank(b)) })
}

// pause waits between two attempts. If a message was refused and there was no other to compare it
// with, the pause ends as soon as one comes.
func (w *worker) pause(ctx context.Context, c jetstream.Consumer, first *item, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		w.count(ctx, c)
		w.note(func(s *WorkerStatus) { s.Turned = time.Now() })
		left := time.Until(end)
		if !sleep(ctx, min(left, w.f.o.AckWait)) {
			return ctx.Err()
		}
		if left <= w.f.o.AckWait {
			return nil
		}
		if first.isSuspect() && w.other(first) == nil {
			if err := w.more(c, failures); err != nil {
				return err
			}
			if w.other(first) != nil {
				return nil
			}
		}
	}
}

// erased reports whether a contact request has left the stream since it was fetched, because it was
// erased or is older than the stream keeps it: then it must not be delivered. One that was lost
// with the stream or its tail was not erased. A message that was just fetched, and not tried, is
// there.
func (w *worker) erased(ctx context.Context, i *item) (bool, error) {
	if !i.event.HoldsPerson() || i.tries == 0 && time.Since(i.fetched) < time.Second {
		return false, nil
	}
	messages := client(w.f.o.Conn, w.f.o.Stream)
	state, err := messages.State(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil || !w.stream.Equal(state.Created) || i.place > state.Last {
		return false, err
	}
	m, err := messages.Get(ctx, stream.Query{Sequence: i.place})
	if err != nil || m != nil {
		return false, err
	}
	w.log.Info("contact request was erased before it was delivered, or has expired",
		"event_id", i.event.ID)
	return true, nil
}
