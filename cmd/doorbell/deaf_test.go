package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/poller/listings"
)

// deafening is the way to the embedded server, which once it is deaf reads nothing any more.
type deafening struct {
	*natsd.Server
	deaf atomic.Bool
	over chan struct{}
}

func (d *deafening) InProcessConn() (net.Conn, error) {
	c, err := d.Server.InProcessConn()
	return toDeaf{c, d}, err
}

type toDeaf struct {
	net.Conn
	way *deafening
}

func (c toDeaf) Write(b []byte) (int, error) {
	if c.way.deaf.Load() {
		select {
		case <-c.way.over:
		case <-time.After(10 * time.Second): // the client's own limit
		}
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func TestAnEmbeddedServerThatReadsNothingAnyMoreDoesNotHoldUpThePollingNorTheEnd(t *testing.T) {
	t.Parallel()
	agencies := []string{"A100", "B200", "C300", "D400", "E500"}
	s := newScene(t, agencies...)
	a := s.open(t, "off", func(o *appOptions) {
		o.Poller.Agencies = nil
		for _, id := range agencies {
			o.Poller.Agencies = append(o.Poller.Agencies, poller.AgencyKeys{ID: id, Key: listings.NewKey(testKey)})
		}
	})
	way := &deafening{Server: a.server, over: make(chan struct{})}
	conn, err := a.server.Connect("relay", nats.InProcessServer(way))
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(relay.Options{Log: a.store, Conn: conn, Prefix: "listings", Stream: "LISTINGS", Manage: true, Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	a.conn.Close()
	a.conn, a.relay = conn, r
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()
	t.Cleanup(func() { close(way.over) })
	published := func(id string) bool {
		last, err := a.store.Last(id)
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.store.Cursor(id)
		return err == nil && last > 0 && c.Sequence == last
	}
	for _, id := range agencies {
		s.goesOn(t, id, 10)
		s.ring(t, id)
		eventually(t, id+" is published", func() bool { return published(id) })
		s.goesOn(t, id, 10)
	}
	way.deaf.Store(true)
	if err := a.beatOnce(); err != nil { // the first write holds up all others
		t.Fatal(err)
	}
	begin := time.Now()
	for _, id := range agencies {
		s.ring(t, id)
		go r.Status() // which does wait for it
		eventually(t, id+" is known", func() bool { return !published(id) })
	}
	for _, id := range agencies {
		s.goesOn(t, id, 10)
	}
	if took := time.Since(begin); took > 8*time.Second { // the client waits ten
		t.Errorf("who is polled waited %s for it", took)
	}
	stop()
	begin = time.Now()
	if err := <-ended; err != nil || time.Since(begin) > drainLimit+3*letGo {
		t.Errorf("it took %s to end: %v", time.Since(begin), err)
	}
}
