// Package standby lets one of several doorbells work while the others wait, so that one machine may
// fail.
//
// One key in a bucket of NATS is the lease. Its holder works and renews it. A holder that dies
// stops renewing; the server drops the key after 20 s, and a waiting doorbell creates it. One that
// ends cleanly deletes it. A holder that does not reach NATS stops polling 15 s after its last
// renewal. No fence is needed behind that: the stream takes each event once, so a suspended holder
// that resumes publishes what is already there.
//
// What only the holder's store knows is in a copy, an object in another bucket: what was seen of
// the API, the events that are not published yet, the checkpoints of the forwarders, and receipts
// of erasures. It is written at the start, every ten minutes, and after what must not be lost, such
// as a halt. The doorbell that takes over adopts it like a restored backup. What the holder did
// after the copy is seen again at the API and refused by the stream as a duplicate.
package standby

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events/stream"
	"doorbell/store"
)

const (
	// Bucket is the key-value bucket of the leases.
	Bucket = "DOORBELL_STANDBY"
	// CopyBucket is the object store of the copies.
	CopyBucket = "DOORBELL_STANDBY_COPY"
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
	// replyLimit is how long one request to a bucket may take.
	replyLimit = 4 * time.Second
)

// Holder is the process that works. It is the value of the key.
type Holder struct {
	Name  string    `json:"name"`  // what people call it
	ID    string    `json:"id"`    // of this process
	Since time.Time `json:"since"` // when it took over
}

// Options of Run. All are required but Log.
type Options struct {
	Conn   stream.Conn
	Stream string        // of the events, whose number of replicas the buckets get
	Keep   time.Duration // how long a copy is kept that no other replaces
	Name   string        // of the pair
	Holder Holder        // this process
	Dir    string        // data directory
	Log    *slog.Logger

	// Work is what the holder does until ctx ends. Its error ends Run.
	Work func(ctx context.Context, t *Turn) error
	// Wait is what the others do meanwhile. working returns the process that works; its Name is
	// empty while that is unknown.
	Wait func(ctx context.Context, working func() Holder) error
}

// Run waits for the lease, works, and waits again if the lease is lost, until ctx ends.
func Run(ctx context.Context, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	// A process that was killed may have left people there who are erased meanwhile.
	_ = os.RemoveAll(filepath.Join(o.Dir, parts))
	for ctx.Err() == nil {
		t, err := awaitLease(ctx, o)
		if err != nil || t == nil {
			return err
		}
		if err := t.work(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Turn is the time in which this process works: it holds the lease. Its methods may be called from
// any goroutine.
type Turn struct {
	o        Options
	kv       jetstream.KeyValue
	value    []byte // of the key: the holder
	revision uint64 // only keep uses it

	copying sync.Mutex // held while a copy is written

	mu   sync.Mutex
	good time.Time // when the last renewal that succeeded was sent; zero: the lease is lost
}

// awaitLease waits for the lease. It returns nil when ctx has ended.
func awaitLease(ctx context.Context, o Options) (t *Turn, err error) {
	var (
		mu      sync.Mutex
		working Holder
	)
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- o.Wait(waiting, func() Holder {
			mu.Lock()
			defer mu.Unlock()
			return working
		})
	}()
	for problem := ""; ; {
		var h Holder
		if t, h, err = take(ctx, o); t != nil || ctx.Err() != nil {
			break
		}
		if err != nil && err.Error() != problem {
			problem = err.Error()
			o.Log.Warn("the lease cannot be read or taken; trying again", "pair", o.Name,
				"err", problem)
		}
		if h.ID != "" && h.ID != working.ID {
			o.Log.Info("waiting: another doorbell is active", "pair", o.Name, "holder", h.Name,
				"since", h.Since.Format(time.RFC3339))
			mu.Lock()
			working = h
			mu.Unlock()
		}
		select {
		case err := <-ended:
			return nil, err
		case <-time.After(tryEvery):
		}
	}
	stop()
	if err := <-ended; err != nil && ctx.Err() == nil {
		return nil, errors.Join(err, t.release())
	}
	return t, nil
}

// take takes the lease if it is free, and otherwise returns its holder. The bucket is opened each
// time, because it may have been deleted.
func take(ctx context.Context, o Options) (t *Turn, working Holder, err error) {
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	o.Holder.Since = time.Now().UTC()
	t = &Turn{o: o}
	if t.value, err = json.Marshal(o.Holder); err != nil {
		return nil, working, err
	}
	if t.kv, err = o.bucket(ctx); err != nil {
		return nil, working, stream.Explain(o.Conn, err)
	}
	t.good = time.Now()
	t.revision, err = t.kv.Create(ctx, o.Name, t.value)
	if !errors.Is(err, jetstream.ErrKeyExists) {
		if err != nil {
			t = nil
		}
		return t, working, err
	}
	e, err := t.kv.Get(ctx, o.Name)
	if err != nil {
		return nil, working, nil
	}
	_ = json.Unmarshal(e.Value(), &working) // what cannot be read is unknown
	if working.ID != o.Holder.ID {
		return nil, working, nil
	}
	// The reply to an earlier attempt was lost.
	t.revision, err = t.kv.Update(ctx, o.Name, t.value, e.Revision())
	if err != nil {
		return nil, Holder{}, err
	}
	return t, Holder{}, nil
}

// bucket opens the bucket of the leases, and makes it if it is missing.
func (o Options) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	js, err := o.Conn.JetStream()
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		replicas, err := stream.Replicas(ctx, js, o.Stream)
		if err != nil {
			return nil, err
		}
		return js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: Bucket, Description: "doorbell: which doorbell of a pair is active", TTL: ttl,
			Replicas: replicas,
		})
	}
	return kv, err
}

