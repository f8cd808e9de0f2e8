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
// The package does not know what is published. It makes no streams and repairs none.
package natsd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	MaxStore          int64         // bytes that all streams together may take; default 8 GiB
	ProtectedSubjects string        // where guests may not publish, e.g. "listings.v1.>"; empty: nowhere
	GuestUser         string        // with GuestPassword: what guests have to show
	GuestPassword     string        //
	GuestToken        string        // or this; all empty: nothing
	Logger            *slog.Logger  // default: nothing is logged
	StartTimeout      time.Duration // default 30 s
}

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = "off"
	}
	if o.MaxStore <= 0 {
		o.MaxStore = 8 << 30
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 30 * time.Second
	}
	return o
}

func (o Options) open() bool {
	return o.GuestUser == "" && o.GuestPassword == "" && o.GuestToken == ""
}

// Server is a running embedded server. Its methods may be called from any goroutine.
type Server struct {
	options  Options
	host     string
	port     int // server.RANDOM_PORT until the first start has found one
	password string

	mu      sync.Mutex // held while the server is replaced
	running *server.Server
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
	return s, nil
}

// resolve turns Listen into host and port, and refuses what would be open to strangers.
func (s *Server) resolve() error {
	if s.options.Listen == "off" {
		return nil
	}
	host, portText, err := net.SplitHostPort(s.options.Listen)
	if err != nil {
		return fmt.Errorf("%q: %w", s.options.Listen, ErrAddress)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
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

// probe binds the address once. The server itself would only log that it is taken, and look alive.
func (s *Server) probe() error {
	if s.options.Listen == "off" || s.port == server.RANDOM_PORT {
		return nil
	}
	address := net.JoinHostPort(s.host, strconv.Itoa(s.port))
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %w", address, ErrPortInUse)
	case err != nil:
		return fmt.Errorf("%s: %w (%w)", address, ErrAddress, err)
	}
	return l.Close()
}

func (s *Server) serverOptions() (*server.Options, error) {
	o := &server.Options{
		ServerName:         "doorbell",
		Host:               s.host,
		Port:               s.port,
		DontListen:         s.options.Listen == "off",
		NoSigs:             true,
		NoLog:              true,
		JetStream:          true,
		StoreDir:           s.options.StoreDir,
		JetStreamMaxStore:  s.options.MaxStore,
		JetStreamMaxMemory: 64 << 20, // nothing of ours is in memory
		SyncAlways:         true,
	}
	// An account made in code gets JetStream only after the start, when guests are in already: one made by
	// configuration has it from the beginning.
	if err := o.ProcessConfigString("accounts { " + account + " { jetstream: enabled } }"); err != nil {
		return nil, err
	}
	return o, nil
}

// boot starts an inner server and waits for it. The caller holds s.mu, or is the only one who knows s.
func (s *Server) boot(ctx context.Context) error {
	if err := s.probe(); err != nil {
		return err
	}
	o, err := s.serverOptions()
	if err != nil {
		return err
	}
	gate := newDoor(s.options, s.password)
	o.CustomClientAuthentication = gate
	inner, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	if err := gate.attach(inner); err != nil {
		return err
	}
	log := &logger{log: s.options.Logger, fatal: make(chan string, 1)}
	inner.SetLoggerV2(log, false, false, false)
	started := make(chan struct{})
	go func() { inner.Start(); close(started) }()
	if err := await(ctx, inner, started, log.fatal, s.options.StartTimeout); err != nil {
		abandon(inner, started, 5*time.Second)
		return err
	}
	if a, ok := inner.Addr().(*net.TCPAddr); ok {
		s.port = a.Port
	}
	s.running = inner
	return nil
}

// await returns nil when the server takes connections, or why it does not. A damaged folder can keep a server busy for
// ever.
func await(ctx context.Context, inner *server.Server, started <-chan struct{}, fatal <-chan string, limit time.Duration) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select {
	case <-started:
	case text := <-fatal:
		return fmt.Errorf("start: %s", text)
	case <-ctx.Done():
		return fmt.Errorf("start: %w", ctx.Err())
	case <-deadline.C:
		return fmt.Errorf("start: not ready after %s", limit)
	}
	select {
	case text := <-fatal: // it logs what is fatal, and returns
		return fmt.Errorf("start: %s", text)
	default:
	}
	if !inner.ReadyForConnections(time.Second) {
		return errors.New("start: takes no connections")
	}
	return nil
}

// abandon ends a server whose start is given up. A start that goes on in the background would write after the shutdown, so
// it is waited for, within reason.
func abandon(inner *server.Server, started <-chan struct{}, limit time.Duration) {
	stop(inner, limit)
	select {
	case <-started:
	case <-time.After(limit):
	}
	stop(inner, limit)
}

// stop shuts a server down, but does not wait for ever for one that hangs.
func stop(inner *server.Server, limit time.Duration) {
	done := make(chan struct{})
	go func() {
		inner.Shutdown()
		inner.WaitForShutdown()
		close(done)
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
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
	all := append(resilient(name, s.options.Logger),
		nats.InProcessServer(s), nats.UserInfo(relayUser, s.password), nats.CustomInboxPrefix(relayInbox))
	nc, err := nats.Connect("", append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// InProcessConn opens a pipe to the server that runs now; who is at the other end still has to say who he is. It makes a
// Server a nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil, errors.New("embedded NATS server: not running")
	}
	return s.running.InProcessConn()
}

// Healthy is nil if the server answers for all its streams. After a full disk it is an error until Restart, also when
// there is space again.
func (s *Server) Healthy() error {
	s.mu.Lock()
	inner := s.running
	s.mu.Unlock()
	if inner == nil {
		return errors.New("embedded NATS server: not running")
	}
	h := inner.Healthz(&server.HealthzOptions{})
	if h.StatusCode != 200 {
		return fmt.Errorf("embedded NATS server: status %d: %s", h.StatusCode, h.Error)
	}
	return nil
}

// Restart ends the server and starts it anew on the same folder and port. After an error it is down, and Restart may be
// called again.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		stop(s.running, s.options.StartTimeout)
		s.running = nil
	}
	if err := s.boot(ctx); err != nil {
		return fmt.Errorf("restart the embedded NATS server: %w", err)
	}
	return nil
}

// Shutdown ends the server and returns when all is on disk. It may be called twice.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}
