package daemon

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
)

// answer keeps the micro service at work, beside everything else: nothing of it ends the daemon or holds it up.
func (a *Daemon) answer(ctx context.Context) error {
	connected(ctx, a.dialService, a.answerOnce, func(err error) { a.o.Log.Warn("micro service failed; retrying", "err", err.Error()) })
	return nil
}

func (a *Daemon) answerOnce(ctx context.Context, conn *nats.Conn) error {
	ended := make(chan error, 1)
	go func() {
		ended <- ops.ServeMicro(ctx, ops.MicroOptions{
			Conn: conn, Prefix: a.o.SubjectPrefix, StoreID: a.store.ID(), Version: a.o.Version, Status: ops.Shared(a.status), Log: a.o.Log.With("part", "micro"),
		})
	}()
	select {
	case err := <-ended:
		return cmp.Or(err, errors.New("it ended"))
	case <-ctx.Done():
	}
	select {
	case <-ended:
	case <-time.After(letGo): // a server that does not read holds up whoever writes to it
	}
	return nil
}

// dialService makes a connection for who is asked by others: in the embedded server with fewer rights than the relay's.
func (a *Daemon) dialService(...nats.Option) (*nats.Conn, error) {
	if a.server != nil {
		return a.server.ConnectService("admin")
	}
	return natsd.Connect(a.o.NATS, a.o.Log.With("part", "micro"))
}
