package natsd

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// way leads to a server that reads nothing any more once it is deaf.
type way struct {
	*Server
	deaf atomic.Bool
	over chan struct{}
}

func (w *way) InProcessConn() (net.Conn, error) {
	c, err := w.Server.InProcessConn()
	return passage{c, w}, err
}

type passage struct {
	net.Conn
	way *way
}

func (p passage) Write(b []byte) (int, error) {
	if p.way.deaf.Load() {
		<-p.way.over
		return 0, net.ErrClosed
	}
	return p.Conn.Write(b)
}

func TestAServerThatReadsNothingAnyMoreDoesNotHoldUpItsEnd(t *testing.T) {
	s := start(t)
	w := &way{Server: s, over: make(chan struct{})}
	defer close(w.over)
	nc, err := nats.Connect("", nats.InProcessServer(w), nats.UserInfo(probeUser, s.password), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.writeProbe = &writeProbe{nc: nc}
	s.mu.Unlock()
	w.deaf.Store(true)
	if err := nc.Publish(probeStream, nil); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { s.Shutdown(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(stopLimit + time.Minute):
		t.Error("it does not end in time")
	}
}
