package people

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/events/stream"
	"doorbell/store"
)

// agingFile stands while messages are erased for their age.
const agingFile = "aging"

// Ages knows how old the people are who are held, and erases those who are too old. It is for many goroutines at a time.
type Ages struct {
	Store *store.Store
	mu    sync.Mutex
	upTo  uint64 // no published event up to this position holds a person
}

// Oldest is when the oldest event was recorded that holds a person; zero if none does.
func (a *Ages) Oldest() (oldest time.Time, err error) {
	_, oldest, err = a.erase(time.Time{})
	return oldest, err
}

// erase takes people out of events that were recorded before a moment, and says when the oldest one was that is left.
func (a *Ages) erase(before time.Time) (erased int, oldest time.Time, err error) {
	for done := false; !done && err == nil; {
		var n int
		n, oldest, done, err = a.step(before)
		erased += n
	}
	return erased, oldest, err
}

// step is one transaction of it. A caller that asks for the oldest does not wait for it.
func (a *Ages) step(before time.Time) (erased int, oldest time.Time, done bool, err error) {
	a.mu.Lock()
	after := a.upTo
	a.mu.Unlock()
	p, err := a.Store.ErasePeople(before, after)
	if err != nil {
		return 0, oldest, true, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.upTo = max(a.upTo, p.Next)
	return p.Erased, p.Oldest, p.Next == after, nil
}

// Logged takes people out of what was recorded in the log before a moment, and says of how many events.
func (a *Ages) Logged(before time.Time) (erased int, err error) {
	erased, _, err = a.erase(before)
	return erased, err
}

// EraseOld erases the messages with people that have stood in the streams since before a moment, and says how many they were. Those who read
// the streams had as long for each, also where it was published late. A file in Folder says that it is under way: where the process ends
// meanwhile, the next start of the server overwrites what was deleted; see Unfinished.
func (p *Places) EraseOld(ctx context.Context, before time.Time) (erased int, err error) {
	if p.Embedded {
		if err := p.write(agingFile, nil); err != nil {
			return 0, err
		}
		defer func() {
			if err == nil {
				err = os.Remove(filepath.Join(p.Dir, Folder, agingFile))
			}
		}()
	}
	for _, m := range p.streams("") {
		n, failed := p.eraseOld(ctx, m, before)
		if erased += n; failed != nil { // in the others it may be allowed
			err = errors.Join(err, fmt.Errorf("stream %s: %w", m.stream, stream.Explain(p.Conn, failed)))
		}
	}
	return erased, err
}

func (p *Places) eraseOld(ctx context.Context, m messages, before time.Time) (erased int, err error) {
	client := p.client(m)
	for one, err := range client.Read(ctx, m.filter, 0) {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return erased, nil
		}
		if err != nil {
			return erased, err
		}
		if !one.Time.Before(before) {
			return erased, nil
		}
		if e, err := events.Decode(one.Header, one.Data); err != nil || !e.HoldsPerson() {
			continue
		}
		gone, err := client.EraseAt(ctx, one.Sequence)
		if err != nil {
			return erased, err
		}
		if gone {
			erased++
		}
	}
	return erased, nil
}
