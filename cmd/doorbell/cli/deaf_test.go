package cli

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"

	"github.com/nats-io/nats.go"
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
	s := doorbelltest.NewScene(t, agencies...)
	way := &deafening{held: make(chan struct{}, 1), over: make(chan struct{})}
	a := s.Open(t, "off", watching(agencies), func(o *daemon.Options) {
		o.Drain = drain
		o.InProcess = func(server nats.InProcessConnProvider) nats.InProcessConnProvider {
			way.InProcessConnProvider = server
			return way
		}
	})
	endsInTime := runs(t, a)
	t.Cleanup(func() { close(way.over) })
	published := func(id string) bool {
		p, err := a.Store().Progress()
		if err != nil {
			t.Fatal(err)
		}
		return p[id].Unsent == 0 && p[id].Acknowledged > 0
	}
	for _, id := range agencies {
		s.GoesOn(t, id, 10)
		s.Ring(t, id)
		doorbelltest.Eventually(t, id+" is published", func() bool { return published(id) })
		s.GoesOn(t, id, 10)
	}
	way.deaf.Store(true)
	s.Ring(t, agencies[0])
	<-way.held // the first write holds up all others
	begin := time.Now()
	for _, id := range agencies {
		s.Ring(t, id)
		go a.Verbs().Status() //nolint:errcheck // it waits for it
		doorbelltest.Eventually(t, id+" is known", func() bool { return !published(id) })
	}
	for _, id := range agencies {
		s.GoesOn(t, id, 10)
	}
	if took := time.Since(begin); took > 9*time.Second { // the client waits ten
		t.Errorf("who is polled waited %s for it", took)
	}
	endsInTime()
}