// Holder returns the name of the pair and this process.
func (t *Turn) Holder() (pair string, h Holder) { return t.o.Name, t.o.Holder }

// Valid reports whether this process may begin another request. Of the monotonic clock and the wall
// clock the one counts that shows more time: the first may stand still while a machine is
// suspended, and the second may be set back.
func (t *Turn) Valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	return max(now.Sub(t.good), now.Round(0).Sub(t.good.Round(0))) < validFor
}

// keep renews the lease until ctx ends, or until it is lost: another process holds it, or no
// renewal succeeded in time.
func (t *Turn) keep(ctx context.Context) {
	for t.Valid() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewEvery):
		}
		t.renew(ctx)
	}
}

func (t *Turn) renew(ctx context.Context) {
	if !t.Valid() { // the process was suspended: another one may hold it
		return
	}
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	sent := time.Now()
	revision, err := t.kv.Update(ctx, t.o.Name, t.value, t.revision)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.revision, t.good = revision, sent
	case errors.Is(err, jetstream.ErrKeyExists): // another revision is the last one
		t.revision, t.good = t.found(ctx)
	}
}

// found returns the revision of the key and the time from which the lease counts, if a renewal
// whose reply was lost has written it; zero if another process did, or the lease has expired.
func (t *Turn) found(ctx context.Context) (uint64, time.Time) {
	e, err := t.kv.Get(ctx, t.o.Name)
	switch {
	case err == nil && string(e.Value()) == string(t.value):
		return e.Revision(), t.good
	case err != nil && !errors.Is(err, jetstream.ErrKeyNotFound):
		return t.revision, t.good // unknown: until it is too old
	}
	return t.revision, time.Time{}
}

// release gives the lease back, so that a waiting process takes over immediately.
func (t *Turn) release() error {
	if t == nil || !t.Valid() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), replyLimit)
	defer cancel()
	return t.kv.Delete(ctx, t.o.Name, jetstream.LastRevision(t.revision))
}

// work takes over, and works until ctx ends or the lease is lost.
func (t *Turn) work(ctx context.Context) error {
	log := t.o.Log.With("pair", t.o.Name)
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	working, lost := context.WithCancel(ctx)
	go func() {
		defer close(kept)
		defer lost()
		t.keep(keeping)
	}()
	defer func() {
		stop()
		<-kept
		_ = t.release() // otherwise it expires
	}()
	if err := t.takeOver(working); err != nil {
		if ctx.Err() == nil {
			log.Error("the previous doorbell's copy cannot be read; trying again",
				"err", err.Error(),
				"advice", "if this persists, nats object rm "+CopyBucket+" "+t.o.Name+
					" lets this doorbell start from its own store")
			select {
			case <-working.Done():
			case <-time.After(time.Second):
			}
		}
		return nil
	}
	log.Info("this doorbell is active")
	err := t.o.Work(working, t)
	if !t.Valid() && ctx.Err() == nil {
		log.Error("the lease is lost: another doorbell may be active; this one waits")
	}
	return err
}

// copyEvery is how old a copy may become, copyAgain the pause after one that failed.
const (
	copyEvery = 10 * time.Minute
	copyAgain = 10 * time.Second
)

// Copy keeps the copy of the store up to date until ctx ends: now, every ten minutes, and after
// each commit whose loss could not be made up for. A failure is logged and tried again.
func (t *Turn) Copy(ctx context.Context, s *store.Store) error {
	urgent := make(chan struct{}, 1)
	s.OnUrgent(func() {
		select {
		case urgent <- struct{}{}:
		default:
		}
	})
	for {
		wait := copyEvery
		err := t.CopyNow(ctx, s)
		switch {
		case ctx.Err() != nil, s.Failure() != nil:
			return nil
		case err != nil:
			wait = copyAgain
			t.o.Log.Warn("the copy for the doorbell that takes over cannot be written; trying again", "err", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-urgent:
		case <-time.After(wait):
		}
	}
}
