package natsd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/events/helptest"

	"github.com/nats-io/nats.go/jetstream"
)

// onFolder makes a folder with a stream of three messages, by a server that has ended.
func onFolder(t *testing.T) Options {
	t.Helper()
	o := Options{StoreDir: filepath.Join(t.TempDir(), "jetstream"), Stream: "LISTINGS"}
	s, err := Start(t.Context(), o)
	must(t, err)
	_, js := connect(t, s)
	makeStream(t, js, 3)
	s.Shutdown()
	return o
}

// fail starts a server without time to start, until a number of starts in a row have failed. It returns how
// many succeeded: a fast one may be ready nevertheless, which ends the count.
func fail(t *testing.T, o Options, times int) (ready int) {
	t.Helper()
	o.StartTimeout = time.Nanosecond
	for (&Server{options: o}).failedStarts() < times {
		s, err := Start(t.Context(), o)
		if err == nil {
			ready++
			s.Shutdown()
		} else if !errors.Is(err, errNotReady) {
			t.Fatal(err)
		}
	}
	return ready
}

// startAndLook starts a server, and returns what it logged.
func startAndLook(t *testing.T, o Options) (s *Server, logged string) {
	t.Helper()
	var out helptest.Lines
	o.Logger = slog.New(slog.NewTextHandler(&out, nil))
	s, err := Start(t.Context(), o)
	must(t, err)
	t.Cleanup(s.Shutdown)
	return s, out.String()
}

// aside are the folders that were renamed.
func (s *Server) aside(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(s.options.StoreDir), asidePrefix+"*"))
	must(t, err)
	return found
}

func TestAFolderIsMovedAsideOnceAfterThreeStartsThatFailed(t *testing.T) {
	o := onFolder(t)
	fail(t, o, mostFailed-1)
	if s, _ := startAndLook(t, o); s.failedStarts() > 0 || len(s.aside(t)) > 0 {
		t.Fatalf("%d starts count, %d folders moved aside", s.failedStarts(), len(s.aside(t)))
	} else {
		s.Shutdown()
	}
	fail(t, o, mostFailed)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(cancelled, o); err == nil || (&Server{options: o}).failedStarts() != mostFailed {
		t.Fatal("a start that is called off succeeds or counts")
	}
	s, logged := startAndLook(t, o)
	aside := s.aside(t)
	if len(aside) != 1 || !strings.Contains(logged, "moved aside") {
		t.Fatalf("%q\n%s", aside, logged)
	}
	if _, err := os.Stat(filepath.Join(aside[0], "DOORBELL/streams/LISTINGS/msgs/1.blk")); err != nil {
		t.Error(err)
	}
	_, js := connect(t, s)
	makeStream(t, js, 1) // it is gone, so it can be made
	for range 2 {
		s.Shutdown()
		s, _ = startAndLook(t, o)
		_, js := connect(t, s)
		if n := messages(t, js); n != 1 || len(s.aside(t)) != 1 {
			t.Fatalf("%d messages, %d folders moved aside", n, len(s.aside(t)))
		}
	}
}

func TestAProcessThatDiesDuringAStartCountsOnlyIfItPanicked(t *testing.T) {
	const folder = "DOORBELL_TEST_NATSD_DIES"
	if dir := os.Getenv(folder); dir != "" {
		s := &Server{options: Options{StoreDir: dir, Stream: "LISTINGS"}}
		if _, err := s.beginStart(); err != nil {
			t.Fatal(err)
		}
		switch os.Getenv("DOORBELL_TEST_NATSD_PANICS") {
		case "yes":
			panic("in the server")
		case "aborted": // as systemd's watchdog does
			_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
			select {}
		}
		os.Exit(2)
	}
	for panics, want := range map[string]int{"": 0, "yes": 1, "aborted": 0} {
		dir := t.TempDir()
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), folder+"="+dir, "DOORBELL_TEST_NATSD_PANICS="+panics)
		if out, err := c.CombinedOutput(); err == nil || strings.Contains(string(out), "in the server") != (panics == "yes") {
			t.Fatalf("%v\n%s", err, out)
		}
		if n := (&Server{options: Options{StoreDir: dir}}).failedStarts(); n != want {
			t.Errorf("panics %q: %d starts count", panics, n)
		}
	}
}

func TestAStreamThatTheServerCannotRecoverIsMovedAside(t *testing.T) {
	o := onFolder(t)
	must(t, os.WriteFile(filepath.Join(o.StoreDir, "jetstream/DOORBELL/streams/LISTINGS/meta.inf"), []byte("{"), 0o600))
	s, logged := startAndLook(t, o)
	if n := len(s.aside(t)); n != 1 || s.failedStarts() != 0 {
		t.Fatalf("%d folders moved aside\n%s", n, logged)
	}
	must(t, s.check())
}

func TestAStreamTakenOfflineForADamagedConsumerIsRecreated(t *testing.T) {
	t.Parallel()
	o := onFolder(t)
	s, _ := startAndLook(t, o)
	_, js := connect(t, s)
	if _, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm"}); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	meta := filepath.Join(o.StoreDir, "jetstream/DOORBELL/streams/LISTINGS/obs/crm/meta.inf")
	b, err := os.ReadFile(meta)
	must(t, err)
	must(t, os.WriteFile(meta, bytes.Replace(b, []byte("durable_name"), []byte("durable_nime"), 1), 0o600))
	s, logged := startAndLook(t, o)
	if n := len(s.aside(t)); n != 1 {
		t.Fatalf("%d folders moved aside\n%s", n, logged)
	}
	_, js = connect(t, s)
	makeStream(t, js, 1) // nothing of it is left in the server
}

// A process that is killed while it makes a stream leaves a folder without one.
func TestAnUnfinishedStreamIsRemovedAndTheServerIsHealthy(t *testing.T) {
	o := onFolder(t)
	must(t, os.MkdirAll(filepath.Join(o.StoreDir, "jetstream/DOORBELL/streams/LISTINGS_REPLAY/msgs"), 0o700))
	s, logged := startAndLook(t, o)
	if err := s.RunOnce(t.Context()); err != nil || s.Status().Restarts > 0 || len(s.aside(t)) > 0 {
		t.Fatalf("%v, %+v\n%s", err, s.Status(), logged)
	}
	_, js := connect(t, s)
	if n := messages(t, js); n != 3 {
		t.Errorf("%d messages", n)
	}
}

func TestNoStartCountsWhileTheDiskIsFull(t *testing.T) {
	disk, fill, _ := helptest.SmallDisk(t, "8m", syscall.MNT_DETACH)
	o := onFolder(t)
	folder := filepath.Join(disk, "jetstream")
	must(t, os.CopyFS(folder, os.DirFS(o.StoreDir)))
	fill(1 << 18) // a count could be written
	o.StoreDir, o.StartTimeout = folder, time.Nanosecond
	s := &Server{options: o}
	for range 3 * mostFailed {
		if fast, err := Start(t.Context(), o); err == nil {
			fast.Shutdown()
		} else if s.failedStarts() > 0 {
			t.Fatalf("%v, %d starts count as failed", err, s.failedStarts())
		}
	}
}
