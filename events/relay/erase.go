package relay

import (
	"context"
	"fmt"

	"doorbell/events"
	"doorbell/events/stream"
)

// Erase deletes the agency's contact request messages for which match returns true, and returns how many; their bytes are overwritten.
// The caller has erased them in the log before. It and a publish exclude each other: what was read of the log until then has been
// published when Erase begins, and one whose acknowledgement did not come is offered once more, as the log has it now, so that no late
// copy is taken. The error may wrap [stream.ErrMayNotErase]; the same may be done again.
func (r *Relay) Erase(ctx context.Context, agency string, match func(events.Event) bool) (n int, err error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return 0, fmt.Errorf("relay: %w", err)
	}
	defer unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("relay: %w", r.explain(err))
		}
	}()
	if err := r.ready(ctx); err != nil {
		return 0, err
	}
	if err := r.settle(ctx); err != nil {
		return 0, err
	}
	return r.stream.Erase(ctx, events.Subject(r.o.Prefix, agency, "contact_request.>"), func(m *stream.Message) bool {
		r.turn() // Run waits meanwhile
		e, err := events.Decode(m.Header, m.Data)
		return err == nil && e.AgencyID == agency && match(e)
	})
}

// settle sends events whose acknowledgements did not come once more. It does not move the cursor, which may have gone back since.
func (r *Relay) settle(ctx context.Context) error {
	for position := range r.session.doubt {
		e, found, err := r.o.Log.Lookup(position)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		if found {
			if _, err := r.send(ctx, e); err != nil {
				return err
			}
		}
		delete(r.session.doubt, position)
	}
	return nil
}
