package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// pingEvery is how often the address is called; pingLimit how long a call may take.
const (
	pingEvery = time.Minute
	pingLimit = 15 * time.Second
)

// Ping is a dead-man's switch: it calls an address each minute, but only when all is well. The
// service there raises the alarm when the calls stay out, also when this machine is gone.
type Ping struct {
	URL  string            // a secret: it is neither logged nor part of an error
	Well func() error      // nil if all is well
	Log  *slog.Logger      // bounds what is repeated
	Via  http.RoundTripper // nil: http.DefaultTransport
}

// Run calls until ctx ends.
func (p *Ping) Run(ctx context.Context) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := p.RunOnce(ctx); err != nil && ctx.Err() == nil {
			p.Log.Warn("the ping address was not called", "err", err.Error())
		}
	}
}

// RunOnce calls if all is well. The error says why it does not, or how the call failed.
func (p *Ping) RunOnce(ctx context.Context) error {
	if err := p.Well(); err != nil {
		return fmt.Errorf("not all is well: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return errors.New("the address cannot be called") // the error quotes it
	}
	r.Header.Set("User-Agent", "doorbell")
	// A round trip follows no redirect, which is an address that should be configured, and has no
	// error that quotes the address.
	response, err := cmp.Or(p.Via, http.DefaultTransport).RoundTrip(r)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("no answer within %s", pingLimit)
	case err != nil:
		return err
	}
	defer response.Body.Close()
	// so that the connection can be used again
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("it responded with %d", response.StatusCode)
	}
	return nil
}
