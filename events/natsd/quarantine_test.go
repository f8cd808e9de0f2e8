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

	"github.com/nats-io/nats.go/jetstream"
)

// onFolder makes a folder with a stream of three messages, by a server that has ended.
func onFolder(t *testing.T) Options {
	t.Helper()
	o := Options{StoreDir: filepath.Join(t.TempDir(), "jetstream"), Stream: "LISTINGS"}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, js := connect(t, s)
	makeStream(t, js, 3)
	s.Shutdown()
	return o
}

// fail starts a server that has no time, until so many starts have failed: a fast one may be ready all the same.
func fail(t *testing.T, o Options, times int) {
	t.Helper()
	o.StartTimeout = time.Nanosecond
	for (&Server{options: o}).failedStarts() < times {
		s, err := Start(t.Context(), o)
		if err == nil {
			s.Shutdown()
		} else if !errors.Is(err, errNotReady) {
			t.Fatal(err)
		}
	}
}

// startAndLook starts a server, and says what it told and which folders stand aside.
func startAndLook(t *testing.T, o Options) (s *Server, said string) {
	t.Helper()
	var out buffer
	o.Logger = slog.New(slog.NewTextHandler(&out, nil))
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s, out.String()
}

func TestAFolderThatKeepsTheServerFromStartingIsMovedAsideAfterThreeStarts(t *testing.T) {
	o := onFolder(t)
	fail(t, o, failuresBeforeStream)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(cancelled, o); err == nil || (&Server{options: o}).failedStarts() != failuresBeforeStream { // one that is called off
		t.Fatal("it started, or counts")
	}
	s, said := startAndLook(t, o)
	kept, err := filepath.Glob(filepath.Join(filepath.Dir(o.StoreDir), quarantinePrefix+"*", "DOORBELL/streams/LISTINGS/msgs/1.blk"))
	if err != nil || len(kept) != 1 || len(s.quarantined()) != 1 || !strings.Contains(said, "stream LISTINGS") {
		t.Fatalf("%v %v\n%s", kept, err, said)
	}
	_, js := connect(t, s)
	makeStream(t, js, 1) // it is gone, so it can be made
}

func TestAStreamThatWasMadeAnewStaysHoweverSoonTheServerIsStartedAgain(t *testing.T) {
	o := onFolder(t)
	fail(t, o, failuresBeforeStream)
	s, _ := startAndLook(t, o)
	_, js := connect(t, s)
	makeStream(t, js, 1)
	if s.Shutdown(); len(s.quarantined()) != 1 {
		t.Fatalf("%d moved aside", len(s.quarantined()))
	}
	for range 2 { // each within the five minutes after which the count ends
		s, said := startAndLook(t, o)
		_, js := connect(t, s)
		if _, err := js.Stream(t.Context(), o.Stream); err != nil || len(s.quarantined()) != 1 {
			t.Fatalf("%d moved aside, %v\n%s", len(s.quarantined()), err, said)
		}
		s.Shutdown()
	}
}

func TestAProcessThatIsAskedToDieIsNoDamage(t *testing.T) {
	const folder = "DOORBELL_TEST_NATSD_DIES"
	if dir := os.Getenv(folder); dir != "" {
		if _, err := Start(t.Context(), Options{StoreDir: dir, Stream: "LISTINGS"}); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGABRT); err != nil { // as systemd's watchdog does
			t.Fatal(err)
		}
		select {}
	}
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), "GOGC=100", folder+"="+dir)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "SIGABRT") {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := (&Server{options: Options{StoreDir: dir}}).failedStarts(); n != 0 {
		t.Errorf("it counts: %d", n)
	}
}

func TestEverythingIsMovedAsideWhereItIsNotTheStream(t *testing.T) {
	o := onFolder(t)
	fail(t, o, failuresBeforeAll)
	s, said := startAndLook(t, o)
	if n := len(s.quarantined()); n != 2 || strings.Count(said, "a damaged folder of JetStream") != 1 {
		t.Fatalf("%d moved aside\n%s", n, said)
	}
}

