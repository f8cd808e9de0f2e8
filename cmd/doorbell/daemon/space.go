package daemon

import (
	"strings"
	"time"

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

// tellAccepted logs what the flags for one start have done.
func (a *Daemon) tellAccepted() {
	flags, done, log := a.o.Accept, a.store.Accepted(), a.o.Log.With("store", a.store.ID())
	if done.Torn {
		log.Warn("one of the two heads of the store is unreadable: the last commit may be missing, as after a power failure; the watch goes on from the commit before, "+
			"and what the stream knows is imported; if there was no power failure, look at the disk", "path", a.store.Path())
	}
	switch {
	case !flags.Restored:
	case !done.Copied.IsZero():
		log.Info("--restored: a backup is accepted as the store that goes on", "backup_of", done.Copied.Format(time.RFC3339))
	case done.Stranger:
		log.Info("--restored: a store is accepted that store-id did not name, and store-id written again")
	default:
		log.Info("--restored: this is the store that store-id names, or an older copy of it; what the stream has since then is imported; leave the flag out at the next start")
	}
	switch {
	case !flags.Moved:
	case done.From != "":
		log.Info("--moved: the store remembers the API at its new address", "from", natsd.Redact(done.From), "to", natsd.Redact(a.store.BaseURL()))
	default:
		log.Info("--moved: the store knew the address already; leave the flag out at the next start")
	}
	switch {
	case !flags.Fresh:
	case len(done.Aside) > 0:
		log.Info("--fresh: a new store was begun and the old one set aside; leave the flag out at the next start", "aside", strings.Join(done.Aside, " "))
	default:
		log.Info("--fresh: a new store was begun; there was no old one")
	}
}
