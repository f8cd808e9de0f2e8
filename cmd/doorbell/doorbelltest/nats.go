package doorbelltest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/events/natsd/natsdtest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// maxFar is what the streams of a server may reserve. Without it, that is a part of what is free,
// which the default of a stream may exceed.
const maxFar = 64 << 30

// startNATS starts a server with JetStream in a folder.
func startNATS(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	o.NoSigs, o.NoLog, o.JetStreamMaxStore = true, true, maxFar
	s, err := server.NewServer(&o)
	must(t, err)
	s.Start()
	if !s.ReadyForConnections(Patience) {
		t.Fatal("the server does not start")
	}
	return s
}

// NatsServer is an external server, until the end of the test.
func NatsServer(t *testing.T, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: ShortDir(t)}
	for _, c := range change {
		c(&o)
	}
	s := startNATS(t, o)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func StreamOf(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	s, err := js.Stream(t.Context(), "LISTINGS")
	must(t, err)
	return s
}

// StartNATS starts an external server without limits for its clients.
func StartNATS(t *testing.T, port int) string {
	t.Helper()
	return NatsServer(t, func(o *server.Options) { o.Port = port }).ClientURL()
}

// FreePort is a port of 127.0.0.1 on which nothing listens, below those from which the system takes one
// for connections: so none of those takes it before it is used.
func FreePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(12_000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// NextOf takes one message from a durable consumer and acknowledges it.
func NextOf(t *testing.T, c jetstream.Consumer) Arrival {
	t.Helper()
	m, err := c.Next(jetstream.FetchMaxWait(Patience))
	must(t, err)
	must(t, m.Ack())
	return Received(t, m)
}

// FarServer is a stock server with nothing of ours that runs on one folder and port again and
// again.
type FarServer struct {
	Folder, copied string
	host           string
	port           int
	Sync           bool // each message
	running        *server.Server
}

func StartFar(t *testing.T) *FarServer {
	t.Helper()
	dir := t.TempDir()
	f := &FarServer{Folder: filepath.Join(dir, "far"), copied: filepath.Join(dir, "copied"), host: natsdtest.Loopback(), port: server.RANDOM_PORT}
	f.Start(t)
	t.Cleanup(f.Stop)
	return f
}

func (f *FarServer) Start(t *testing.T) {
	t.Helper()
	if f.port != server.RANDOM_PORT {
		must(t, natsdtest.AwaitPort(f.host, f.port))
	}
	f.running = startNATS(t, server.Options{Host: f.host, Port: f.port, JetStream: true, StoreDir: f.Folder, SyncAlways: f.Sync})
	if a, ok := f.running.Addr().(*net.TCPAddr); ok {
		f.port = a.Port
	}
}

func (f *FarServer) Stop() {
	f.running.Shutdown()
	f.running.WaitForShutdown()
}

func (f *FarServer) URL() string { return fmt.Sprintf("nats://%s:%d", f.host, f.port) }

// Suffer makes one incident happen to the server: it is restarted, loses its stream, or its folder, or
// everything since that was copied.
func (f *FarServer) Suffer(t *testing.T, what string) {
	t.Helper()
	if what == "delete" {
		_, js := Connected(t, f.URL())
		_ = js.DeleteStream(t.Context(), "LISTINGS") // perhaps it is not there again yet
		return
	}
	f.Stop()
	var err error
	_, none := os.Stat(f.copied)
	switch {
	case what == "lose":
		err = f.remove()
	case what == "copy" && none != nil || what == "cut" && none != nil:
		err = os.CopyFS(f.copied, os.DirFS(f.Folder))
	case what == "cut":
		if err = f.remove(); err == nil {
			err = os.Rename(f.copied, f.Folder)
		}
	}
	must(t, err)
	time.Sleep(rand.N(300 * time.Millisecond))
	f.Start(t)
}

// remove removes the folder immediately: a goroutine of the stopped server may still make the folder
// of a batch in it.
func (f *FarServer) remove() error {
	gone, err := os.MkdirTemp(filepath.Dir(f.Folder), "gone")
	if err != nil {
		return err
	}
	defer os.RemoveAll(gone) // or at the end of the test
	return os.Rename(f.Folder, filepath.Join(gone, "far"))
}
