package listings

import (
	"context"
	"errors"
	"sync"
	"time"
)

// limit ends a request that takes too long, body included. It is what context.WithTimeout does, with a timer that is used
// again: to make one costs more than all else that a request takes of us.
type limit struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc // of the request under way
	idle   *sync.Pool
}

// limit returns a context that ends with another one, when a request takes too long, or when the limit is lifted.
func (c *Client) limit(ctx context.Context) (context.Context, *limit) {
	whole, cancel := context.WithCancelCause(ctx)
	l, again := c.limits.Get().(*limit)
	if again {
		l.cancel = cancel
		l.timer.Reset(c.o.Timeout)
		return whole, l
	}
	l = &limit{cancel: cancel, idle: &c.limits}
	l.timer = time.AfterFunc(c.o.Timeout, func() { l.cancel(context.DeadlineExceeded) })
	return whole, l
}

// lift is called once, after the request. One whose time has come may still be at it: it is not used again.
func (l *limit) lift() {
	l.cancel(nil)
	if l.timer.Stop() {
		l.cancel = nil
		l.idle.Put(l)
	}
}

// cause is why a request ended with an error: not every transport says that it took too long.
func (l *limit) cause(whole context.Context, err error) error {
	if why := context.Cause(whole); errors.Is(err, context.Canceled) && errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	return err
}
