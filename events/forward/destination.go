package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
)

// destination is a receiver with its pace, which all workers to it share.
type destination struct {
	name     string
	receiver Receiver
	traits   Traits

	sending chan struct{} // a semaphore of one
	next    time.Time     // nothing is sent before; belongs to who holds the semaphore
	off     atomic.Bool
	failing atomic.Pointer[time.Time] // since when nothing is taken; nil while something is
}

func newDestination(o Receiver) *destination {
	t := o.Traits()
	return &destination{name: t.Destination, receiver: o, traits: t, sending: make(chan struct{}, 1)}
}

// errStopped: the forwarder ends, and nothing was sent.
var errStopped = errors.New("stopped")

// longestAfter bounds the Retry.After of a receiver.
const longestAfter = time.Hour

// send sends a delivery, one at a time and at the pace of the receiver. A send that has begun goes on for a while after the end of ctx:
// to cut it would leave in doubt whether it was taken.
func (d *destination) send(ctx context.Context, delivery Delivery, limit, drain time.Duration) error {
	select {
	case <-ctx.Done():
		return errStopped
	case d.sending <- struct{}{}:
	}
	defer func() { <-d.sending }()
	if d.off.Load() {
		return &Gone{Reason: "it was switched off before"}
	}
	if !sleep(ctx, time.Until(d.next)) {
		return errStopped
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drain, cancel) })()
	err := send(limited, d.receiver, delivery)
	now := time.Now()
	d.next = now.Add(max(d.traits.Pace, after(err)))
	if err == nil || errors.As(err, new(*Permanent)) { // one that permanently rejects is an answer, too
		d.failing.Store(nil)
	} else {
		d.failing.CompareAndSwap(nil, &now)
	}
	return err
}

// send hands a delivery to a receiver. Where that panics the delivery is refused: it would panic again at the next try.
func send(ctx context.Context, r Receiver, d Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Permanent{Reason: fmt.Sprintf("it cannot be rendered: a fault of doorbell, %T", p)} // the value may quote a person
		}
	}()
	return r.Send(ctx, d)
}

// after is the Retry.After of a receiver.
func after(err error) time.Duration {
	var retry *Retry
	if errors.As(err, &retry) {
		return min(retry.After, longestAfter)
	}
	return 0
}

// sleep is false if ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// pause is our own back-off after so many attempts: 1 s, 2 s … 5 min, a fifth more or less.
func pause(attempts int) time.Duration {
	const longest = 5 * time.Minute
	d := longest
	if attempts < 10 {
		d = min(longest, time.Second<<max(0, attempts-1))
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// reason is what an error of a receiver may be quoted with. Of an error that is none of ours only the kind is told: it may hold an
// address, which may be a secret.
func reason(err error) string {
	var retry *Retry
	var permanent *Permanent
	var gone *Gone
	switch {
	case errors.As(err, &permanent):
		return plain(permanent.Reason)
	case errors.As(err, &gone):
		return plain(gone.Reason)
	case errors.As(err, &retry):
		return plain(retry.Reason)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "cut short"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return fmt.Sprintf("an error of type %T", err)
}

// plain makes a text fit for a header and a line of log: printable ASCII, and not much of it.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 300)]
}
