package poller

import (
	"maps"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// endForgotten ends the alarms and the silent halts of insertions that are no longer polled, in one
// transaction; nothing if there are none.
func (a *agency) endForgotten() error {
	a.mu.Lock()
	forgotten := a.forgotten
	a.forgotten = map[string]struct{}{}
	a.mu.Unlock()
	if len(forgotten) == 0 {
		return nil
	}
	a.committing.Lock()
	defer a.committing.Unlock()
	var ended []watch.AccessChange
	err := a.commit(func(*store.Tx) (e watch.Effects, _ error) {
		for reference := range forgotten {
			if a.p.scheduler.has(a.id, reference) {
				continue
			}
			if h, silent := a.access().Silent(reference); silent {
				e.Access = append(e.Access, watch.AccessChange{AgencyID: a.id, Ended: []store.Halt{h}})
			}
			e.Clear(a.published().alarms, watch.AlarmOf(watch.Unreadable, listings.OperationContactRequests, reference), a.id, time.Now())
		}
		ended = e.Access
		return e, nil
	})
	if err != nil {
		a.mu.Lock()
		maps.Copy(a.forgotten, forgotten)
		a.mu.Unlock()
		return err
	}
	for _, c := range ended {
		a.apply(c)
	}
	return nil
}
