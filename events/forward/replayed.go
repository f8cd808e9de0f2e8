package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"doorbell/events"
)

// Replayed is what SendReplayed has done. Events that no route wants are in none of the numbers.
type Replayed struct {
	Deliveries int `json:"deliveries"`
	Events     int `json:"events"`  // in these deliveries
	Refused    int `json:"refused"` // that a receiver can never take
}

// replayTries is how often a delivery of a replay is tried: about ten minutes.
const replayTries = 10

// SendReplayed sends events of the past to the receivers of those routes whose filters want them, each as a message of its own, at the pace
// of the receivers, with origin replay. It remembers nothing and makes no dead letters: what a receiver can never take is counted. Before each
// attempt it calls erased, which says whether the person was taken out of the event since it was read: then it is passed over. It calls
// progress after every delivery, and with an error where a receiver takes nothing, once for each reason. The error is that of the list,
// of erased, of ctx, or of a receiver that takes nothing for long: what was sent is sent.
func SendReplayed(ctx context.Context, routes []Route, list iter.Seq2[events.Event, error], erased func(events.Event) (bool, error), progress func(Replayed, error)) (sum Replayed, err error) {
	destinations := map[string]*destination{}
	for e, err := range list {
		if err != nil {
			return sum, err
		}
		sentTo := map[string]bool{}
		for _, route := range routes {
			name := route.Receiver.Traits().Destination
			if sentTo[name] || !route.Filter.wants(e) {
				continue
			}
			sentTo[name] = true
			if destinations[name] == nil {
				destinations[name] = newDestination(route.Receiver)
			}
			err := resend(ctx, destinations[name], e, erased, func(err error) { progress(sum, err) })
			switch {
			case errors.Is(err, errErased):
				continue
			case err == nil:
				sum.Deliveries++
				sum.Events++
			case errors.As(err, new(*Permanent)):
				sum.Refused++
			default:
				return sum, err
			}
			progress(sum, nil)
		}
	}
	return sum, ctx.Err()
}

var errErased = errors.New("the event was erased meanwhile")

// resend tries for a while, as long as the event is not erased.
func resend(ctx context.Context, d *destination, e events.Event, erased func(events.Event) (bool, error), failed func(error)) error {
	said, again := "", e.WithOrigin(events.OriginReplay)
	for n := 1; ; n++ {
		if gone, err := erased(e); gone || err != nil {
			return cmp.Or(err, errErased)
		}
		err := d.send(ctx, Delivery{Events: []events.Event{again}}, time.Minute, time.Second)
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
		if why := reason(err); why != said {
			said = why
			failed(err)
		}
		if !sleep(ctx, pause(n)) {
			return ctx.Err()
		}
	}
}
