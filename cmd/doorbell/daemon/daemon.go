// Package daemon is the running program as a value. It opens the store, the embedded NATS server,
// the socket and the status page, runs the poller, the relay, the forwarders and their monitors
// side by side, and ends them in order. It reads neither the environment nor the command line: the
// caller sets Options.
//
// New opens everything, in order; Run lists what runs. Verbs are what the socket and tests can ask
// of a Daemon; Health reports whether it is alive and can work.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/report"
	"doorbell/cmd/doorbell/standby"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/poller"
	"doorbell/store"
)

// What is in the data directory.
const (
	StoreFile    = "doorbell.db"
	SocketFile   = "doorbell.sock"
	StreamFolder = "jetstream"
)

const (
	// closeLimit is how long relay and connection may then take to end by themselves.
	closeLimit = time.Second
	// handOverLimit is how long the last copy for another doorbell may take at the end.
	handOverLimit = 5 * time.Second
)

// Options are the settings of a Daemon, from the configuration or of a demo or test. They hold
// secrets and are printed nowhere.
type Options struct {
	config.Base
	Version string
	Log     *slog.Logger
	Poller  poller.Options // Store, Logger and the version of its API client are set by the Daemon
	// Moved accepts Poller.API.BaseURL as the new address of the API that the store remembers.
	Moved bool

	// NATS is the external server. Without a URL a server is embedded, and user, password and token
	// are what it demands from guests.
	NATS natsd.Dial

	// AgencyName is what people call an agency, for the page; may be nil, and empty for one that
	// has no other name than its id.
	AgencyName func(agencyID string) string

	Notify Notifier

	// Turn is the time in which this one of several doorbells works. Nil: it is alone.
	Turn *standby.Turn

	// Zone is that of the people who read reports; nil: UTC. ReportTo get the report of each week.
	Zone     *time.Location
	ReportTo []report.Recipient

	Receivers      Receivers // nil: none
	ForwarderNames []string  // of the kinds of receivers, those too that the routes do not name now
	// Keys hands over the keys when they change, until its context ends. Nil: they never do.
	Keys func(ctx context.Context, set func([]poller.AgencyKeys) error) error

	// The rest is for tests in which time or connections are not the system's.

	// Drain is how long a stop may take to publish what is already in the event log; 0: 10 s.
	Drain      time.Duration
	Socket     net.Listener  // instead of the one in DataDir
	CheckEvery time.Duration // of the embedded server; 0: its default
}

// path returns the path of a file in the data directory.
func (o Options) path(name string) string { return filepath.Join(o.DataDir, name) }

// Daemon is the program as a value: New takes everything it needs, Run works until its context
// ends, Close gives it back. Several can live in one process.
type Daemon struct {
	o       Options
	started time.Time

	store        *store.Store
	housekeeping *store.Housekeeping
	server       *natsd.Server // nil with an external NATS
	conn         stream.Conn
	relay        *relay.Relay
	socket       net.Listener
	web          net.Listener // nil without HTTP

	erasing     atomic.Bool // an erasure may be unfinished
	forwarding  forwarding
	deadLetters atomic.Uint64 // as counted last

	watched    atomic.Pointer[watched]
	configured chan []poller.AgencyKeys // takes the place of what is watched
	// held for writing while the poller is replaced, for reading while a command changes what it
	// does
	steering sync.RWMutex
}

// New opens store, NATS and socket, in this order: the store's lock protects the folders of all
// others.
func New(ctx context.Context, o Options) (*Daemon, error) {
	o.Poller.API.Version = o.Agent(o.Version)
	// of all pollers of the process
	o.Poller.Metrics = cmp.Or(o.Poller.Metrics, poller.NewMetrics())
	o.Zone = cmp.Or(o.Zone, time.UTC)
	o.Drain = cmp.Or(o.Drain, 10*time.Second)
	a := &Daemon{o: o, started: time.Now(), configured: make(chan []poller.AgencyKeys)}
	for _, open := range []func(context.Context) error{
		a.tryAddresses, a.openStore, a.startServer, a.openRelay, a.openPoller, a.openSocket,
		a.openHTTP,
	} {
		if err := open(ctx); err != nil {
			if a.store != nil && a.store.Failure() != nil {
				err = a.ended(err)
			}
			a.Close()
			return nil, exit.Store(err, o.DataDir)
		}
	}
	return a, nil
}

// Run works until ctx ends: first the poller stops asking, then the relay publishes what is left,
// until Options.Drain after the end of ctx. The first part that fails ends all others.
func (a *Daemon) Run(ctx context.Context) error {
	// its cause is that of the first part that ends
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { stop(nil) })()
	defer stop(nil)
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()

	var published, parts sync.WaitGroup
	published.Go(func() { stop(a.relay.Run(publishing)) })
	for _, run := range a.parts() {
		parts.Go(func() { stop(run(working)) })
	}
	a.notify("READY=1")
	<-working.Done()

	a.o.Log.Info(fmt.Sprintf(
		"stopping: publishing waiting events for at most %g s; a second signal stops immediately",
		a.o.Drain.Seconds()))
	if a.o.Turn == nil || a.o.Turn.Valid() { // if only the turn has ended, the process continues
		a.notify("STOPPING=1")
	}
	time.AfterFunc(a.o.Drain, stopPublishing)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		parts.Wait() // what is being sent comes to its end
		if err := a.relay.Drain(publishing); err != nil && a.store.Failure() == nil {
			a.o.Log.Warn("not all events are published; the event log keeps them for the next start", "err", err)
		}
		stopPublishing()
		published.Wait()
	}()
	select {
	case <-ended:
	// writing to a server that does not read can take a minute, whatever the context says
	case <-time.After(a.o.Drain + closeLimit):
		a.o.Log.Warn("not all parts stopped in time; unacknowledged events stay in the event log for the next start")
	}
	a.handOver()
	return a.ended(context.Cause(working))
}

