package poller

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// endForgotten ends the alarms and the silent halts of insertions that are no longer polled, in one transaction; nothing if there are
// none. One that is being polled ends after that: its halt keeps what waits to be sent.
func (a *agency) endForgotten() error {
	forgotten, polled := map[string]struct{}{}, map[string]struct{}{}
	a.mu.Lock()
	for reference := range a.forgotten {
		if a.busy[reference] == nil {
			forgotten[reference] = struct{}{}
		} else {
			polled[reference] = struct{}{}
		}
	}
	a.forgotten = polled
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
		return err
	}
	for _, c := range ended {
		a.apply(c)
	}
	return nil
}