func TestAPanicOfTheServerCountsAndAnotherDoesNot(t *testing.T) {
	s := &Server{options: Options{StoreDir: t.TempDir()}}
	for trace, want := range map[string]int{
		"": 2, "panic: x\ngoroutine 7:\ndoorbell/poller.(*agency).walk": 2,
		"fatal error: x\n\ngoroutine 7:\ndoorbell/poller.(*agency).walk\n\ngoroutine 8:\ngithub.com/nats-io/nats-server/v2/server.(*Server).Start": 2,
		"panic: x\ngoroutine 7:\ngithub.com/nats-io/nats-server/v2/server.(*fileStore).recoverMsgs":                                                3,
	} {
		if err := os.WriteFile(s.markerFile(), []byte("2\n"+trace), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := s.failedStarts(); n != want {
			t.Errorf("%d, want %d: %s", n, want, trace)
		}
	}
}

func TestAStreamThatTheServerCannotRecoverIsMovedAside(t *testing.T) {
	o := onFolder(t)
	if err := os.WriteFile(filepath.Join(o.StoreDir, "jetstream/DOORBELL/streams/LISTINGS/meta.inf"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, said := startAndLook(t, o)
	if n := len(s.quarantined()); n != 1 || !strings.Contains(said, "stream not found") {
		t.Fatalf("%d moved aside\n%s", n, said)
	}
	if err := health(s.running); err != nil {
		t.Fatal(err)
	}
}

func TestAStreamThatTheServerTakesOfflineForADamagedConsumerIsMovedAside(t *testing.T) {
	o := onFolder(t)
	s, _ := startAndLook(t, o)
	_, js := connect(t, s)
	if _, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm"}); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	meta := filepath.Join(o.StoreDir, "jetstream/DOORBELL/streams/LISTINGS/obs/crm/meta.inf")
	b, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(meta, bytes.Replace(b, []byte("durable_name"), []byte("durable_nime"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	s, said := startAndLook(t, o)
	if n := len(s.quarantined()); n != 1 || !strings.Contains(said, "unsupported consumer") || !strings.Contains(said, "consumer crm") {
		t.Fatalf("%d moved aside\n%s", n, said)
	}
	_, js = connect(t, s)
	makeStream(t, js, 1) // nothing of it is left in the server
}

// onDisk is onFolder with a stream that cannot be recovered, on a file system of its own.
func onDisk(t *testing.T, folder string) Options {
	t.Helper()
	o := onFolder(t)
	if err := os.CopyFS(folder, os.DirFS(o.StoreDir)); err != nil {
		t.Fatal(err)
	}
	o.StoreDir = folder
	if err := os.WriteFile(filepath.Join(folder, "jetstream/DOORBELL/streams/LISTINGS/meta.inf"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAFolderThatIsAFileSystemOfItsOwnKeepsWhatIsMovedAside(t *testing.T) {
	o := onDisk(t, smallDisk(t, "8m"))
	s, said := startAndLook(t, o)
	kept, err := filepath.Glob(filepath.Join(o.StoreDir, quarantinePrefix+"*", "DOORBELL/streams/LISTINGS/meta.inf"))
	if err != nil || len(kept) != 1 || len(s.quarantined()) != 1 {
		t.Fatalf("%v, %v\n%s", err, kept, said)
	}
}

func TestNoStreamAndNoStartIsJudgedWhileNothingCanBeWritten(t *testing.T) {
	disk := smallDisk(t, "8m")
	o := onDisk(t, filepath.Join(disk, "jetstream"))
	fill(t, disk)
	s := &Server{options: o}
	if _, err := Start(t.Context(), o); !errors.Is(err, errNoRoom) || len(s.quarantined()) > 0 {
		t.Fatalf("%v, %d moved aside", err, len(s.quarantined()))
	}
	o.StartTimeout = time.Nanosecond
	for range 3 {
		if _, err := Start(t.Context(), o); err == nil || s.failedStarts() > 0 {
			t.Fatalf("%v, %d starts count as failed", err, s.failedStarts())
		}
	}
}

func TestFiveHealthyMinutesEndTheCountOfStarts(t *testing.T) {
	o := onFolder(t)
	fail(t, o, 2)
	s, _ := startAndLook(t, o)
	for _, runs := range []time.Duration{healthyFor - time.Minute, healthyFor + time.Minute} {
		s.booted = time.Now().Add(-runs)
		if err := s.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.failedStarts(); (n == 0) != (runs > healthyFor) {
			t.Errorf("after %v %d starts count", runs, n)
		}
	}
}

func TestWhoNamesNoStreamMovesNothingAside(t *testing.T) {
	o := onFolder(t)
	fail(t, o, failuresBeforeStream)
	o.Stream = ""
	s, said := startAndLook(t, o)
	_, js := connect(t, s)
	if _, err := js.Stream(t.Context(), "LISTINGS"); err != nil || len(s.quarantined()) != 0 || s.failedStarts() != failuresBeforeStream {
		t.Fatalf("%v, %d moved aside\n%s", err, len(s.quarantined()), said)
	}
}

func TestTooManyFoldersThatWereMovedAsideAreForAPerson(t *testing.T) {
	o := onFolder(t)
	for n := range mostQuarantined {
		if err := os.Mkdir(filepath.Join(filepath.Dir(o.StoreDir), quarantinePrefix+string(rune('a'+n))), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(o.StoreDir, "jetstream/DOORBELL/streams/LISTINGS/meta.inf"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), o); !errors.Is(err, ErrQuarantineFull) {
		t.Fatalf("%v", err)
	}
}

// A process that is killed while it makes a stream leaves a folder without one.
func TestAStreamThatWasNeverFinishedIsRemovedAndKeepsNoServerIll(t *testing.T) {
	o := onFolder(t)
	if err := os.MkdirAll(filepath.Join(o.StoreDir, "jetstream/DOORBELL/streams/LISTINGS_REPLAY/msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, said := startAndLook(t, o)
	if err := s.RunOnce(t.Context()); err != nil || s.Status().Restarts > 0 || len(s.quarantined()) > 0 {
		t.Fatalf("%v, %+v\n%s", err, s.Status(), said)
	}
	_, js := connect(t, s)
	if n := messages(t, js); n != 3 {
		t.Errorf("%d messages", n)
	}
}

func TestALargeFolderMayTakeLongerToStart(t *testing.T) {
	dir := t.TempDir()
	s := &Server{options: Options{StoreDir: dir, StartTimeout: time.Second}}
	if got := s.startLimit(); got != time.Second {
		t.Errorf("an empty folder has %v", got)
	}
	if err := os.MkdirAll(filepath.Join(dir, "jetstream", "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(dir, "jetstream", "msgs", "1.blk")
	if err := os.WriteFile(block, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(block, 4<<30); err != nil { // holes
		t.Fatal(err)
	}
	if got, want := s.startLimit(), 129*time.Second; got != want {
		t.Errorf("4 GiB have %v, want %v", got, want)
	}
}
