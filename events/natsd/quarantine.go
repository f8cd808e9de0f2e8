package natsd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A damaged folder can keep the server from starting, make it panic, or leave a stream that it cannot recover. What stands in
// the way is then moved aside, whole, and the stream is made again from the event log. Nothing here reads the server's
// files: it says itself which streams it cannot recover, and its failures are counted. Messages that it drops without a
// word are found by whoever compares the stream with the log.

const (
	failuresBeforeStream = 3 // starts that failed before Options.Stream is moved aside
	failuresBeforeAll    = 6 // and before everything is
	healthyFor           = 5 * time.Minute
	quarantinePrefix     = "jetstream.damaged-"
	mostQuarantined      = 8 // a disk that damages more is not worth another try
)

var (
	errNotReady = errors.New("not ready")
	// ErrQuarantineFull is returned when so much was moved aside that a person has to look first.
	ErrQuarantineFull = errors.New("too many damaged folders were moved aside already")
)

func (s *Server) markerFile() string { return filepath.Join(s.options.StoreDir, ".starting") }

// starts is what the marker says of the starts before.
type starts struct {
	failed int  // in a row
	moved  bool // Options.Stream was moved aside since: what stands there is another one
}

// starts reads the marker. It stands from before a start until the server has been healthy for five minutes; a panic writes its
// trace behind it, and is a start that failed, too.
func (s *Server) starts() (n starts) {
	b, err := os.ReadFile(s.markerFile())
	if err != nil {
		return n
	}
	line, trace, _ := bytes.Cut(b, []byte("\n"))
	count, moved, _ := strings.Cut(string(line), " ")
	n.failed, _ = strconv.Atoi(count) // what cannot be read counts nothing
	if n.moved = moved != ""; diedInServer(trace) {
		n.failed++
	}
	return n
}

// diedInServer says whether a trace is of the end of the process in the server. Of some ends it shows all goroutines, the one that
// died first. Who sends a signal, as systemd's watchdog does, gets all of them, and there was no fault.
func diedInServer(trace []byte) bool {
	if bytes.HasPrefix(trace, []byte("SIGABRT")) || bytes.HasPrefix(trace, []byte("SIGQUIT")) {
		return false
	}
	_, died, _ := bytes.Cut(trace, []byte("\ngoroutine "))
	died, _, _ = bytes.Cut(died, []byte("\n\n"))
	return bytes.Contains(died, []byte("nats-server/v2/server"))
}

// mark writes the marker, and lets a panic add to it.
func (s *Server) mark(n starts) error {
	f, err := os.OpenFile(s.markerFile(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	line := strconv.Itoa(n.failed)
	if n.moved {
		line += " moved"
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
}

// unmark ends the count.
func (s *Server) unmark() error {
	if err := os.Remove(s.markerFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return debug.SetCrashOutput(nil, debug.CrashOptions{})
}

// prepare makes the folder ready for a start. A start that was called off, killed, or had no space does not count.
func (s *Server) prepare() error {
	if err := os.MkdirAll(s.options.StoreDir, 0o700); err != nil {
		return err
	}
	root := filepath.Join(s.options.StoreDir, "jetstream")
	if err := os.RemoveAll(filepath.Join(root, probeAccount)); err != nil { // ours, and worth nothing
		return err
	}
	if s.options.Stream == "" {
		return nil
	}
	n := s.starts()
	var err error
	switch why := fmt.Sprintf("%d starts in a row failed", n.failed); {
	case n.failed >= failuresBeforeAll:
		if err = s.quarantine(root, why); err == nil {
			n = starts{}
		}
	case n.failed >= failuresBeforeStream && !n.moved:
		err = s.quarantine(s.streamFolder(account, s.options.Stream), why)
		n.moved = err == nil
	}
	return errors.Join(err, s.mark(n))
}

func (s *Server) streamFolder(account, name string) string {
	return filepath.Join(s.options.StoreDir, "jetstream", account, "streams", name)
}

// unrecovered moves aside the streams that a server, which nobody else knows yet, says it cannot recover or serve. It is true
// if there were any: the server has to be started anew. Without space nothing is known of them.
func (s *Server) unrecovered(ctx context.Context, inner *server.Server) (found bool, err error) {
	if s.options.Stream == "" {
		return false, nil
	}
	broken := map[string]string{}
	for _, e := range inner.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if e.Type == server.HealthzErrorStream && e.Stream != "" && !strings.Contains(e.Error, "write error") {
			broken[s.streamFolder(e.Account, e.Stream)] = e.Error
		}
	}
	if len(broken) == 0 {
		if broken, err = s.offline(ctx, inner); err != nil {
			return false, err
		}
	}
	if len(broken) == 0 {
		return false, nil
	}
	if full := s.tryToWrite(ctx); full != nil {
		return false, fmt.Errorf("%w to %s: %w", errNoRoom, s.options.StoreDir, full)
	}
	for folder, why := range broken {
		err = errors.Join(err, s.remove(folder, why))
	}
	return true, err
}

// remove moves a stream aside, or deletes it if nothing was ever written to it: the process was killed while it was made.
func (s *Server) remove(folder, why string) error {
	if empty(folder) {
		return os.RemoveAll(folder)
	}
	return s.quarantine(folder, why)
}

// offline are the folders of streams that the server has, but does not serve, as it does where a consumer cannot be recovered.
func (s *Server) offline(ctx context.Context, inner *server.Server) (map[string]string, error) {
	nc, err := nats.Connect("", nats.InProcessServer(inner), nats.UserInfo(relayUser, s.password), nats.NoReconnect(),
		nats.CustomInboxPrefix(relayInbox), nats.Timeout(s.options.StuckAfter))
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.StuckAfter)
	defer cancel()
	found := map[string]string{}
	folders, err := filepath.Glob(s.streamFolder(account, "*"))
	for _, folder := range folders {
		var refused *jetstream.APIError
		if _, err := js.Stream(ctx, filepath.Base(folder)); errors.As(err, &refused) && refused.ErrorCode == streamOffline {
			found[folder] = refused.Description
		}
	}
	return found, err
}

// streamOffline is the server's word for a stream that it has and does not serve, with the reason.
const streamOffline jetstream.ErrorCode = 10194

// empty says whether a folder holds no byte.
func empty(folder string) bool {
	found := errors.New("a byte")
	return filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > 0 {
			return found
		}
		return nil
	}) == nil
}

