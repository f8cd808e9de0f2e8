package check

import (
	"context"
	"fmt"
	"io"
	"time"

	"doorbell/cmd/doorbell/options"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// Key requests the list of every configured agency once, with a key that is to replace the configured one, and prints a
// line for each. It uses neither the store nor the daemon: the key in use, its halts and its polls stay as they are. It
// begins at most RequestsPerSecond requests a second; those of a running daemon are not counted. refused counts the
// agencies that the key was not seen to open. After a 429 the rest is not requested. The error is that of the context or of a failed write.
func Key(ctx context.Context, o Options, key listings.Key, out io.Writer) (refused int, err error) {
	p := options.Poller(o.Config, o.Version)
	p.API.Gate = spaced(p.RequestsPerSecond)
	client, err := listings.New(p.API)
	if err != nil {
		return 0, err
	}
	throttled := false
	for _, a := range p.Agencies {
		if throttled { // the API asked the key to wait
			refused++
			if _, err := fmt.Fprintf(out, "%s: not checked, because the API throttles the key\n", a.ID); err != nil {
				return refused, err
			}
			continue
		}
		a.Key = key
		page, err := firstPage(ctx, client, a, listings.WalkOptions{Filter: p.Filter})
		if ctx.Err() != nil {
			return refused, ctx.Err()
		}
		text := ""
		if err != nil {
			refused++
			f := failureOf(err)
			text, throttled = f.text, f.class == watch.ClassBusy
		} else {
			var found Agency
			found.admit(page)
			text = "access, " + found.counted()
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", a.ID, text); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// spacing is a listings.Gate that lets requests begin at even distances, and counts them.
type spacing struct {
	every time.Duration
	next  time.Time
	begun int
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
	s.begun++
	return nil
}

func (*spacing) Done(listings.Request, listings.Outcome) {}
