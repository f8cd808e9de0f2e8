package natsd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
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
	if err := o.ProcessConfigString("accounts { " + account + " { jetstream: enabled } }"); err != nil {
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
	started := make(chan struct{})
	go func() { inner.Start(); close(started) }()
	if err := s.await(ctx, inner, started, log.fatal); err != nil {
		s.stop(inner, started)
		if ctx.Err() == nil && s.tryToWrite(ctx) == nil {
			err = errors.Join(err, s.countFailed())
		}
		_ = s.gone(context.Background(), stopLimit) // the next start waits longer
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

var errNotReady = errors.New("not ready")

// await returns nil when the server takes connections, or why it does not. A damaged folder can keep a server busy for
// ever.
func (s *Server) await(ctx context.Context, inner *server.Server, started <-chan struct{}, fatal <-chan string) error {
	limit := s.startLimit()
	select {
	case <-started:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(limit):
		return fmt.Errorf("%w after %s", errNotReady, limit)
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
