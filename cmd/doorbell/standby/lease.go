package standby

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// ttl is how long the server keeps a lease that is not renewed.
	ttl = 20 * time.Second
	// validFor is how long a lease is relied on, counted from before its last good renewal was
	// sent. The server counts from when it stored that, so the lease is over for its holder first.
	validFor = 15 * time.Second
	// renewEvery leaves time for several renewals before the lease ends.
	renewEvery = 3 * time.Second
	// tryEvery is how often a waiting process tries to take the lease.
	tryEvery = 500 * time.Millisecond
	// replyLimit is how long one request to the bucket may take.
	replyLimit = 4 * time.Second
)

// Holder is the process that works. It is the value of the key.
type Holder struct {
	Name  string    `json:"name"`  // what people call it
	ID    string    `json:"id"`    // of this process
	Since time.Time `json:"since"` // when it took over
}

// Lease is the right to work. Its methods may be called from any goroutine.
type Lease struct {
	kv       jetstream.KeyValue
	key      string
	holder   Holder
	value    []byte // of the key: the holder
	revision uint64 // only keep uses it

	mu   sync.Mutex
	good time.Time // when the last renewal that succeeded was sent; zero: the lease is lost
}

// take tries to take the lease once. It returns nil if another process holds it.
func take(ctx context.Context, kv jetstream.KeyValue, key string, h Holder) (*Lease, error) {
	value, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	l := &Lease{kv: kv, key: key, holder: h, value: value, good: time.Now()}
	l.revision, err = kv.Create(ctx, key, value)
	switch {
	case errors.Is(err, jetstream.ErrKeyExists):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return l, nil
}

// Valid reports whether its holder may begin another request. Of the monotonic clock and the wall
// clock the one counts that shows more time: the first may stand still while a machine is
// suspended, and the second may be set back.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.age() < validFor
}

func (l *Lease) age() time.Duration {
	now := time.Now()
	return max(now.Sub(l.good), now.Round(0).Sub(l.good.Round(0)))
}

// keep renews the lease until ctx ends, or until it is lost: another process holds it, or no
// renewal succeeded in time.
func (l *Lease) keep(ctx context.Context) {
	for l.Valid() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewEvery):
		}
		l.renew(ctx)
	}
}

func (l *Lease) renew(ctx context.Context) {
	if !l.Valid() { // the process was suspended: another one may hold it
		return
	}
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	sent := time.Now()
	revision, err := l.kv.Update(ctx, l.key, l.value, l.revision)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.revision, l.good = revision, sent
	case errors.Is(err, jetstream.ErrKeyExists): // another revision is the last one
		l.revision, l.good = l.found(ctx)
	}
}

// found returns the revision of the key and the time from which the lease counts, if a renewal
// whose reply was lost has written it; zero if another process did, or the lease has expired.
func (l *Lease) found(ctx context.Context) (uint64, time.Time) {
	e, err := l.kv.Get(ctx, l.key)
	switch {
	case err == nil && string(e.Value()) == string(l.value):
		return e.Revision(), l.good
	case err != nil && !errors.Is(err, jetstream.ErrKeyNotFound):
		return l.revision, l.good // unknown: until it is too old
	}
	return l.revision, time.Time{}
}

// release gives the lease back, so that a waiting process takes over immediately.
func (l *Lease) release() error {
	if l == nil || !l.Valid() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), replyLimit)
	defer cancel()
	return l.kv.Delete(ctx, l.key, jetstream.LastRevision(l.revision))
}
