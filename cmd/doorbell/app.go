package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/store"
)

const (
	storeFile    = "doorbell.db"
	socketFile   = "doorbell.sock"
	streamFolder = "jetstream"

	// drainLimit is how long a stop may take to publish what is already in the event log.
	drainLimit = 10 * time.Second
	// letGo is how long relay and connection may then take to end by themselves.
	letGo = time.Second
	// accountLimit bounds all streams of the embedded server together. The stream has its own bound, DOORBELL_STREAM_MAX;
	// this one only must not be in its way when that is changed.
	accountLimit = 1 << 40
)

// appOptions are the settings of an app, from the configuration or made up by the demo.
type appOptions struct {
	Base   Base
	NATS   NATS
	Poller poller.Options // Store, Logger are set by the app
	Log    *slog.Logger
	Notify notifier
	Accept RunCmd // what is not guessed about the store
	// Patience is how long the start waits for the stream; 0: prepareLimit.
	Patience time.Duration
	// Forwarders are those that run beside everything else.
	Forwarders []forwarder
	// Keys hands over the keys when they change, until its context ends. Nil: they never do.
	Keys func(ctx context.Context, set func([]poller.AgencyKeys) error) error
}

// app is the daemon as a value: newApp takes everything it needs, run works until its context ends, close gives it back.
// Several can live in one process.
type app struct {
	o       appOptions
	started time.Time
	ran     sign // when run began
	signs   signs
	store   *store.Store
	server  *natsd.Server // nil with an external NATS
	poller  *poller.Poller
	socket  net.Listener
	web     net.Listener // nil without HTTP

	housekeeping *store.Housekeeping
	follower     *ops.Follower
	admission    admission
	forwarders   []*running

	mu    sync.Mutex
	conn  *nats.Conn
	relay *relay.Relay

	closers []func() // last in, first out
}

// newApp opens store, NATS and socket, in this order: the store's lock protects the folders of all others.
func newApp(ctx context.Context, o appOptions) (_ *app, err error) {
	a := &app{o: o, started: time.Now()}
	for _, f := range o.Forwarders {
		a.forwarders = append(a.forwarders, &running{forwarder: f})
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := firstError(a.checkPorts(ctx), a.checkSocket()); err != nil {
		return nil, err
	}
	for _, open := range []func(context.Context) error{a.openStore, a.openNATS, a.compare, a.openPoller, a.openSocket, a.openHTTP} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// tryNATS says whether the address of the embedded server can be taken, and gives it back.
func (a *app) tryNATS() error {
	if a.o.NATS.URL != "" || a.o.Base.NATSListen == "off" {
		return nil
	}
	l, err := net.Listen("tcp", a.o.Base.NATSListen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return portInUse(a.o.Base.NATSListen)
	}
	if err != nil {
		return listenError(fmt.Errorf("%s: %w", a.o.Base.NATSListen, err))
	}
	return l.Close()
}

func listenError(err error) error {
	return configError(fmt.Errorf("DOORBELL_NATS_LISTEN: %w", err), "use 127.0.0.1:4222, or set NATS_USER and NATS_PASSWORD, or NATS_TOKEN")
}

func (a *app) checkSocket() error {
	if err := ops.CheckPath(filepath.Join(a.o.Base.DataDir, socketFile)); err != nil {
		return configError(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "")
	}
	return nil
}

func portInUse(address string) error {
	return configError(fmt.Errorf("DOORBELL_NATS_LISTEN: %s is %w", address, errInUse),
		"set DOORBELL_NATS_LISTEN to a free address, or to off; if a NATS server runs there already, set NATS_URL to it")
}

func (a *app) openStore(context.Context) error {
	accept := a.o.Accept
	s, err := store.Open(store.Options{
		Dir: a.o.Base.DataDir, BaseURL: a.o.Poller.API.BaseURL, Restored: accept.Restored, Moved: accept.Moved, Fresh: accept.Fresh, Check: soundFile,
	})
	if err != nil {
		return storeError(err, a.o.Base.DataDir)
	}
	a.store = s
	a.tellAccepted()
	a.openHousekeeping()
	a.follower = ops.NewFollower(s)
	a.onClose(func() {
		if err := s.Close(); err != nil {
			a.o.Log.Error("close store", "err", err)
		}
	})
	return nil
}

// storeError says what to do about a store that cannot be opened.
func storeError(err error, dir string) error {
	var locked *store.LockedError
	switch {
	case errors.Is(err, store.ErrEmpty):
		return ioError(err, "")
	case errors.Is(err, store.ErrDamaged):
		return err
	case errors.As(err, &locked):
		// And not 78: a command lets go of it, and a supervisor has to try again until then.
		return ioError(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "stop the other doorbell, wait if it is a command as verify, or give this one a data directory of its own")
	case errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrNewer):
		return configError(err, "")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return configError(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), fmt.Sprintf("let the user that runs doorbell write to %s, or choose another directory", dir))
	}
	return ioError(err, fmt.Sprintf("look at %s and at the space on its disk", dir))
}

func (a *app) openPoller(context.Context) error {
	o := a.o.Poller
	o.Store, o.Logger, o.Agencies = a.store, a.o.Log, a.admission.admitted(o.Agencies)
	p, err := poller.New(o)
	if errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrDamaged) {
		return ioError(err, "")
	}
	if err != nil {
		return configError(err, "")
	}
	a.poller = p
	return nil
}

