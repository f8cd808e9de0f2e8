// Package natsd connects this process to NATS: through an embedded JetStream server, or by a client
// connection to an external one that never gives up.
//
// The embedded server writes to disk before it acknowledges (SyncAlways), keeps its files in a
// folder of its own, ignores the signals of the process, and listens on loopback only, unless
// guests must present credentials. Everything is in one named account with two users:
//
//   - relay: connections made by Connect, inside the process, with a password that exists only in
//     memory. It may do everything.
//   - guest: every connection over the network. It may subscribe, read streams, create and use
//     consumers, and publish, but not below the protected subjects; it may not create or change a
//     stream, erase messages, or touch the relay's inboxes.
//
// The guest's limits stop mistakes and casual mischief, not a determined attacker: NATS lets a
// client that may create a push consumer or choose a reply subject make the server itself publish
// somewhere. To keep an attacker out, set Listen to "off" or require credentials.
//
// Two things can go wrong with the disk. A server that has met a full one accepts no writes until
// it is restarted: [Server.Run] checks its health, and restarts it once there is space. A damaged
// folder may keep it from starting, or from serving our stream: after three failed starts in a row
// the folder is renamed, and the publisher fills a new stream from its event log.
//
// The package does not know what is published, and does not read the server's files.
package natsd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Errors of Start on which a caller decides. They are wrapped, with the address.
var (
	// ErrPortInUse: another program listens on the address already.
	ErrPortInUse = errors.New("address is in use")
	// ErrAddress: Listen is neither "off" nor host:port with a numeric port and an address of this
	// machine.
	ErrAddress = errors.New("not an address to listen on")
	// ErrNeedsCredentials: Listen is not loopback, and guests would need no credentials.
	ErrNeedsCredentials = errors.New("an address other than loopback needs credentials for guests")
)

// account holds all streams. Its name never changes: under another one every existing stream would
// be invisible.
const account = "DOORBELL"

// relayInbox is where the relay's replies arrive. Guests may neither read nor write there: a forged
// acknowledgement would make the relay believe that an event is stored.
const relayInbox = "_RELAY"

// Options configure Start. Only StoreDir is required.
type Options struct {
	StoreDir string // JetStream's own folder, see Start
	Listen   string // host:port, port 0 for a free one; "off" or empty: in process only
	// the stream that its publisher refills; empty: the folder is never renamed
	Stream        string
	MaxStore      int64         // bytes that all streams together may take; default 8 GiB
	Protected     []string      // subjects on which guests may not publish, e.g. "listings.v1.>"
	GuestUser     string        // with GuestPassword: what guests have to show
	GuestPassword string        //
	GuestToken    string        // or this; all empty: nothing
	Logger        *slog.Logger  // default: nothing is logged
	StartTimeout  time.Duration // default 30 s, and 1 s more for each 32 MB in the folder
	CheckEvery    time.Duration // how often Run checks the server's health; default 15 s
}

func (o Options) withDefaults() Options {
	o.Listen = cmp.Or(o.Listen, "off")
	o.MaxStore = cmp.Or(o.MaxStore, 8<<30)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.StartTimeout = cmp.Or(o.StartTimeout, 30*time.Second)
	o.CheckEvery = cmp.Or(o.CheckEvery, 15*time.Second)
	return o
}

func (o Options) open() bool {
	return o.GuestUser == "" && o.GuestPassword == "" && o.GuestToken == ""
}

// Server is a running embedded server. Its methods may be called from any goroutine.
type Server struct {
	options  Options
	host     string
	password string // of the users that only this process knows

	changing sync.Mutex      // held while the server is replaced or ended
	ended    <-chan struct{} // closed when the previous server has ended; nil: there was none

	restarted time.Time // when RunOnce restarted it last

	mu      sync.Mutex // never held while waiting
	port    int        // server.RANDOM_PORT until the first start has found one
	running *server.Server
	status  Status
}