// parts are what runs beside the relay.
func (a *Daemon) parts() []func(context.Context) error {
	all := []func(context.Context) error{
		a.poll, a.housekeeping.Run, a.storeFails, a.beat, a.keepDeadLetters, a.serveSocket,
		a.watchdog,
	}
	if a.server != nil {
		all = append(all, a.server.Run)
	}
	if a.web != nil {
		all = append(all, a.serveHTTP)
	}
	if a.o.Keys != nil {
		all = append(all, a.readKeys)
	}
	if a.o.Receivers != nil {
		all = append(all, a.forward)
	}
	if len(a.o.ReportTo) > 0 {
		all = append(all, a.mailReports)
	}
	if a.o.Turn != nil {
		all = append(all, func(ctx context.Context) error { return a.o.Turn.Copy(ctx, a.store) })
	}
	if !a.o.PingURL.IsZero() {
		ping := &ops.Ping{URL: a.o.PingURL.Reveal(), Well: a.well, Log: a.o.Log.With("part", "ping")}
		all = append(all, ping.Run)
	}
	return all
}

// Close gives back what New took. It may be called twice.
func (a *Daemon) Close() {
	if a.conn.Conn != nil {
		HangUp(a.conn)
	}
	a.release()
	if a.server != nil {
		a.server.Shutdown()
	}
	if a.store != nil {
		if err := a.store.Close(); err != nil {
			a.o.Log.Error("close store", "err", err)
		}
	}
}

// release gives back socket and address.
func (a *Daemon) release() {
	if a.socket != nil {
		a.socket.Close()
	}
	if a.web != nil {
		a.web.Close()
	}
}

// Store is the daemon's store, for tests that fill it, or take it away as a kill does.
func (a *Daemon) Store() *store.Store { return a.store }

// Server is the embedded NATS server, nil with an external one, for tests that let it fail.
func (a *Daemon) Server() *natsd.Server { return a.server }

func (a *Daemon) openStore(context.Context) error {
	limit := int64(a.o.StoreMax)
	s, err := store.Open(store.Options{
		Dir: a.o.DataDir, BaseURL: a.o.Poller.API.BaseURL, Moved: a.o.Moved, Max: limit,
	})
	if err != nil {
		return err
	}
	a.store = s
	if err := s.NotCompacted(); err != nil {
		a.o.Log.Warn("the store could not be compacted; the next start tries again",
			"err", err.Error())
	}
	if a.o.Moved {
		a.o.Log.Info("--moved: the store now remembers the API at this address; "+
			"leave the flag out at the next start", "to", natsd.Redact(s.BaseURL()))
	}
	a.housekeeping = store.NewHousekeeping(store.HousekeepingOptions{
		Store: s, Retention: a.o.Retention, Max: limit, Changed: a.logSpace,
	})
	// A store that is full already stops polls from the beginning.
	return cmp.Or(a.housekeeping.Look(), a.eraseAgain())
}

// logSpace logs that the store has become too full, or is so no more.
func (a *Daemon) logSpace(is store.Space) {
	log := a.o.Log.With("in_use", is.InUse, "most", is.Max)
	switch {
	case is.Full:
		log.Error("the store is full: polling waits until there is room", "advice", ops.SpaceAdvice)
	case is.Alarm:
		log.Warn("the store is nearly full", "advice", ops.SpaceAdvice)
	default:
		log.Info("there is room in the store again")
	}
}

// handOver writes the last copy for the doorbell that takes over.
func (a *Daemon) handOver() {
	if a.o.Turn == nil || a.store.Failure() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverLimit)
	defer cancel()
	if err := a.o.Turn.CopyNow(ctx, a.store); err != nil {
		a.o.Log.Warn("the last copy for the doorbell that takes over was not written; it starts from the previous one", "err", err.Error())
	}
}

// storeFails ends everything when the store was found damaged or a commit has failed, wherever that
// was: what is done from then on is done on a guess.
func (a *Daemon) storeFails(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.store.Failed():
		return a.store.Failure()
	}
}

// ended gives the end of a part its exit code.
func (a *Daemon) ended(err error) error {
	if failure := a.store.Failure(); failure != nil {
		err = failure // and not its consequence
	}
	switch {
	case err == nil, errors.Is(err, store.ErrDamaged):
		return err
	case errors.Is(err, store.ErrNoSpace):
		return exit.IO(err,
			fmt.Sprintf("free some space on the disk of %s; a restart continues from the store",
				a.o.DataDir))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, natsd.ErrWillNotEnd):
		return exit.IO(err,
			fmt.Sprintf("start it again, and check %s and its disk", a.o.path(StreamFolder)))
	}
	return exit.IO(err,
		"the commit may have happened; a restart continues from what is on disk")
}

// every calls do immediately and then at each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
