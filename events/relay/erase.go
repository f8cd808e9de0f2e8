package relay

import (
	"context"
	"fmt"
	"time"
)

// Prepare prepares immediately instead of once a minute, and with it does what is
// [Options.Pending]. It returns the error after which Run waits and tries again.
func (r *Relay) Prepare(ctx context.Context) error {
	unlock, err := r.lock(ctx)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	defer unlock()
	r.session.prepared = time.Time{}
	if err := r.ready(ctx); err != nil {
		return fmt.Errorf("relay: %w", r.explain(err))
	}
	return nil
}

// erasePending erases what is to be erased. Nothing is published meanwhile, and an event that was
// sent and not acknowledged is sent again first, in its erased form: the stream then refuses a late
// copy as a duplicate.
func (r *Relay) erasePending(ctx context.Context) error {
	do := r.o.Pending()
	if do == nil {
		return nil
	}
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
		delete(r.session.doubt, position) // the cursor stays, which may have gone back meanwhile
	}
	return do(ctx, r.turn)
}
