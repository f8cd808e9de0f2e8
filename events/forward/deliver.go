package forward

import (
	"context"
	"errors"
	"maps"
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
		w.status.write(func(s *WorkerStatus) { s.Attempts = tries })
		left, failure, err := w.attempt(ctx, batch)
		if err != nil || len(left) == 0 {
			return err
		}
		if len(batch) > 1 && slices.ContainsFunc(left, func(i *item) bool { return i.alone }) {
			return nil // any of them may be the cause: they are sent one by one
		}
		batch = left
		if first := batch[0]; !first.suspect.IsZero() && !ofReceiver(failure) {
			accepted, err := w.witness(ctx, c, first)
			if err != nil {
				return err
			}
			if accepted && !first.stuck {
				continue
			}
		}
		if tries == 1 || tries%(3*failures) == 0 {
			w.log.Warn("delivery failed; retrying", "event_id", batch[0].event.ID, "agency", batch[0].event.AgencyID,
				"attempt", tries, "err", reason(failure))
		}
		if err := w.pause(ctx, c, batch[0], max(pause(tries), after(failure))); err != nil {
			return err
		}
	}
}

// attempt sends a batch once. It returns the messages that are left to send again, and why.
func (w *worker) attempt(ctx context.Context, batch []*item) (left []*item, failure, err error) {
	batch, failure, err = w.send(ctx, batch)
	if err != nil || len(batch) == 0 {
		return nil, nil, err
	}
	if failure == nil {
		return nil, nil, w.finish(batch, stepSent)
	}
	for _, i := range batch {
		buried := false
		if why := w.isDead(i, failure, len(batch) > 1); why != "" {
			if buried, err = w.bury(ctx, i, why); err != nil {
				return nil, nil, err
			}
		}
		if !buried {
			left = append(left, i)
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
	if batch, err = w.withoutErased(ctx, batch); err != nil || len(batch) == 0 {
		return nil, nil, err
	}
	d := Delivery{}
	for _, i := range batch {
		i.tries++
		d.Events = append(d.Events, i.event)
	}
	failure = to.send(ctx, d)
	now := time.Now()
	if failure != nil {
		w.status.write(func(s *WorkerStatus) {
			s.LastError, s.LastErrorAt = reason(failure), now
			switch {
			case errors.As(failure, new(*Refused)): // a receiver that refuses works
				s.FailingSince = time.Time{}
			case s.FailingSince.IsZero():
				s.FailingSince = now
			}
			failed := map[string]uint64{} // a reader may hold the one before
			maps.Copy(failed, s.Failed)
			failed[failureOf(failure)]++
			s.Failed = failed
		})
		return batch, failure, nil
	}
	w.accepted++
	w.status.write(func(s *WorkerStatus) {
		s.Events, s.LastSent, s.WaitingSince = s.Events+uint64(len(batch)), now, time.Time{}
		s.LastError, s.LastErrorAt, s.FailingSince = "", time.Time{}, time.Time{}
	})
	w.log.Debug("forwarded", "events", len(batch), "event_id", d.Events[0].ID, "attempt", batch[0].tries)
	return batch, nil, nil
}

// failureOf is the reason of a failed attempt in one word, for metrics.
func failureOf(err error) string {
	var retry *Retry
	var refused *Refused
	switch {
	case errors.As(err, &refused):
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
	retry := (*Retry)(nil)
	return errors.As(err, &retry) && retry.Receiver
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
		if i.unanswered++; i.unanswered >= unanswered {
			return "perhaps delivered: " + reason(failure)
		}
		return ""
	case errors.As(failure, &refused):
		i.failed = max(i.failed, failures)
	default:
		i.failed++
	}
	if i.failed < failures {
		return ""
	}
	compared := !i.suspect.IsZero() && w.accepted > i.seen
	if i.suspect.IsZero() {
		i.suspect, i.seen = time.Now(), w.accepted
	}
	switch {
	case inDigest:
		i.alone, i.tries = true, 0
		return ""
	case compared, refused != nil && refused.Certain:
		return reason(failure)
	case w.other(i) == nil && w.pending == 0 && time.Since(i.suspect) >= lonely:
		return reason(failure) + " (no other message to compare it with)"
	}
	return ""
}

// witness sends another message, to find out whether the receiver accepts any.
func (w *worker) witness(ctx context.Context, c jetstream.Consumer, suspect *item) (accepted bool, err error) {
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
	left, _, err := w.attempt(ctx, []*item{other})
	if len(left) > 0 { // one that is suspect too needs a witness of its own; its turn comes
		other.alone = !other.suspect.IsZero()
	}
	return w.accepted > before, err
}

// other returns the message to try next beside a suspect: the one tried least often, preferably one
// of another type.
func (w *worker) other(suspect *item) (other *item) {
	rank := func(i *item) int {
		if i.event.Type != suspect.event.Type {
			return 2 * i.tries
		}
		return 2*i.tries + 1
	}
	for _, i := range w.queue {
		if i != suspect && i.to[0] == suspect.to[0] && (other == nil || rank(i) < rank(other)) {
			other = i
		}
	}
	return other
}

// pause waits between two attempts. If a message was refused and there was no other to compare it
// with, the pause ends as soon as one comes.
func (w *worker) pause(ctx context.Context, c jetstream.Consumer, first *item, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		w.count(ctx, c)
		w.status.write(func(s *WorkerStatus) { s.Turned = time.Now() })
		left := time.Until(end)
		if !sleep(ctx, min(left, w.f.o.AckWait)) {
			return ctx.Err()
		}
		if left <= w.f.o.AckWait {
			return nil
		}
		if !first.suspect.IsZero() && w.other(first) == nil {
			if err := w.more(c, failures); err != nil {
				return err
			}
			if w.other(first) != nil {
				return nil
			}
		}
	}
}

// bury moves a message to the dead letters, or drops it if it was erased. It returns false if that
// fails: then the message stays in the queue, so as not to be lost.
func (w *worker) bury(ctx context.Context, i *item, why string) (bool, error) {
	log := w.log.With("event_id", i.event.ID, "agency", i.event.AgencyID, "attempt", i.tries)
	written, err := w.toDeadLetters(context.WithoutCancel(ctx), i, why)
	switch {
	case err != nil:
		i.stuck = true
		w.status.write(func(s *WorkerStatus) { s.LastError = "no dead letter can be written: " + err.Error() })
		log.Error("message permanently rejected, but no dead letter can be written; retrying", "refused", why, "err", err.Error())
		return false, nil
	case !written:
		return true, w.drop(i)
	}
	w.status.write(func(s *WorkerStatus) { s.DeadLetters, s.WaitingSince = s.DeadLetters+1, time.Time{} })
	log.Error("message moved to the dead letters", "err", why)
	return true, w.finish([]*item{i}, stepDead)
}

// withoutErased drops the messages that have left the stream since they were fetched, and returns
// the rest. It does not check a message that was fetched within the last second and not tried yet.
func (w *worker) withoutErased(ctx context.Context, batch []*item) (left []*item, err error) {
	for _, i := range slices.Clone(batch) {
		gone := false
		if i.tries > 0 || time.Since(i.fetched) > time.Second {
			if gone, err = w.erased(ctx, i); err != nil {
				return nil, err
			}
		}
		if !gone {
			left = append(left, i)
		} else if err := w.drop(i); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// erased reports whether a contact request has left the stream since it was fetched, because it was
// erased or is older than the stream keeps it: then it must not be delivered. One that was lost with
// the stream or its tail was not erased.
func (w *worker) erased(ctx context.Context, i *item) (bool, error) {
	if !i.event.HoldsPerson() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*answerLimit)
	defer cancel()
	s, err := w.f.js.Stream(ctx, w.f.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info := s.CachedInfo()
	if !w.stream.Equal(info.Created) || i.place > info.State.LastSeq {
		return false, nil
	}
	messages := stream.Client{Conn: w.f.o.Conn, Stream: w.f.o.Stream, Wait: answerLimit}
	m, err := messages.Get(ctx, stream.Query{Sequence: i.place})
	if err != nil || m != nil {
		return false, err
	}
	w.log.Info("contact request was erased before it was delivered, or has expired", "event_id", i.event.ID)
	return true, nil
}
