package forward

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	digestAbove = 5       // so many may wait before digests are made
	mostAhead   = 1000    // messages that are looked at
	mostBytes   = 8 << 20 // that they may take
)

// gather returns what is sent together with the item in hand, which is the first. A delivery that is tried again is the same
// delivery: its receivers can tell it, and an outlet that has brought it to some of them knows to whom not.
func (l *lane) gather(ctx context.Context, i *item) ([]*item, error) {
	if i.attempts >= l.f.o.Tries && len(l.tried) > 1 && l.tried[0] == i.place { // perhaps it is one of them
		l.singly = l.tried[len(l.tried)-1]
	}
	together, err := l.choose(ctx, i)
	if err != nil {
		return nil, err
	}
	l.tried = l.tried[:0]
	for _, t := range together {
		l.tried = append(l.tried, t.place)
	}
	return together, nil
}

func (l *lane) choose(ctx context.Context, i *item) ([]*item, error) {
	alone := []*item{i}
	if l.dest.traits.Digest < 2 || i.place <= l.singly {
		return alone, nil
	}
	if len(l.tried) > 0 && l.tried[0] == i.place {
		return l.again(ctx, i)
	}
	if key := haltKey(i.event); key != "" {
		together, err := l.settle(ctx, i, key)
		if err != nil || len(together) > 1 {
			return together, err
		}
	}
	if i.waiting < digestAbove {
		return alone, nil
	}
	behind, err := l.ahead(ctx, i, l.dest.traits.Digest-1, func(*item) bool { return true })
	for n, b := range behind {
		if haltKey(b.event) != "" { // it is told with those that belong to it
			behind = behind[:n]
			break
		}
	}
	if err != nil || len(behind) < digestAbove {
		return alone, nil //nolint:nilerr // what cannot be read ahead comes one by one
	}
	return append(alone, behind...), nil
}

// again returns what was tried together before.
func (l *lane) again(ctx context.Context, i *item) ([]*item, error) {
	if len(l.tried) == 1 {
		return []*item{i}, nil
	}
	behind, err := l.ahead(ctx, i, len(l.tried)-1, func(other *item) bool { return slices.Contains(l.tried, other.place) })
	if err != nil {
		return nil, err
	}
	return append([]*item{i}, behind...), nil
}

// haltKey tells halts apart that have causes of their own: those with one key and one probable reason are one.
func haltKey(e events.Event) string {
	if e.Type != events.TypeAccessHalted {
		return ""
	}
	var p struct {
		ProbableReason string        `json:"probableReason"`
		Key            events.KeyRef `json:"key"`
	}
	if json.Unmarshal(e.Data, &p) != nil || p.Key.Fingerprint == "" {
		return ""
	}
	return p.Key.Fingerprint + " " + p.ProbableReason
}

// settle returns the halts of one cause that wait. The first is told at once: it may be mended before others are refused. Those that
// follow within Options.Settle wait for its end and are one.
func (l *lane) settle(ctx context.Context, first *item, cause string) ([]*item, error) {
	if !sleep(ctx, time.Until(l.causes[cause].Add(l.f.o.Settle))) {
		return nil, ctx.Err()
	}
	behind, err := l.ahead(ctx, first, mostAhead, func(i *item) bool { return haltKey(i.event) == cause })
	if err != nil {
		behind = nil // then each comes alone
	}
	maps.DeleteFunc(l.causes, func(_ string, told time.Time) bool { return time.Since(told) > l.f.o.Settle })
	l.causes[cause] = time.Now()
	return append([]*item{first}, behind...), nil
}

// ahead reads what the lane wants of the messages behind an item, without taking them in hand: so many at most.
func (l *lane) ahead(ctx context.Context, i *item, most int, want func(*item) bool) (found []*item, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerLimit)
	defer cancel()
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: i.place + 1, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: 30 * time.Second,
	}
	l.narrow(&config)
	c, err := l.f.js.CreateConsumer(ctx, l.f.o.Stream, config)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
		defer cancel()
		_ = l.f.js.DeleteConsumer(ctx, l.f.o.Stream, c.CachedInfo().Name) // else it goes by itself
	}()
	size, place := 0, uint64(0)
	for place < mostAhead && size < mostBytes && ctx.Err() == nil {
		batch, err := c.FetchNoWait(50)
		if err != nil {
			return nil, err
		}
		came := 0
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil || meta.Sequence.Consumer != place+1 {
				return found, err // one is missing: those behind it must not be done before it
			}
			place, came, size = place+1, came+1, size+len(m.Data())
			if next, ours := l.read(m); ours && l.wanted(next) && want(next) {
				if found = append(found, next); len(found) == most {
					return found, nil
				}
			}
		}
		if came == 0 {
			break
		}
	}
	return found, nil
}
