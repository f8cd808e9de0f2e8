package relay

import (
	"context"
	"fmt"
	"time"

	"doorbell/events"
	"doorbell/events/stream"
)

// Erase removes those of an agency's contact requests from the stream that wants says so of, and returns how many; the bytes are overwritten.
// They are to be erased in the log before: what was read of it until then has been published when Erase begins to read, as it waits for
// the batch under way, and finds out what has become of one without an answer. What has left the log later holds nobody, and is published
// meanwhile. The error may wrap [stream.ErrMayNotErase]; the same may be done again.
func (r *Relay) Erase(ctx context.Context, agency string, wants func(events.Event) bool) (n int, err error) {
	s, err := r.check(ctx)
	if err != nil {
		return 0, fmt.Errorf("relay: %w", err)
	}
	l := r.worker(agency)
	if err := l.settle(ctx, s); err != nil {
		return 0, fmt.Errorf("relay: %w", r.explain(err))
	}
	defer l.doubt()
	n, err = r.stream.Erase(ctx, events.Subject(r.o.Prefix, agency, "contact_request.>"), func(m *stream.Message) bool {
		e, err := events.Decode(m.Header, m.Data)
		return err == nil && e.AgencyID == agency && wants(e)
	})
	if err != nil {
		return n, fmt.Errorf("relay: %w", r.explain(err))
	}
	return n, nil
}

// settle finds out what has become of all that was read of the log.
func (l *worker) settle(ctx context.Context, s session) error {
	defer l.lock()()
	l.synced = 0
	return l.reconcile(ctx, s)
}

// doubt lets the next work reconcile: the fence may be a message that was erased.
func (l *worker) doubt() {
	defer l.lock()()
	l.synced = 0
}

// stands is a message with a person whom the log has erased.
type stands struct {
	place uint64
	id    string
	since time.Time
}

// long says whether a consumer had a day to read the message: what NATS could not take for long may be older in the log than people are kept.
func (s stands) long() bool { return time.Since(s.since) >= 24*time.Hour }

// eraseStanding erases messages that a comparison has found, if they are the same still, and returns how many.
func (r *Relay) eraseStanding(ctx context.Context, list []stands) (n int, err error) {
	for _, s := range list {
		m, err := r.stream.Get(ctx, stream.Query{Sequence: s.place})
		if err != nil {
			return n, err
		}
		if m == nil || m.Header.Get("ce-id") != s.id {
			continue
		}
		erased, err := r.stream.EraseAt(ctx, s.place)
		if err != nil {
			return n, err
		}
		if erased {
			n++
		}
	}
	return n, nil
}

// tellErased logs how many of those found are erased, and why not all.
func (r *Relay) tellErased(agency string, found, erased int, err error) {
	if err != nil {
		r.o.Logger.Error("the stream holds people whom the event log has erased", "agency", agency, "count", found-erased, "err", r.explain(err).Error())
		return
	}
	r.o.Logger.Warn("people whom the event log has erased are erased in the stream, too", "agency", agency, "count", erased)
}
