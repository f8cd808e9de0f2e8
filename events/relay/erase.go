package relay

import (
	"context"
	"errors"
	"fmt"

	"doorbell/events"
	"doorbell/events/stream"
)

// MayErase says beforehand, and changes nothing, whether [Relay.Erase] is allowed; see [stream.Client.MayErase].
func (r *Relay) MayErase(ctx context.Context) error { return r.stream.MayErase(ctx) }

// Erase removes those of an agency's contact requests from the stream that wants says so of, and returns how many; the bytes are overwritten.
// They are to be erased in the log before: what was read of it until then has been published when Erase begins to read, as it waits for
// the batch under way, and finds out what has become of one without an answer. What has left the log later holds nobody. The error may wrap
// [stream.ErrMayNotErase]; the same may be done again.
func (r *Relay) Erase(ctx context.Context, agency string, wants func(events.Event) bool) (n int, err error) {
	s, err := r.check(ctx)
	if err != nil {
		return 0, fmt.Errorf("relay: %w", err)
	}
	l := r.worker(agency)
	defer l.lock()()
	l.synced = 0                                                            // the fence may be one of those that go
	if !l.rival.contested.Load() && (r.o.Shared == nil || l.claim != nil) { // of an agency that is not ours nothing is under way
		if err := l.reconcile(ctx, s); err != nil && !errors.Is(err, errLost) {
			return 0, fmt.Errorf("relay: %w", r.explain(err))
		}
	}
	n, err = r.stream.Erase(ctx, events.Subject(r.o.Prefix, agency, "contact_request.>"), func(m *stream.Message) bool {
		e, err := events.Decode(m.Header, m.Data)
		return err == nil && e.AgencyID == agency && wants(e)
	})
	if err != nil {
		return n, fmt.Errorf("relay: %w", r.explain(err))
	}
	return n, nil
}

// eraseErased erases messages with people whom the log has erased: what is published while an erasure runs may arrive behind it.
func (r *Relay) eraseErased(ctx context.Context, agency string) (n int, err error) {
	var broken error
	n, err = r.Erase(ctx, agency, func(e events.Event) bool {
		if broken != nil || !e.HoldsPerson() || e.Sequence == 0 {
			return false
		}
		found, err := r.o.Log.Read(agency, e.Sequence-1, 1, 1)
		broken = err
		return len(found) == 1 && found[0].ID == e.ID && found[0].Erased()
	})
	if broken != nil {
		err = errors.Join(fmt.Errorf("%w: %w", ErrLog, broken), err)
	}
	return n, err
}
