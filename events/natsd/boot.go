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

// TryListen binds an address once, and says with ErrPortInUse or ErrAddress why that cannot be done. The server itself would only log
// it, and look alive.
func TryListen(address string) error {
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
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.options.Listen != "off" && s.port != server.RANDOM_PORT {
			if err := TryListen(net.JoinHostPort(s.host, strconv.Itoa(s.port))); err != nil {
				return err
			}
		}
		s.mu.Lock()
		s.booted = time.Now()
		s.mu.Unlock()
		if err := s.prepare(); err != nil {
			return err
		}
		if err := s.finishErasing(); err != nil {
			return err
		}
		inner, err := s.launch(ctx)
		if err != nil {
			return err
		}
		moved, err := s.moveBroken(ctx, inner)
		if !moved && err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if a, ok := inner.Addr().(*net.TCPAddr); ok {
				s.port = a.Port
			}
			s.running = inner
			return nil
		}
		s.stop(inner, nil)
		if err = errors.Join(err, s.gone(ctx, endLimit)); err != nil {
			return err
		}
	}
}

// launch starts an inner server that nobody else knows yet. One that fails by itself is counted, see prepare.
func (s *Server) launch(ctx context.Context) (*server.Server, error) {
	o, err := s.serverOptions()
	if err != nil {
		return nil, err
	}
	auth := &authenticator{}
	o.CustomClientAuthentication = auth
	inner, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	if err := auth.admit(s.options, s.password, inner); err != nil {
		return nil, err
	}
	log := &logger{log: s.options.Logger, fatal: make(chan string, 1)}
	inner.SetLoggerV2(log, false, false, false)
	s.mostHeap.Store(heap() + s.options.mostMemory)
	started := make(chan struct{})
	go func() { inner.Start(); close(started) }()
	if err := s.await(ctx, inner, started, log.fatal); err != nil {
		s.stop(inner, started)
		if !errors.Is(err, ErrTooMuchMemory) {
			if ctx.Err() == nil && s.tryToWrite(ctx) == nil {
				err = errors.Join(err, s.countFailed())
			}
			_ = s.gone(context.Background(), stopLimit) // whoever starts the next one waits longer
		}
		return nil, fmt.Errorf("start: %w", err)
	}
	return inner, nil
}

// slowDisk is how many bytes a second are read of a folder at least: after a crash the server may read all of it before it is
// ready. A healthy one must not be taken for one that hangs.
const slowDisk = 32 << 20

// startLimit is how long a start may take.
func (s *Server) startLimit() time.Duration {
	bytes, _ := bytesIn(s.options.StoreDir) // what cannot be read counts nothing
	return s.options.StartTimeout + time.Duration(bytes/slowDisk)*time.Second
}

// bytesIn is how much the files of a folder hold.
func bytesIn(folder string) (n int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// ErrTooMuchMemory: one flipped bit in the sequence of a message makes the server take memory without end when it reads that block,
// at a start or whenever somebody reads a message of it: it lists all sequences in between (indexCacheBuf of nats-server 2.15.2; its
// issue 7549 tells what else such bits do). Nothing ends it but the end of the process, which has to come at once; the start is counted
// as one that failed.
var ErrTooMuchMemory = fmt.Errorf("%w: it allocates memory without end, as it does when its files are damaged", ErrWillNotEnd)

// tooMuchMemory is ErrTooMuchMemory if the heap has grown by too much since the start. It counts the start as failed before it returns,
// as the kernel may end the process at any moment. Later than five healthy minutes after a start the count begins at one again; it
// still comes to three, because the comparison of stream and log reads all of the stream three minutes after each start.
func (s *Server) tooMuchMemory() error {
	if heap() <= s.mostHeap.Load() {
		return nil
	}
	return errors.Join(ErrTooMuchMemory, s.countFailed())
}

var errNotReady = errors.New("not ready")

// await returns nil when the server takes connections, or why it does not. A damaged folder can keep a server busy for
// ever.
func (s *Server) await(ctx context.Context, inner *server.Server, started <-chan struct{}, fatal <-chan string) error {
	limit := s.startLimit()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-started:
			waiting = false
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("%w after %s", errNotReady, limit)
		case <-tick.C:
			if err := s.tooMuchMemory(); err != nil {
				return err
			}
		}
	}
	select {
	case text := <-fatal: // it logs what is fatal, and returns
		return errors.New(text)
	default:
	}
	if !inner.ReadyForConnections(time.Second) {
		return errors.New("takes no connections")
	}
	return nil
}

// heap is how many bytes of this process were in use at the end of the last garbage collection: what others of it read and throw away, as
// when a long stream is compared, is none of the server's.
func heap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
