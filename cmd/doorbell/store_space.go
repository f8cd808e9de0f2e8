package main

import (
	"os"
	"path/filepath"

	"doorbell/cmd/doorbell/ops"
	"doorbell/store"
)

// openHousekeeping makes what keeps the store from growing for ever.
func (a *app) openHousekeeping() {
	b := a.o.Base
	if left, err := filepath.Glob(filepath.Join(b.DataDir, verifyPattern)); err == nil { // by a verify that was killed
		for _, dir := range left {
			_ = os.RemoveAll(dir)
		}
	}
	a.housekeeping = store.NewHousekeeping(store.HousekeepingOptions{
		Store: a.store, Retention: b.Retention, Max: int64(b.StoreMax), Told: a.tellSpace,
	})
}

// tellSpace logs that the store has become too full, or is so no more.
func (a *app) tellSpace(is store.Space) {
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
