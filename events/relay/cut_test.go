package relay

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// scissors make connections that break when told to.
type scissors struct {
	server nats.InProcessConnProvider

	mu     sync.Mutex
	at     string // the connection breaks when this is written …
	after  bool   // … after the server has read it, else before
	left   int    // or after so many bytes more; 0: never
	breaks int
}

func (s *scissors) InProcessConn() (net.Conn, error) {
	c, err := s.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: c, s: s}, nil
}

type cutConn struct {
	net.Conn
	s *scissors
}

func (c *cutConn) Write(b []byte) (int, error) {
	s := c.s
	s.mu.Lock()
	found := s.at != "" && bytes.Contains(b, []byte(s.at))
	whole := true
	if s.left > 0 {
		if found = len(b) >= s.left; found {
			b, whole = b[:s.left], false
		} else {
			s.left -= len(b)
		}
	}
	after := s.after || !whole
	if found {
		s.at, s.left = "", 0
		s.breaks++
	}
	s.mu.Unlock()
	if !found {
		return c.Conn.Write(b)
	}
	if after {
		_, _ = c.Conn.Write(b) // the server reads from the pipe before Write returns
	}
	_ = c.Close()
	return 0, net.ErrClosed
}

func newCutBell(t testing.TB) (*bell, *scissors) {
	b := newBell(t)
	s := &scissors{server: b.server}
	b.o.Conn.Conn = b.connect(nats.InProcessServer(s), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	b.o.AckWait = 200 * time.Millisecond
	return b, s
}

func TestWhereverTheConnectionBreaksEveryEventArrivesOnce(t *testing.T) {
	b, s := newCutBell(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stop := b.start(b.relay())
	for range 40 {
		s.mu.Lock()
		s.left = 1 + random.IntN(8_000)
		s.mu.Unlock()
		b.log.ring(t, "A100", 1+random.IntN(20))
		b.log.ring(t, "B200", 1+random.IntN(3))
		eventually(t, "all published", func() bool { return b.published("A100") && b.published("B200") })
	}
	stop()
	if s.breaks < 10 {
		t.Fatalf("the connection broke only %d times", s.breaks)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, b.log, "B200", 0)
}