// quarantine moves a folder out of the server's way, into one that is named for the moment, and names what was in it. What
// was moved aside stays: it may be the last copy of something, and to delete it is for a person to decide.
func (s *Server) quarantine(folder, why string) error {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if n := len(s.quarantined()); n >= mostQuarantined {
		return fmt.Errorf("%w: %d beside %s; check the disk, and delete those that nobody needs", ErrQuarantineFull, n, s.options.StoreDir)
	}
	inner, err := filepath.Rel(filepath.Join(s.options.StoreDir, "jetstream"), folder)
	if err != nil {
		return err
	}
	gone := contents(folder)
	name := quarantinePrefix + s.booted.UTC().Format("20060102T150405.000Z")
	to := filepath.Join(filepath.Dir(s.options.StoreDir), name, inner)
	err = move(folder, to)
	if errors.Is(err, syscall.EXDEV) || errors.Is(err, os.ErrPermission) { // the folder is a file system of its own
		to = filepath.Join(s.options.StoreDir, name, inner)
		err = move(folder, to)
	}
	if err != nil {
		return fmt.Errorf("move %s aside: %w", folder, err)
	}
	s.options.Logger.Error("a damaged folder of JetStream was moved aside", "why", why, "folder", folder, "now", to, "gone", gone,
		"then", "our streams are made again from the event log; other streams, and consumers, have to be made again by their owners",
		"moved_aside_so_far", len(s.quarantined()), "advice", "delete what was moved aside when nobody needs it: it may hold people's data")
	return nil
}

// contents names the streams and consumers in a folder.
func contents(folder string) string {
	var names []string
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if parent := filepath.Base(filepath.Dir(path)); err == nil && d.IsDir() && (parent == "streams" || parent == "obs") {
			names = append(names, map[string]string{"streams": "stream ", "obs": "consumer "}[parent]+d.Name())
		}
		return nil // what cannot be read is not named
	})
	return strings.Join(names, ", ")
}

// quarantined are the folders that were moved aside, now or earlier.
func (s *Server) quarantined() (all []string) {
	for _, dir := range []string{filepath.Dir(s.options.StoreDir), s.options.StoreDir} {
		found, _ := filepath.Glob(filepath.Join(dir, quarantinePrefix+"*")) // the pattern is well formed
		all = append(all, found...)
	}
	return all
}

func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	err := os.Rename(from, to)
	if err != nil {
		_ = os.Remove(filepath.Dir(to)) // if it is empty
	}
	return err
}
