package people

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/events/stream"
	"doorbell/store"
)

// Ages knows how old the people are who are held, and erases those who are too old. It is for many goroutines at a time.
type Ages struct {
	Store *store.Store
	mu    sync.Mutex
	upTo  map[string]uint64 // by agency: no published event up to this sequence holds a person
}

// Oldest is when the oldest event was recorded that holds a person; zero if none does.
func (a *Ages) Oldest() (oldest time.Time, err error) {
	agencies, err := a.Store.Agencies()
	for _, agency := range agencies {
		_, at, err := a.erase(agency, time.Time{})
		if err != nil {
			return oldest, err
		}
		if !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return oldest, err
}

// erase takes people out of the log of an agency whose events were recorded before a moment, and says when the oldest one was that is left.
func (a *Ages) erase(agency string, before time.Time) (erased int, oldest time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.upTo == nil {
		a.upTo = map[string]uint64{}
	}
	for {
		p, err := a.Store.ErasePeople(agency, before, a.upTo[agency])
		erased += p.Erased
		if err != nil || p.Next == a.upTo[agency] {
			return erased, p.Oldest, err
		}
		a.upTo[agency] = p.Next
	}
}

// Erase takes people out of what was recorded before a moment, in all places, and says of how many events. Of the streams it reads what is
// so old, or all of them: what was sent late stands behind what is younger.
func (a *Ages) Erase(ctx context.Context, p *Places, before time.Time, all bool) (erased int, err error) {
	agencies, err := p.Store.Agencies()
	if err != nil {
		return 0, err
	}
	for _, agency := range agencies {
		n, _, err := a.erase(agency, before)
		if erased += n; err != nil {
			return erased, err
		}
	}
	for _, agency := range agencies {
		for _, m := range p.streams(agency) {
			n, failed := p.eraseOld(ctx, m, before, all)
			if erased += n; failed != nil { // in the others it may be allowed
				err = errors.Join(err, fmt.Errorf("stream %s: %w", m.stream, stream.Explain(p.Conn, failed)))
			}
		}
	}
	return erased, err
}

func (p *Places) eraseOld(ctx context.Context, m messages, before time.Time, all bool) (erased int, err error) {
	client := p.client(m)
	for one, err := range client.Read(ctx, m.filter, 0) {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return erased, nil
		}
		if err != nil {
			return erased, err
		}
		if !all && !one.Time.Before(before) {
			return erased, nil
		}
		if e, err := events.Decode(one.Header, one.Data); err != nil || !e.HoldsPerson() || !e.RecordedTime.Before(before) {
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
