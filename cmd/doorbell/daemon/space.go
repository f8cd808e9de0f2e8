package daemon

import (
	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
	"doorbell/store"
)

// openHousekeeping makes what keeps the store from growing for ever.
func (a *Daemon) openHousekeeping() {
	a.housekeeping = store.NewHousekeeping(store.HousekeepingOptions{
		Store: a.store, Retention: a.o.Retention, Max: a.o.StoreMax, Changed: a.tellSpace,
	})
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
	if a.store.Torn() {
		log.Warn("one of the two heads of the store is unreadable: the last commit may be missing, as after a power failure; the watch goes on from the "+
			"commit before; if there was no power failure, look at the disk", "path", a.store.Path())
	}
	if a.o.Moved {
		log.Info("--moved: the store remembers the API at this address; leave the flag out at the next start", "to", natsd.Redact(a.store.BaseURL()))
	}
}
