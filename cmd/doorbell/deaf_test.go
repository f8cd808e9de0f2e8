package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/daemon"
)

// deafening is the way to the embedded server, which once it is deaf reads nothing any more.
type deafening struct {
	nats.InProcessConnProvider
	deaf atomic.Bool
	held chan struct{} // the first write that is held up
	over chan struct{}
}

func (d *deafening) InProcessConn() (net.Conn, error) {
	c, err := d.InProcessConnProvider.InProcessConn()
	return toDeaf{c, d}, err
}

type toDeaf struct {
	net.Conn
	way *deafening
}

func (c toDeaf) Write(b []byte) (int, error) {
	if c.way.deaf.Load() {
		select {
		case c.way.held <- struct{}{}:
		default:
		}
		<-c.way.over // later than the client's own limit
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// TestAnEmbeddedServerThatReadsNothing… lets a write hang until all is over: who waits for it, waits in vain.
func TestAnEmbeddedServerThatReadsNothingAnyMoreDoesNotHoldUpThePollingNorTheEnd(t *testing.T) {
	t.Parallel()
	agencies := []string{"A100", "B200", "C300", "D400", "E500"}
	s := newScene(t, agencies...)
	way := &deafening{held: make(chan struct{}, 1), over: make(chan struct{})}
	a := s.open(t, "off", watching(agencies), func(o *daemon.Options) {
		o.InProcess = func(server nats.InProcessConnProvider) nats.InProcessConnProvider {
			way.InProcessConnProvider = server
			return way
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() { close(way.over) })
	published := func(id string) bool {
		p, err := a.Store().Progress(id)
		if err != nil {
			t.Fatal(err)
		}
		return p[0].Unsent == 0 && p[0].Cursor.Sequence > 0
	}
	for _, id := range agencies {
		s.goesOn(t, id, 10)
		s.ring(t, id)
		eventually(t, id+" is published", func() bool { return published(id) })
		s.goesOn(t, id, 10)
	}
	way.deaf.Store(true)
	s.ring(t, agencies[0])
	<-way.held // the first write holds up all others
	for _, id := range agencies {
		s.ring(t, id)
		go a.Verbs().Status() //nolint:errcheck // it waits for it
		eventually(t, id+" is known", func() bool { return !published(id) })
	}
	for _, id := range agencies {
		s.goesOn(t, id, 10)
	}
	stop()
	begin := time.Now()
	select {
	case err := <-ended:
		if took := time.Since(begin); err != nil || took > 13*time.Second {
			t.Errorf("it took %s to end: %v", took, err)
		}
	case <-time.After(patience):
		t.Error("it does not end")
	}
}