// Start starts a server and returns when it takes connections and its streams are readable. It
// gives up when ctx ends or after StartTimeout. Two servers on one folder destroy each other's data
// without noticing: the caller must hold a lock of its own first.
func Start(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{options: o, password: rand.Text()}
	if err := s.resolve(); err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	if err := s.boot(ctx); err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	return s, nil
}

// resolve splits Listen into host and port, and refuses an address that would be open to strangers.
func (s *Server) resolve() error {
	if s.options.Listen == "off" {
		return nil
	}
	host, portText, err := net.SplitHostPort(s.options.Listen)
	port, errPort := strconv.ParseUint(portText, 10, 16)
	if err != nil || errPort != nil {
		return fmt.Errorf("%q: %w", s.options.Listen, ErrAddress)
	}
	if !loopback(host) && s.options.open() {
		return fmt.Errorf("%q: %w", s.options.Listen, ErrNeedsCredentials)
	}
	s.host, s.port = host, int(port)
	if port == 0 {
		s.port = server.RANDOM_PORT
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ClientURL is where guests connect, with the port that is in use; empty if Listen is off.
func (s *Server) ClientURL() string {
	if s.options.Listen == "off" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	host := s.host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(s.port))
}

// Connect makes a connection of the relay user inside the process. It survives Restart. The caller
// closes it.
func (s *Server) Connect(name string, opts ...nats.Option) (*nats.Conn, error) {
	all := append(resilient(name, s.options.Logger), nats.InProcessServer(s),
		nats.UserInfo(relayUser, s.password))
	nc, err := nats.Connect("", append(append(all, opts...), nats.CustomInboxPrefix(relayInbox))...)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// InProcessConn opens a pipe to the running server, where the client still has to authenticate. It
// makes a Server a nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	inner := s.current()
	if inner == nil {
		return nil, fmt.Errorf("embedded NATS server: %w", errDown)
	}
	return inner.InProcessConn()
}

// current returns the running server; nil if there is none.
func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// ErrWillNotEnd is returned by Start, Restart and Run when the server cannot be ended: a second one
// on its folder would destroy the streams. Only the end of the process helps.
var ErrWillNotEnd = errors.New("the server does not stop")

const (
	// endLimit is how long a server that is to be replaced may take to end.
	endLimit = 2 * time.Minute
	// stopLimit is the same at the end of the process. Everything that the server acknowledged is
	// on disk by then: one that hangs is left behind.
	stopLimit = 3 * time.Second
)

// Restart ends the server and starts it again on the same folder and port. After an error it is
// down, and Restart may be called again. It ends early, with an error, when ctx ends.
func (s *Server) Restart(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.end()
	if err := s.boot(ctx); err != nil {
		return fmt.Errorf("restart the embedded NATS server: %w", err)
	}
	return nil
}

// Shutdown ends the server and returns when it has ended, after three seconds at the latest. It may
// be called twice.
func (s *Server) Shutdown() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.end()
	_ = s.waitEnded(context.Background(), stopLimit) // left behind: the process is about to end
}

// end begins to stop the running server, which new connections no longer reach. The caller holds
// s.changing.
func (s *Server) end() {
	s.mu.Lock()
	inner := s.running
	s.running = nil
	s.mu.Unlock()
	if inner != nil {
		s.stop(inner, nil)
	}
}

// stop shuts a server down once its start is over: one that is shut down earlier would go on to
// open the folder, and nothing could end it any more.
func (s *Server) stop(inner *server.Server, started <-chan struct{}) {
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		if started != nil {
			<-started
		}
		inner.Shutdown()
		inner.WaitForShutdown()
		close(ended)
	}()
}

// waitEnded waits until the server that was stopped last has ended.
func (s *Server) waitEnded(ctx context.Context, limit time.Duration) error {
	if s.ended == nil {
		return nil
	}
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(limit):
		return ErrWillNotEnd
	}
}
