package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"doorbell/events/natsd/natsdtest"
	"doorbell/poller/sandbox"
)

var externalRounds = flag.Int("external.rounds", 10, "how many things happen to the external server of TestWhateverHappensToAnExternalServer")

// farServer is a stock server with nothing of ours that runs on one folder and port again and again.
type farServer struct {
	folder, copied string
	host           string
	port           int
	sync           bool // each message
	running        *server.Server
}

// maxFar is what the streams of a server may reserve. Without it, that is a part of what is free, which the default of a stream may exceed.
const maxFar = 64 << 30

func startFar(t *testing.T) *farServer {
	t.Helper()
	dir := t.TempDir()
	f := &farServer{folder: filepath.Join(dir, "far"), copied: filepath.Join(dir, "copied"), host: natsdtest.Loopback(), port: server.RANDOM_PORT}
	f.start(t)
	t.Cleanup(f.stop)
	return f
}

func (f *farServer) start(t *testing.T) {
	t.Helper()
	if f.port != server.RANDOM_PORT {
		if err := natsdtest.AwaitPort(f.host, f.port); err != nil {
			t.Fatal(err)
		}
	}
	s, err := server.NewServer(&server.Options{
		Host: f.host, Port: f.port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: f.folder, JetStreamMaxStore: maxFar, SyncAlways: f.sync,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the external server does not start")
	}
	if a, ok := s.Addr().(*net.TCPAddr); ok {
		f.port = a.Port
	}
	f.running = s
}

func (f *farServer) stop() {
	f.running.Shutdown()
	f.running.WaitForShutdown()
}

func (f *farServer) url() string { return fmt.Sprintf("nats://%s:%d", f.host, f.port) }

// TestWhateverHappensToAnExternalServerNothingIsLostOrDoubled restarts it, takes the end of the stream away, deletes the
// stream or all of them, and kills the daemon, while the API keeps moving. The long form is
// `go test ./cmd/doorbell -run TestWhateverHappens -external.rounds 300 -v`.
func TestWhateverHappensToAnExternalServerNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	far := startFar(t)
	b := newRestless(t, 1, sandbox.Flat(), shortDir(t), 3000)
	b.environ = append(b.environ, "NATS_URL="+far.url())
	p := launch(t, b.environ, "run")
	natsURL(t, b.dir)
	b.begun()
	done := map[string]int{}
	happenings := []string{"restart", "restart", "copy", "cut", "cut", "delete", "delete", "lose", "kill", "kill"}
	begin := time.Now()
	for n := range *externalRounds {
		what := happenings[n%len(happenings)] // all of them, in any order
		if n%len(happenings) == 0 {
			rand.Shuffle(len(happenings), func(i, j int) { happenings[i], happenings[j] = happenings[j], happenings[i] })
			what = happenings[0]
		}
		time.Sleep(rand.N(600 * time.Millisecond)) // the moment is the point of the test
		done[what]++
		if what == "kill" {
			p.end(t, syscall.SIGKILL)
			if p = launch(t, b.environ, "run"); rand.N(2) == 0 { // or on a busy machine all that follows would hit a start
				natsURL(t, b.dir)
			}
			continue
		}
		far.suffer(t, what)
	}
	events := b.judge(t, p, far.url())
	t.Logf("%v in %s, %d events", done, time.Since(begin).Round(time.Second), events)
}

// suffer lets one thing happen to the server.
func (f *farServer) suffer(t *testing.T, what string) {
	t.Helper()
	if what == "delete" {
		f.deleteStream(t)
		return
	}
	f.stop()
	var err error
	switch _, none := os.Stat(f.copied); {
	case what == "lose":
		err = f.remove()
	case what == "copy" && none == nil:
	case what == "copy" || what == "cut" && none != nil:
		err = os.CopyFS(f.copied, os.DirFS(f.folder))
	case what == "cut": // everything since the copy is gone
		if err = f.remove(); err == nil {
			err = os.Rename(f.copied, f.folder)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(rand.N(300 * time.Millisecond))
	f.start(t)
}

// remove takes the folder away at once: a goroutine of the stopped server may still make the folder of a batch in it.
func (f *farServer) remove() error {
	gone, err := os.MkdirTemp(filepath.Dir(f.folder), "gone")
	if err != nil {
		return err
	}
	defer os.RemoveAll(gone) // or at the end of the test
	return os.Rename(f.folder, filepath.Join(gone, "far"))
}

func (f *farServer) deleteStream(t *testing.T) {
	t.Helper()
	_, js := connected(t, f.url())
	_ = js.DeleteStream(t.Context(), "LISTINGS") // perhaps it is not there again yet
}
