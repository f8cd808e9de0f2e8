package relay

import (
	"net"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Pipe is the way of a connection to a server in this process: use it as nats.InProcessServer. It knows whether somebody is writing.
// As long as the server does not read that, everybody else who wants to write to the connection, or only asks it something, is
// held up. Its methods may be called from any goroutine.
type Pipe struct {
	Server nats.InProcessConnProvider
	writes atomic.Int32 // that are under way
}

// InProcessConn opens a pipe to the server.
func (p *Pipe) InProcessConn() (net.Conn, error) {
	c, err := p.Server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &gauged{Conn: c, pipe: p}, nil
}

func (p *Pipe) busy() bool { return p.writes.Load() > 0 }

type gauged struct {
	net.Conn
	pipe *Pipe
}

func (g *gauged) Write(b []byte) (int, error) {
	g.pipe.writes.Add(1)
	defer g.pipe.writes.Add(-1)
	return g.Conn.Write(b)
}
