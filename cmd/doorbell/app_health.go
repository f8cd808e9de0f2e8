package main

import (
	"doorbell/cmd/doorbell/ops"
)

// health says whether the daemon lives and can work.
func (a *app) health() ops.Health {
	_, err := a.poller.Status()
	return ops.NewHealth(ops.Check{Name: "store", OK: err == nil, Live: true})
}
