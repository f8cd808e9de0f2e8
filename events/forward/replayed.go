package forward

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"doorbell/events"
)

// Replayed is what SendReplayed has done. Events that no route wants are in none of the numbers.
type Replayed struct {
	Deliveries int `json:"deliveries"` // a digest is one
	Events     int `json:"events"`     // in these deliveries
	Refused    int `json:"refused"`    // that an outlet can never take
}

// replayTries is how often a delivery of a replay is tried: about ten minutes.
const replayTries = 10

// SendReplayed sends events of the past to the outlets of those routes whose filters want them, at the pace of the outlets, with origin
// replay. With digest it makes digests where an outlet has them. It remembers nothing and makes no dead letters: what an outlet
// can never take is counted. It calls told after every delivery. The error is that of the list, of ctx, or of an outlet that
// takes nothing for long: what was sent is sent.
func SendReplayed(ctx context.Context, routes []Route, digest bool, list iter.Seq2[events.Event, error], told func(Replayed)) (Replayed, error) {
	r := replayer{told: told, digest: digest, lanes: map[string]*replayLane{}}
	for e, err := range list {
		if err != nil {
			return r.sum, err
		}
		if err := r.put(ctx, routes, e); err != nil {
			return r.sum, err
		}
	}
	for _, l := range r.order {
		if err := r.flush(ctx, l); err != nil {
			return r.sum, err
		}
	}
	return r.sum, ctx.Err()
}

type replayer struct {
	told   func(Replayed)
	digest bool
	sum    Replayed
	dests  map[string]*destination
	lanes  map[string]*replayLane
	order  []*replayLane
}

// replayLane is what waits to be sent to a destination as one.
type replayLane struct {
	dest    *destination
	waiting []events.Event
}

// put adds an event to what waits, once for each destination that wants it.
func (r *replayer) put(ctx context.Context, routes []Route, e events.Event) error {
	seen := map[string]bool{}
	for _, route := range routes {
		name := route.Outlet.Traits().Destination
		if seen[name] || !route.Filter.wants(e) {
			continue
		}
		seen[name] = true
		l := r.lane(route.Outlet, kindOf(e.Type))
		l.waiting = append(l.waiting, e.WithOrigin(events.OriginReplay))
		if !r.digest || len(l.waiting) >= l.dest.traits.Digest {
			if err := r.flush(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *replayer) lane(o Outlet, k Kind) *replayLane {
	name := o.Traits().Destination
	l := r.lanes[laneKey(name, k)]
	if l == nil {
		if r.dests == nil {
			r.dests = map[string]*destination{}
		}
		if r.dests[name] == nil {
			r.dests[name] = newDestination(o)
		}
		l = &replayLane{dest: r.dests[name]}
		r.lanes[laneKey(name, k)] = l
		r.order = append(r.order, l)
	}
	return l
}

// flush sends what waits. A digest that can never be taken is sent event by event.
func (r *replayer) flush(ctx context.Context, l *replayLane) error {
	together := l.waiting
	l.waiting = nil
	if len(together) == 0 {
		return nil
	}
	err := r.send(ctx, l.dest, together)
	var permanent *Permanent
	switch {
	case err == nil:
		r.sum.Deliveries++
		r.sum.Events += len(together)
	case errors.As(err, &permanent) && (len(together) == 1 || permanent.Partly):
		r.sum.Refused += len(together)
	case errors.As(err, &permanent):
		for _, e := range together {
			l.waiting = []events.Event{e}
			if err := r.flush(ctx, l); err != nil {
				return err
			}
		}
		return nil
	default:
		return err
	}
	r.told(r.sum)
	return nil
}

// send tries for a while.
func (r *replayer) send(ctx context.Context, d *destination, together []events.Event) error {
	for n := 1; ; n++ {
		err := d.send(ctx, Delivery{Events: together}, time.Minute, time.Second)
		var permanent *Permanent
		var gone *Gone
		switch {
		case err == nil, errors.As(err, &permanent):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &gone), n == replayTries:
			return fmt.Errorf("%s: %s", d.name, reason(err))
		}
		if !sleep(ctx, pause(n)) {
			return ctx.Err()
		}
	}
}
