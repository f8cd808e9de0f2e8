package natsd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TryListen binds an address once. It returns ErrPortInUse or ErrAddress where that fails, which
// the server itself would only log.
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
	// An account made in code would get JetStream only after the start, when guests may already be
	// connected. One made by configuration has it from the beginning.
	if err := o.ProcessConfigString(
		"accounts { " + account + " { jetstream: enabled } }"); err != nil {
		return nil, err
	}
	return o, nil
}

// mostFailed is how many starts in a row may fail before the folder is renamed.
const mostFailed = 3

// errNotServed: the server runs, but does not serve the stream whose files are in its folder.
var errNotServed = errors.New("the stream is damaged")

// boot starts a server and waits for it. The caller holds s.changing, or is the only one that knows
// s.
func (s *Server) boot(ctx context.Context) error {
	for failed := 0; ; failed++ {
		err := s.bootOnce(ctx)
		// other failures need a new process
		if !errors.Is(err, errNotServed) || failed == mostFailed {
			return err
		}
	}
}

// bootOnce is one start. It counts if it fails, or ends the process by a panic; but not if it was
// called off, if the process was killed, or if the disk is full.
func (s *Server) bootOnce(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.waitEnded(ctx, endLimit); err != nil { // no second server on its folder
		return err
	}
	if s.options.Listen != "off" && s.port != server.RANDOM_PORT {
		if err := TryListen(net.JoinHostPort(s.host, strconv.Itoa(s.port))); err != nil {
			return err
		}
	}
	failed, err := s.beginStart()
	if err != nil {
		return err
	}
	inner, err := s.launch(ctx)
	if err == nil || ctx.Err() == nil && s.space() == nil {
		err = errors.Join(err, s.endStart(failed, err))
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := inner.Addr().(*net.TCPAddr); ok {
		s.port = a.Port
	}
	s.running = inner
	return nil
}

// launch starts a server that is not published yet.
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
	if err = s.await(ctx, inner, started, log.fatal); err == nil {
		err = s.serves(ctx, inner)
	}
	if err != nil {
		s.stop(inner, started)
		_ = s.waitEnded(context.Background(), stopLimit) // the next start waits longer
		return nil, fmt.Errorf("start: %w", err)
	}
	return inner, nil
}

var errNotReady = errors.New("not ready")

// await returns nil when the server takes connections, or why it does not. A damaged folder can
// keep a server busy without end.
func (s *Server) await(ctx context.Context, inner *server.Server, started <-chan struct{},
	fatal <-chan string,
) error {
	limit := s.startLimit()
	select {
	case <-started:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(limit):
		return fmt.Errorf("%w after %s", errNotReady, limit)
	}
	select {
	case text := <-fatal: // Start returns after it
		return errors.New(text)
	default:
	}
	if !inner.ReadyForConnections(time.Second) {
		return errors.New("accepts no connections")
	}
	return nil
}

// slowDisk is how many bytes a second a slow disk reads. After a crash the server may read the
// whole folder before it is ready: a start that takes long is not one that hangs.
const slowDisk = 32 << 20

// startLimit is how long a start may take.
func (s *Server) startLimit() time.Duration {
	return s.options.StartTimeout + time.Duration(bytesIn(s.folder())/slowDisk)*time.Second
}

// folder returns the path of one of the server's folders.
func (s *Server) folder(path ...string) string {
	return filepath.Join(append([]string{s.options.StoreDir, "jetstream"}, path...)...)
}

// bytesIn returns the size of what is in a folder, links included. What cannot be read counts as a
// byte.
func bytesIn(folder string) (n int64) {
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			n++
		} else if info, err := d.Info(); err != nil {
			n++
		} else if !d.IsDir() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// serves returns errNotServed where the folder holds our stream, and the server could not recover
