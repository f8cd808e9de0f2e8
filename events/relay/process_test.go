package relay

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"doorbell/events/stream"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The test binary is a NATS server of its own where this names its folder, and serverPort the port.
const (
	serverFolder = "DOORBELL_TEST_SERVER"
	serverPort   = "DOORBELL_TEST_SERVER_PORT"
	serverConfig = "DOORBELL_TEST_SERVER_CONFIG" // or this its configuration file
)

// serveConfigured is the server as its own binary would be, with a configuration file. It ends with its standard input.
func serveConfigured(file string) {
	o, err := server.ProcessConfigFile(file)
	if err == nil {
		o.NoSigs, o.NoLog = true, true
		var s *server.Server
		if s, err = server.NewServer(o); err == nil {
			s.Start()
			_, _ = io.Copy(io.Discard, os.Stdin)
			s.Shutdown()
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serve is a stock server, with nothing of ours: it ends with its standard input.
func serve(folder string) {
	port, _ := strconv.Atoi(os.Getenv(serverPort))
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: folder, SyncAlways: true,
	})
	if err == nil {
		s.Start()
		if !s.ReadyForConnections(20 * time.Second) {
			err = fmt.Errorf("not ready")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
}

// process is a server that can be killed, and the connections to it that trigger the kill.
type process struct {
	t      testing.TB
	folder string
	port   int
	// command runs a binary that says nothing of itself; nil: this test binary, which says its port.
	command func() *exec.Cmd

	mu    sync.Mutex
	cmd   *exec.Cmd
	left  int // bytes that may still be written to the server before it is killed; 0: it lives
	kills int
}

func startProcess(t testing.TB) *process {
	t.Helper()
	p := &process{t: t, folder: t.TempDir(), port: server.RANDOM_PORT}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.t.Helper()
	if p.command != nil {
		p.startBinary()
		return
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverFolder+"="+p.folder, serverPort+"="+strconv.Itoa(p.port))
	if _, err := cmd.StdinPipe(); err != nil { // ends with us, should we be killed
		p.t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.t.Fatal("the server did not start")
	}
	if _, err := fmt.Sscan(line, &p.port); err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.cmd = cmd
	p.mu.Unlock()
}

func (p *process) startBinary() {
	p.t.Helper()
	cmd := p.command()
	if _, err := cmd.StdinPipe(); err != nil { // ends with us, should we be killed
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(p.port)
	eventually(p.t, "the server listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	p.mu.Lock()
	p.cmd = cmd
	p.mu.Unlock()
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killLocked()
}

func (p *process) killLocked() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
	p.kills++
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// Dial implements nats.CustomDialer.
func (p *process) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &deadlyConn{Conn: c, p: p}, nil
}

type deadlyConn struct {
	net.Conn
	p *process
}

// Write kills the server once it has been given so many bytes, of which it may have read some.
func (c *deadlyConn) Write(b []byte) (int, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.left > 0 {
		if len(b) >= c.p.left {
			_, _ = c.Conn.Write(b[:c.p.left])
			c.p.left = 0
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond) // anywhere in what it does with them
			c.p.killLocked()
			return 0, net.ErrClosed
		}
		c.p.left -= len(b)
	}
	return c.Conn.Write(b)
}

func (p *process) bell() *bell {
	p.t.Helper()
	b := &bell{t: p.t, log: newMemLog()}
	var err error
	b.nc, err = nats.Connect("nats://127.0.0.1:"+strconv.Itoa(p.port), nats.SetCustomDialer(p), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // broken pipes are what this is about
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(b.nc.Close)
	b.js, _ = jetstream.New(b.nc)
	b.o = Options{
		Log: b.log, Conn: stream.Conn{Conn: b.nc}, Prefix: "listings", Stream: "LISTINGS", Manage: true, AckWait: 2 * time.Second,
	}
	return b
}

func TestAServerThatIsKilledAnywhereGetsEveryEventOnce(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	b := p.bell()
	stop := b.start(b.relay())
	b.log.ring(t, "A100", 1)
	b.log.ring(t, "B200", 1)
	eventually(t, "published", func() bool { return b.published("A100") && b.published("B200") })
	for range 4 * *rounds {
		p.mu.Lock()
		p.left = 1 + rand.IntN(100_000)
		p.mu.Unlock()
		b.log.ring(t, "A100", 120)
		b.log.ring(t, "B200", 5)
		eventually(t, "killed", func() bool { return !p.alive() || b.published("A100") && b.published("B200") })
		if !p.alive() {
			p.start()
		}
		eventually(t, "published", func() bool { return b.published("A100") && b.published("B200") })
	}
	stop()
	if p.kills < 2**rounds {
		t.Fatalf("only %d kills", p.kills)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, b.log, "B200", 0)
}

func TestAnExternalStreamIsMadeWhenMissingAndNeverChanged(t *testing.T) {
	p := startProcess(t)
	b := p.bell()
	b.o.Manage = false
	b.log.ring(t, "A100", 1)
	if err := b.relay().RunOnce(t.Context()); !isErr(err, ErrNoStream) {
		t.Fatalf("missing stream: %v", err)
	}
	b.o.Manage = true
	b.deliver()
	b.o.MaxAge = time.Hour
	r := b.relay()
	if err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f, err := Check(t.Context(), b.o); err != nil || len(f.Different) != 2 || f.Different[0] != "max age is 0s, should be 1h0m0s" {
		t.Fatalf("differences %q, %v", f.Different, err)
	}
	if age := b.stream().CachedInfo().Config.MaxAge; age != 0 {
		t.Fatalf("the external stream was changed: max age %s", age)
	}
}
