package check

import (
	"context"
	"fmt"
	"io"
	"time"

	"doorbell/cmd/doorbell/options"
	"doorbell/poller/listings"
)

// Key asks the list of every configured agency once, with a key that is to replace the configured one, and prints a line for each.
// It looks neither at the store nor at the daemon: the key in use, its halts and its polls stay as they are. It begins no more than
// RequestsPerSecond requests a second; those of a running daemon are not counted in. The error of a failed write or of the context
// is returned; refused counts the agencies that the key does not open.
func Key(ctx context.Context, o Options, key listings.Key, out io.Writer) (refused int, err error) {
	p := options.Poller(o.Config, o.Version)
	p.API.Gate = spaced(p.RequestsPerSecond)
	client, err := listings.New(p.API)
	if err != nil {
		return 0, err
	}
	for _, a := range o.Config.Agencies {
		text, opens := opened(ctx, client.Walk(key, a.ID, listings.WalkOptions{Filter: p.Filter, MaxPages: 1}))
		if ctx.Err() != nil {
			return refused, ctx.Err()
		}
		if !opens {
			refused++
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", a.ID, text); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// opened says what the first page of a walk shows of the key's access.
func opened(ctx context.Context, w *listings.Walk) (text string, opens bool) {
	for page, err := range w.Pages(ctx) {
		if err != nil {
			return failureOf(err).text, false
		}
		a := checkedAgency{Insertions: max(len(page.Insertions), page.Total), AtLeast: page.Total < 0}
		return "access, " + a.holds(), true
	}
	return "no response", false
}

// spacing is a listings.Gate that lets requests begin at even distances.
type spacing struct {
	every time.Duration
	next  time.Time
}

func spaced(perSecond float64) *spacing {
	return &spacing{every: time.Duration(float64(time.Second) / perSecond)}
}

func (s *spacing) Wait(ctx context.Context, _ listings.Request) error {
	select {
	case <-time.After(time.Until(s.next)):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.next = time.Now().Add(s.every)
	return nil
}

func (*spacing) Done(listings.Request, listings.Outcome) {}
