// Package natsd is how this process gets to NATS: an embedded JetStream server for those who run none, and a client
// connection that never gives up for those who do.
//
// The embedded server writes to disk before it acknowledges (SyncAlways), keeps its files in its own folder, ignores the
// signals of the process and listens on loopback only, unless guests have to prove themselves. Everything lives in one
// named account with two kinds of users:
//
//   - relay: connections made by Connect, inside the process, with a password that exists only in memory. May do all.
//   - guest: everybody who comes over the network. May subscribe, read streams, make and use consumers, and publish, but
//     not below the protected subjects; may not create or change a stream, erase from one, or touch the relay's inboxes.
//
// The guest's limits stop mistakes and casual mischief, not a determined attacker: NATS lets whoever may create a push
// consumer or choose a reply subject make the server itself publish somewhere. Whoever must be kept out has to be kept
// off the port: Listen "off", or credentials.
//
// [Server.Run] asks the server for its health, and restarts one that is ill for four checks in a row while the disk has space: a
// server that met a full disk takes no write until then.
//
// Where Options.Stream is set, a stream that the server cannot recover is moved aside, beside the folder, so that the
// publisher makes it again. So is that stream after three starts in a row that failed in the server, and everything after six.
//
// The package does not know what is published. It makes no other streams.
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
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Errors of Start on which a caller decides. They come wrapped, with the address.
var (
	// ErrPortInUse: another program listens on the address already.
	ErrPortInUse = errors.New("address is in use")
	// ErrAddress: Listen is neither "off" nor host:port with a numeric port and an address of this machine.
	ErrAddress = errors.New("not an address to listen on")
	// ErrNeedsCredentials: Listen is not loopback, and guests would need no credentials.
	ErrNeedsCredentials = errors.New("an address other than loopback needs credentials for guests")
)

// account holds all streams. Moving from the unnamed default account to a named one would hide every stream that exists,
// so it has had a name from the first day, and the name never changes.
const account = "DOORBELL"

// relayInbox is where the relay's replies arrive. Guests may neither read nor write there: a forged acknowledgement would
// make the relay believe that an event is stored.
const relayInbox = "_RELAY"

// Options configure Start. Only StoreDir is required.
type Options struct {
	StoreDir          string        // JetStream's own folder; nobody else may use it, see Start
	Listen            string        // host:port, port 0 for a free one; "off" or empty: in process only
	Stream            string        // the stream that its publisher can make anew: the first to go when the server does not start; empty: nothing is moved aside
	MaxStore          int64         // bytes that all streams together may take; default 8 GiB
	ProtectedSubjects string        // where guests may not publish, e.g. "listings.v1.>"; empty: nowhere
	OwnSubjects       []string      // others of the kind: what is said there comes from this process, e.g. "listings.heartbeat.>"
	GuestUser         string        // with GuestPassword: what guests have to show
	GuestPassword     string        //
	GuestToken        string        // or this; all empty: nothing
	Erasing           func() bool   // whether messages were being erased when a server ended, asked before each start; default: no
	Logger            *slog.Logger  // default: nothing is logged
	StartTimeout      time.Duration // default 30 s
	CheckEvery        time.Duration // how often Run checks whether the server works; default 15 s
	StuckAfter        time.Duration // how long the server may take to answer a question; default 30 s
}

func (o Options) withDefaults() Options {
	o.Listen = cmp.Or(o.Listen, "off")
	o.MaxStore = cmp.Or(o.MaxStore, 8<<30)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.StartTimeout = cmp.Or(o.StartTimeout, 30*time.Second)
	o.CheckEvery = cmp.Or(o.CheckEvery, 15*time.Second)
	o.StuckAfter = cmp.Or(o.StuckAfter, 30*time.Second)
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
	ended    <-chan struct{} // closed when the server before has ended; nil: there was none
	failed   atomic.Int64    // starts in a row, before the last one

	mu      sync.Mutex // never held while anything is waited for
	port    int        // server.RANDOM_PORT until the first start has found one
	running *server.Server
	booted  time.Time // when the server was started last
	status  Status
	stats   Stats
	backoff backoff
}

// Start brings a server up and returns when it takes connections and its streams are readable. It gives up when ctx ends
// or after StartTimeout. Two servers on one folder destroy each other's data without noticing: the caller must hold a lock
// of its own first.
func Start(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	if o.StoreDir == "" {
		return nil, errors.New("embedded NATS server: no folder given")
	}
	s := &Server{options: o, password: rand.Text()}
	if err := s.resolve(); err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	if err := s.boot(ctx); err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	s.measure(s.running)
	return s, nil
}

// resolve turns Listen into host and port, and refuses what would be open to strangers.
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

// ClientURL is where guests connect, with the port that was really taken; empty if Listen is off.
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

// Connect makes a connection of the relay user inside the process. It survives Restart. The caller closes it.
func (s *Server) Connect(name string, opts ...nats.Option) (*nats.Conn, error) {
	all := append(resilient(name, s.options.Logger), nats.InProcessServer(s), nats.UserInfo(relayUser, s.password))
	nc, err := nats.Connect("", append(append(all, opts...), nats.CustomInboxPrefix(relayInbox))...)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// InProcessConn opens a pipe to the server that runs now; who is at the other end still has to say who he is. It makes a
// Server a nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	inner := s.current()
	if inner == nil {
		return nil, fmt.Errorf("embedded NATS server: %w", errDown)
	}
	return inner.InProcessConn()
}

// current is the server that runs now; nil if none does.
func (s *Server) current() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// ErrWillNotEnd is returned by Start, Restart and Run when the server cannot be ended: a second one on its folder would destroy what it
// holds. Only the end of the process helps.
var ErrWillNotEnd = errors.New("the server does not end")

const (
	// endLimit is how long a server that is replaced may take to end.
	endLimit = 2 * time.Minute
	// stopLimit is the same at the end of the process. All that it acknowledged is on disk before: one that hangs is left.
	stopLimit = 3 * time.Second
)

// Restart ends the server and starts it anew on the same folder and port. After an error it is down, and Restart may be
// called again. It ends early, with an error, when ctx ends.
func (s *Server) Restart(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	err := s.end(ctx, endLimit)
	if err == nil {
		err = s.boot(ctx)
	}
	if err != nil {
		return fmt.Errorf("restart the embedded NATS server: %w", err)
	}
	return nil
}

// Shutdown ends the server and returns when it has ended, after three seconds at the latest: what it acknowledged is on
// disk. It may be called twice.
func (s *Server) Shutdown() {
	s.changing.Lock()
	defer s.changing.Unlock()
	_ = s.end(context.Background(), stopLimit) // left behind: the process is about to end
}

// end takes the running server away from everybody and stops it. The caller holds s.changing.
func (s *Server) end(ctx context.Context, limit time.Duration) error {
	s.mu.Lock()
	inner := s.running
	s.running = nil
	s.mu.Unlock()
	if inner != nil {
		s.stop(inner, nil)
	}
	return s.gone(ctx, limit)
}

// stop shuts a server down when its start is over: one that is shut down before would go on to open the folder, and nothing
// could end it any more.
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

// gone waits for the end of the server that was stopped last.
func (s *Server) gone(ctx context.Context, limit time.Duration) error {
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