func (a *app) openSocket(context.Context) error {
	path := filepath.Join(a.o.Base.DataDir, socketFile)
	l, err := ops.Listen(path)
	if err != nil {
		return configError(fmt.Errorf("DOORBELL_DATA_DIR: %w", err), "")
	}
	a.socket = l
	return nil
}

func (a *app) onClose(f func()) { a.closers = append(a.closers, f) }

// close gives back what newApp took. It may be called twice.
func (a *app) close() {
	a.mu.Lock()
	conn := a.conn
	a.mu.Unlock()
	if conn != nil {
		hangUp(conn)
	}
	if a.socket != nil {
		a.socket.Close()
	}
	if a.web != nil {
		a.web.Close()
	}
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
	a.closers = nil
}

// run works until ctx ends: first the poller stops asking, then the relay publishes what is left, until drainLimit after the
// end of ctx. The first part that fails ends all others.
func (a *app) run(ctx context.Context) error {
	a.ran.give()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()
	defer context.AfterFunc(watching, func() { time.AfterFunc(drainLimit, stopPublishing) })()

	var relays errgroup.Group
	relays.Go(func() error {
		defer stop()
		return a.publish(publishing)
	})
	relays.Go(func() error { // it talks on the same connection, and may be held up with it
		defer stop()
		return a.beat(watching)
	})
	var forwarding sync.WaitGroup
	forwarding.Go(func() { a.forward(watching) })
	var watch errgroup.Group
	for _, part := range []func(context.Context) error{a.poller.Run, a.housekeeping.Run, a.follower.Run, a.keys, a.admitOthers, a.serve, a.serveHTTP, a.feel, a.ping, a.answer, a.watchdog, a.tend, a.damage} {
		watch.Go(func() error {
			defer stop()
			return part(watching)
		})
	}
	if err := a.o.Notify.ready(); err != nil {
		a.unheard(err)
	}
	err := a.wait(&watch)
	a.o.Log.Info("stopping; what waits is published, for at most 10 s; a second signal ends at once")
	if err := a.o.Notify.stopping(); err != nil {
		a.unheard(err)
	}
	ended := make(chan error, 1)
	go func() {
		if err := a.currentRelay().Drain(publishing); err != nil {
			a.o.Log.Warn("not everything is published; the event log keeps it for the next start", "err", err)
		}
		forwarding.Wait() // what is being sent comes to its end
		stopPublishing()
		ended <- relays.Wait()
	}()
	<-publishing.Done()
	select {
	case publishErr := <-ended:
		err = errors.Join(err, publishErr)
	case <-time.After(letGo): // writing to a server that does not read can take a minute, whatever the context says
		a.o.Log.Warn("NATS does not let go of the relay; what is not acknowledged is in the event log for the next start")
	}
	return a.ended(err)
}

// damage ends everything when the store was found damaged, whoever found it: what is done from then on is done on a guess.
func (a *app) damage(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.store.Damaged():
		return a.store.Damage()
	}
}

// wait waits for all parts; but not for long for those that a damaged store holds up.
func (a *app) wait(watch *errgroup.Group) error {
	done := make(chan error, 1)
	go func() { done <- watch.Wait() }()
	select {
	case err := <-done:
		return err
	case <-a.store.Damaged():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(drainLimit):
		return a.store.Damage()
	}
}

// ended gives the end of a part its exit code.
func (a *app) ended(err error) error {
	if damage := a.store.Damage(); damage != nil {
		return damage // and not what came of it
	}
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if errors.Is(err, natsd.ErrWillNotEnd) {
		return ioError(err, fmt.Sprintf("a new process helps; look at %s and its disk", filepath.Join(a.o.Base.DataDir, streamFolder)))
	}
	return ioError(err, "the commit may have happened; a restart reads again and goes on from what is on disk")
}

// publish keeps a relay running: a connection that was closed for good is replaced, a full disk is waited for.
func (a *app) publish(ctx context.Context) error {
	for {
		err := a.currentRelay().Run(ctx)
		closed := errors.Is(err, relay.ErrClosed)
		if !closed && !errors.Is(err, store.ErrNoSpace) || ctx.Err() != nil {
			return err
		}
		a.o.Log.Error("publishing stopped; it begins again", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Second):
		}
		if !closed {
			continue
		}
		if err := a.connect(); err != nil {
			a.o.Log.Error("NATS", "err", err)
		}
	}
}

func (a *app) currentRelay() *relay.Relay {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.relay
}

// keys passes changed keys on to the poller.
func (a *app) keys(ctx context.Context) error {
	if a.o.Keys == nil {
		<-ctx.Done()
		return nil
	}
	return a.o.Keys(ctx, a.setAgencies)
}

// watchdog tells systemd that the process is alive as long as /livez says so.
func (a *app) watchdog(ctx context.Context) error {
	return a.o.Notify.run(ctx, func() bool { return a.health().Live }, a.unheard)
}

func (a *app) unheard(err error) { a.o.Log.Warn("systemd does not listen", "err", err) }

// serve answers at the socket.
func (a *app) serve(ctx context.Context) error {
	s := &http.Server{
		Handler:           ops.Handler(a.verbs()),
		ReadHeaderTimeout: 10 * time.Second,
	}
	stopped := context.AfterFunc(ctx, func() { s.Close() })
	defer stopped()
	if err := s.Serve(a.socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
