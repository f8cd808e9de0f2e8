package relay

import (
	"context"
	"fmt"

	"doorbell/events"
	"doorbell/events/stream"
)

// Erase deletes the agency's contact request messages for which match returns true, overwrites
// their bytes, and returns their number. The caller must have erased the requests in the log first.
// Erase and publishing exclude each other: events that were read from the log before the erasure
// have been published when Erase begins. An event that was sent and not acknowledged is sent again
// in its erased form, so that the stream refuses a late copy as a duplicate. The error may wrap
// [stream.ErrMayNotErase]. Erase may be repeated after any error.
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

// settle sends unacknowledged events again. It does not move the cursor, which may have gone back
// in the meantime.
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
