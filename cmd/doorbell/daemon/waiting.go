package daemon

import (
	"context"

	"doorbell/cmd/doorbell/standby"
)

// Wait is what a doorbell does while another one of its pair works.
func Wait(ctx context.Context, o Options, working func() (h standby.Holder, pair string)) error {
	<-ctx.Done()
	return nil
}
