package daemon

import (
	"doorbell/cmd/doorbell/ops"
	"doorbell/store"
)

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
