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
	"slices"
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
	failuresBeforeStream = 3 // starts that failed before Options.Stream is moved aside, which is counted like one
	failuresBeforeAll    = 7 // and before everything is
	healthyFor           = 5 * time.Minute
	quarantinePrefix     = "jetstream.damaged-"
	mostQuarantined      = 8 // a disk that damages more is not worth another try
)

// ErrQuarantineFull is returned when so much was moved aside that a person has to look first.
var ErrQuarantineFull = errors.New("too many damaged folders were moved aside already")

func (s *Server) markerFile() string { return filepath.Join(s.options.StoreDir, ".starting") }

// failedStarts is how many starts in a row have failed. The marker stands from before a start until the server has been healthy for
// five minutes; a panic writes its trace behind the number, and is a start that failed, too.
func (s *Server) failedStarts() int {
	b, err := os.ReadFile(s.markerFile())
	if err != nil {
		return 0
	}
	line, trace, _ := bytes.Cut(b, []byte("\n"))
	n, _ := strconv.Atoi(string(line)) // what cannot be read counts nothing
	if diedInServer(trace) {
		n++
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
func (s *Server) mark(failed int) error {
	f, err := os.OpenFile(s.markerFile(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, failed)
	return errors.Join(err, debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
}

// countFailed counts the last start as one that failed, however often it is called.
func (s *Server) countFailed() error {
	if s.options.Stream == "" {
		return nil
	}
	return s.mark(int(s.failed.Load()) + 1)
}

// unmark ends the count.
func (s *Server) unmark() error {
	if err := os.Remove(s.markerFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.failed.Store(0)
	return debug.SetCrashOutput(nil, debug.CrashOptions{})
}

// prepare makes the folder ready for a start. A start that was called off, killed, or had no space does not count.
func (s *Server) prepare() error {
	if err := os.MkdirAll(s.options.StoreDir, 0o700); err != nil {
		return err
	}
	if s.options.Stream == "" {
		return nil
	}
	var err error
	n := s.failedStarts()
	switch {
	case n >= failuresBeforeAll:
		err, n = s.quarantine(s.folder(), "no start succeeded since the stream was moved aside"), 0
	case n == failuresBeforeStream:
		err, n = s.quarantine(s.folder(account, "streams", s.options.Stream), fmt.Sprintf("%d starts in a row failed", n)), n+1
	}
	if err != nil {
		return err
	}
	s.failed.Store(int64(n))
	return s.mark(n)
}

// folder is one of the server's, below that of all its files.
func (s *Server) folder(path ...string) string {
	return filepath.Join(append([]string{s.options.StoreDir, "jetstream"}, path...)...)
}

// moveBroken moves aside the streams that a server, which nobody else knows yet, has not recovered or does not serve. It is true if
// there were any: the server has to be started anew. Without space nothing is known of them.
func (s *Server) moveBroken(ctx context.Context, inner *server.Server) (found bool, err error) {
	if s.options.Stream == "" {
		return false, nil
	}
	broken, err := s.broken(ctx, inner)
	if err != nil || len(broken) == 0 {
		return false, err
	}
	if err := s.tryToWrite(ctx); err != nil {
		return false, err
	}
	for folder, why := range broken {
		if n, errRead := bytesIn(folder); n == 0 && errRead == nil { // the process was killed while it was made
			err = errors.Join(err, os.RemoveAll(folder))
		} else {
			err = errors.Join(err, s.quarantine(folder, why))
		}
	}
	return true, err
}

// broken are the folders of streams that the server refuses to tell of, with its reason: it could not recover the stream, or has taken
// it offline for a consumer.
func (s *Server) broken(ctx context.Context, inner *server.Server) (map[string]string, error) {
	nc, js, err := s.ask(inner)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, s.options.StuckAfter)
	defer cancel()
	found := map[string]string{}
	folders, err := filepath.Glob(s.folder(account, "streams", "*"))
	for _, folder := range folders {
		var refused *jetstream.APIError
		if _, err := js.Stream(ctx, filepath.Base(folder)); errors.As(err, &refused) && slices.Contains(unserved, refused.ErrorCode) {
			found[folder] = refused.Description
		}
	}
	return found, err
}

// unserved are the codes of a stream that there is not, and of one that is offline.
var unserved = []jetstream.ErrorCode{jetstream.JSErrCodeStreamNotFound, 10194}

// ask makes a connection to one server, for one question.
func (s *Server) ask(inner *server.Server) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect("", nats.InProcessServer(inner), nats.UserInfo(relayUser, s.password), nats.NoReconnect(),
		nats.CustomInboxPrefix(relayInbox), nats.Timeout(s.options.StuckAfter)) // a machine under load takes its time
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
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
	inner, err := filepath.Rel(s.folder(), folder)
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
	if err == nil {
		return nil
	}
	for dir := filepath.Dir(to); os.Remove(dir) == nil; dir = filepath.Dir(dir) { // what is empty of those that were made
		continue
	}
	return err
}
