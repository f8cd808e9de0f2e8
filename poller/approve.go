package poller

import (
	"fmt"
	"time"

	"doorbell/store"
)

// Approve believes the held change of an agency, because a person says that it is true. The next complete walk that still
// shows it tells it; one that shows a larger change is held anew. It says whether anything was held.
func (p *Poller) Approve(agencyID string) (held bool, err error) {
	a := p.agency(agencyID)
	if a == nil {
		return false, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	if held, err = ApproveRemembered(p.store, agencyID); err != nil || !held {
		return held, err
	}
	p.log.Info("the held change is approved", "agency", agencyID)
	a.wakeWalk()
	return true, nil
}

// ApproveRemembered does in the store of a stopped daemon what Approve does in a running one.
func ApproveRemembered(s *store.Store, agencyID string) (held bool, err error) {
	err = s.Update(func(tx *store.Tx) error {
		held = false
		state, known, err := tx.Agency(agencyID)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
		}
		if held = state.Held != nil; !held {
			return nil
		}
		h := *state.Held
		h.Approved, h.Until = true, time.Now().UTC()
		state.Held = &h
		return tx.PutAgency(agencyID, state)
	})
	return held, err
}
