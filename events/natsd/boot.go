package natsd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

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
	if err := o.ProcessConfigString("accounts { " + account + " { jetstream: enabled }, " + probeAccount + " { jetstream: enabled } }"); err != nil {
		return nil, err
	}
	return o, nil
}

// boot starts an inner server and waits for it. The caller holds s.changing, or is the only one who knows s.
func (s *Server) boot(ctx context.Context) error {
	for again := true; again; {
		if err := errors.Join(ctx.Err(), s.probe()); err != nil {
			return err
		}
		s.mu.Lock()
		s.booted = time.Now()
		s.mu.Unlock()
		if err := s.prepare(); err != nil {
			return err
		}
		inner, err := s.launch(ctx)
		if err != nil {
			return err
		}
		if again, err = s.unrecovered(ctx, inner); again || err != nil {
			s.ended = stop(inner)
			if err = errors.Join(err, s.gone(ctx, s.options.StartTimeout)); err != nil {
				return err
			}
			continue
		}
		s.mu.Lock()
		if a, ok := inner.Addr().(*net.TCPAddr); ok {
			s.port = a.Port
		}
		s.running = inner
		s.mu.Unlock()
	}
	return nil
}

// launch starts an inner server that nobody else knows yet. One that fails by itself is counted, see prepare.
func (s *Server) launch(ctx context.Context) (*server.Server, error) {
	o, err := s.serverOptions()
	if err != nil {
		return nil, err
	}
	gate := newAuthenticator(s.options, s.password)
	o.CustomClientAuthentication = gate
	inner, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	if err := gate.attach(inner); err != nil {
		return nil, err
	}
	log := &logger{log: s.options.Logger, fatal: make(chan string, 1)}
	inner.SetLoggerV2(log, false, false, false)
	started := make(chan struct{})
	go func() { inner.Start(); close(started) }()
	if err := await(ctx, inner, started, log.fatal, s.startLimit()); err != nil {
		s.ended = abandon(inner, started)
		if s.options.Stream != "" && ctx.Err() == nil && s.tryToWrite(ctx) == nil {
			n := s.starts()
			n.failed++
			err = errors.Join(err, s.mark(n))
		}
		if errors.Is(err, ErrTooMuchMemory) {
			return nil, err
		}
		return nil, errors.Join(err, s.gone(context.Background(), stopLimit))
	}
	return inner, nil
}

// slowDisk is how many bytes a second are read of a folder at least: after a crash the server may read all of it before it is
// ready. A healthy one must not be taken for one that hangs.
const slowDisk = 32 << 20

// startLimit is how long a start may take.
func (s *Server) startLimit() time.Duration {
	var bytes int64
	_ = filepath.WalkDir(s.options.StoreDir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil // what cannot be read counts nothing
	})
	return s.options.StartTimeout + time.Duration(bytes/slowDisk)*time.Second
}

// ErrTooMuchMemory: a server that starts takes more memory than any healthy one, as damage can make it do without end. Nothing ends
// it but the end of the process, which should come at once; the start is counted as one that failed.
var ErrTooMuchMemory = errors.New("the server takes too much memory while it starts")

// mostStartMemory is what a start may add to the heap. A healthy server reads block after block, of 8 MiB each.
const mostStartMemory = 1 << 30

// await returns nil when the server takes connections, or why it does not. A damaged folder can keep a server busy for
// ever.
func await(ctx context.Context, inner *server.Server, started <-chan struct{}, fatal <-chan string, limit time.Duration) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for before, waiting := heap(), true; waiting; {
		select {
		case <-started:
			waiting = false
		case text := <-fatal:
			return fmt.Errorf("start: %s", text)
		case <-ctx.Done():
			return fmt.Errorf("start: %w", ctx.Err())
		case <-deadline.C:
			return fmt.Errorf("start: %w after %s", errNotReady, limit)
		case <-tick.C:
			if heap() > before+mostStartMemory {
				return fmt.Errorf("start: %w", ErrTooMuchMemory)
			}
		}
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

// heap is how many bytes the objects of this process take.
func heap() uint64 {
	objects := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(objects)
	return objects[0].Value.Uint64()
}

// stopLimit is how long a server may take to end. All that it acknowledged is on disk before: one that hangs is left.
const stopLimit = 3 * time.Second

// abandon ends a server whose start is given up, when the start is over: one that is shut down before would go on to open
// the folder, and nothing could end it any more. The channel is closed when it has ended.
func abandon(inner *server.Server, started <-chan struct{}) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		<-started
		<-stop(inner)
		close(ended)
	}()
	return ended
}

// stop shuts a server down; the channel is closed when that is done.
func stop(inner *server.Server) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		inner.Shutdown()
		inner.WaitForShutdown()
		close(ended)
	}()
	return ended
}
