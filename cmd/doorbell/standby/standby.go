// Package standby lets one of several doorbells work while the others wait, so that a machine may
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

// Turn is the time in which this process works.
type Turn struct {
	*Lease
	p *pair
}

// Holder returns the name of the pair and this process.
func (t *Turn) Holder() (pair string, h Holder) { return t.p.Name, t.holder }

type pair struct {
	Options
	kv jetstream.KeyValue // nil: it has to be opened

	copying sync.Mutex // held while a copy is written

	mu      sync.Mutex
	working Holder
}

// Run waits for the lease, works, and waits again if the lease is lost, until ctx ends.
func Run(ctx context.Context, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	p := &pair{Options: o}
	_ = os.RemoveAll(filepath.Join(o.Dir, parts)) // of a process that was killed: it may hold people who are erased meanwhile
	for ctx.Err() == nil {
		l, err := p.await(ctx)
		if err != nil || l == nil {
			return err
		}
		if err := p.work(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// await waits for the lease. It returns nil when ctx has ended.
func (p *pair) await(ctx context.Context) (l *Lease, err error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Wait(waiting, p.holder) }()
	problem := ""
	for {
		if l, err = p.try(ctx); l != nil || ctx.Err() != nil {
			break
		}
		if err != nil && err.Error() != problem {
			problem = err.Error()
			p.Log.Warn("the lease cannot be read or taken; trying again", "pair", p.Name, "err", problem)
		}
		select {
		case err := <-ended:
			return nil, err
		case <-time.After(tryEvery):
		}
	}
	stop()
	if err := <-ended; err != nil && ctx.Err() == nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// try takes the lease if it is free, and otherwise notes its holder.
func (p *pair) try(ctx context.Context) (*Lease, error) {
	if p.kv == nil {
		if err := p.open(ctx); err != nil {
			return nil, stream.Explain(p.Conn, err)
		}
	}
	h := p.Holder
	h.Since = time.Now().UTC()
	l, err := take(ctx, p.kv, p.Name, h)
	switch {
	case err != nil:
		p.kv = nil // the bucket may have been deleted
	case l == nil:
		p.see(ctx)
	}
	return l, err
}

// see notes the process that holds the lease.
func (p *pair) see(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	var h Holder
	if e, err := p.kv.Get(ctx, p.Name); err != nil || json.Unmarshal(e.Value(), &h) != nil {
		return
	}
	p.mu.Lock()
	before := p.working
	p.working = h
	p.mu.Unlock()
	if before.ID != h.ID {
		p.Log.Info("waiting: another doorbell works", "pair", p.Name, "holder", h.Name, "since", h.Since.Format(time.RFC3339))
	}
}

func (p *pair) holder() Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.working
}

// open makes the bucket of the lease if it is missing. One that exists is used as it is.
func (p *pair) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	js, replicas, err := p.jetStream(ctx)
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: Bucket, Description: "doorbell: which doorbell of a pair works", Replicas: replicas, TTL: ttl,
		})
	}
	p.kv = kv
	return err
}

// copies opens the object store, and makes it if it is missing.
func (p *pair) copies(ctx context.Context) (jetstream.ObjectStore, error) {
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	js, replicas, err := p.jetStream(ctx, jetstream.WithDefaultTimeout(chunkLimit))
	if err != nil {
		return nil, err
	}
	copies, err := js.ObjectStore(ctx, CopyBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		copies, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: CopyBucket, Description: "doorbell: what a doorbell that takes over starts from", Replicas: replicas, TTL: p.Keep,
		})
	}
	return copies, err
}

// jetStream returns how many replicas a bucket gets: as many as the stream of events has.
func (p *pair) jetStream(ctx context.Context, o ...jetstream.JetStreamOpt) (js jetstream.JetStream, replicas int, err error) {
	if js, err = p.Conn.JetStream(o...); err != nil {
		return nil, 0, err
	}
	s, err := js.Stream(ctx, p.Stream)
	switch {
	case err == nil:
		return js, max(1, s.CachedInfo().Config.Replicas), nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return js, 1, nil
	}
	return nil, 0, err
}

// work takes over, and works until ctx ends or the lease is lost.
func (p *pair) work(ctx context.Context, l *Lease) error {
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	working, lost := context.WithCancel(ctx)
	go func() {
		defer close(kept)
		defer lost()
		l.keep(keeping)
	}()
	defer func() {
		stop()
		<-kept
		_ = l.release() // otherwise it expires
	}()
	if err := p.takeOver(working); err != nil {
		if ctx.Err() == nil {
			p.Log.Error("the copy of the doorbell before this one cannot be read; trying again", "pair", p.Name, "err", err.Error(),
				"advice", "if it stays so, nats object rm "+CopyBucket+" "+p.Name+" lets this doorbell start from its own store")
			select {
			case <-working.Done():
			case <-time.After(time.Second):
			}
		}
		return nil
	}
	p.Log.Info("this doorbell works", "pair", p.Name)
	err := p.Work(working, &Turn{l, p})
	if !l.Valid() && ctx.Err() == nil {
		p.Log.Error("the lease is lost: another doorbell may work; this one waits", "pair", p.Name)
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
			t.p.Log.Warn("the copy for the doorbell that takes over cannot be written; trying again", "err", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-urgent:
		case <-time.After(wait):
		}
	}
}