// it or has taken it offline. It says so itself; nothing here reads its files.
func (s *Server) serves(ctx context.Context, inner *server.Server) error {
	folder := s.folder(account, "streams", s.options.Stream)
	if _, err := os.Stat(folder); s.options.Stream == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	nc, err := nats.Connect("", nats.InProcessServer(inner), nats.UserInfo(relayUser, s.password),
		nats.NoReconnect(), nats.CustomInboxPrefix(relayInbox), nats.Timeout(answerLimit))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	_, err = js.Stream(ctx, s.options.Stream)
	if refused, is := errors.AsType[*jetstream.APIError](err); is &&
		(refused.ErrorCode == jetstream.JSErrCodeStreamNotFound || refused.ErrorCode == offline) {
		return fmt.Errorf("stream %s: %w: %s", s.options.Stream, errNotServed, refused.Description)
	}
	return nil
}

// answerLimit is how long a server that has started may take to answer.
const answerLimit = 30 * time.Second

// offline is the code of a stream that the server has taken offline, as for a damaged consumer.
const offline jetstream.ErrorCode = 10194

func (s *Server) startsFile() string { return filepath.Join(s.options.StoreDir, ".starts") }

// failedStarts returns how many starts in a row have failed. A panic writes its trace behind the
// number, and is a failed start too. A signal that ends the process writes one as well: a watchdog
// that aborts a slow start has found no damage.
func (s *Server) failedStarts() int {
	text, _ := os.ReadFile(s.startsFile())
	line, trace, _ := bytes.Cut(text, []byte("\n"))
	n, _ := strconv.Atoi(string(line)) // 0 if it cannot be read
	isSignal := bytes.HasPrefix(trace, []byte("SIGABRT")) ||
		bytes.HasPrefix(trace, []byte("SIGQUIT"))
	if len(trace) > 0 && !isSignal {
		n++
	}
	return n
}

// beginStart makes the folder ready for a start. A stream without a byte is removed: the process
// was killed while it made the stream, and its health would never be good again.
func (s *Server) beginStart() (failed int, err error) {
	if err := os.MkdirAll(s.options.StoreDir, 0o700); err != nil || s.options.Stream == "" {
		return 0, err
	}
	if failed = s.failedStarts(); failed == mostFailed {
		if err := s.moveAside(failed); err != nil {
			return failed, err
		}
		failed++ // once: where a new folder does not help, the cause is not its content
	}
	streams, _ := filepath.Glob(s.folder(account, "streams", "*"))
	for _, stream := range streams {
		if bytesIn(stream) == 0 {
			err = errors.Join(err, os.RemoveAll(stream))
		}
	}
	return failed, errors.Join(err, s.noteStarts(failed))
}

// endStart ends what beginStart began, and counts a start that failed.
func (s *Server) endStart(failed int, why error) error {
	switch {
	case s.options.Stream == "":
		return nil
	case why != nil:
		s.options.Logger.Warn("a start of the embedded NATS server failed", "err", why.Error(),
			"count", failed+1)
		return s.noteStarts(failed + 1)
	}
	if err := errors.Join(debug.SetCrashOutput(nil, debug.CrashOptions{}),
		os.Remove(s.startsFile())); err != nil {
		// it runs all the same
		s.options.Logger.Warn("failed starts of the embedded NATS server stay counted",
			"err", err.Error())
	}
	return nil
}

// noteStarts writes the number of failed starts, and lets a panic add its trace.
func (s *Server) noteStarts(failed int) error {
	f, err := os.OpenFile(s.startsFile(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, failed)
	return errors.Join(err, debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
}

// asidePrefix begins the name of a folder that was renamed. It stays until a person deletes it: it
// may be the last copy of something.
const asidePrefix = "jetstream.damaged-"

// moveAside renames the server's folder, with all streams and consumers in it, beside StoreDir.
func (s *Server) moveAside(failed int) error {
	to := filepath.Join(filepath.Dir(s.options.StoreDir),
		asidePrefix+time.Now().UTC().Format("20060102T150405.000Z"))
	if err := os.Rename(s.folder(), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move %s aside: %w", s.folder(), err)
	}
	s.options.Logger.Error("the damaged folder of JetStream was moved aside",
		"why", fmt.Sprintf("%d starts in a row failed", failed), "now", to,
		"then", "the stream is recreated from the event log; the owners of other streams and consumers have to recreate them",
		"advice", "check the disk, and delete the folder when it is no longer needed: it may contain personal data")
	return nil
}
