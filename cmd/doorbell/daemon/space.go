package daemon

import (
	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
	"doorbell/store"
)

// openHousekeeping makes what keeps the store from growing for ever. A store that is full already
// stops polls from the beginning.
func (a *Daemon) openHousekeeping() error {
	a.housekeeping = store.NewHousekeeping(store.HousekeepingOptions{
		Store: a.store, Retention: a.o.Retention, Max: a.o.StoreMax, Changed: a.tellSpace,
	})
	return a.housekeeping.Look()
}

// tellSpace logs that the store has become too full, or is so no more.
func (a *Daemon) tellSpace(is store.Space) {
	s := ops.NewStoreStatus(is)
	switch {
	case is.Full:
		a.o.Log.Error("the store is full: polling waits until there is room", "in_use", is.InUse, "most", is.Max, "advice", s.Advice)
	case is.Alarm:
		a.o.Log.Warn("the store is nearly full", "in_use", is.InUse, "most", is.Max, "advice", s.Advice)
	default:
		a.o.Log.Info("there is room in the store again", "in_use", is.InUse, "most", is.Max)
	}
}

// logOpened logs what is unusual about the store that was opened.
func (a *Daemon) logOpened() {
	log := a.o.Log.With("store", a.store.ID())
	switch c := a.store.Compaction(); {
	case c.Err != nil:
		log.Warn("the store could not be compacted; the next start tries it again", "err", c.Err.Error())
	case c.Before > 0:
		log.Info("the store was compacted", "from", c.Before, "to", c.After)
	}
	if a.o.Moved {
		log.Info("--moved: the store remembers the API at this address; leave the flag out at the next start", "to", natsd.Redact(a.store.BaseURL()))
	}
}
