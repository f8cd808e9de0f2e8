package relay

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/events/natsd/natsdtest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// serverConfig names the configuration file with which this test binary is a NATS server of its own.
const serverConfig = "DOORBELL_TEST_SERVER_CONFIG"

// serve is a stock server, with nothing of ours. It ends with its standard input.
func serve(file string) {
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

// process is a server that can be killed, and the connections to it that trigger the kill.
type process struct {
	t      testing.TB
	folder string
	port   int

	mu    sync.Mutex
	cmd   *exec.Cmd
	left  int // bytes that may still be written to the server before it is killed; 0: it lives
	kills int
}

// startProcess starts a server with JetStream, a free port and further settings.
func startProcess(t testing.TB, settings ...string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &process{t: t, folder: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	text := fmt.Sprintf("listen: 127.0.0.1:%d\njetstream { store_dir: %q, sync_interval: always }\n%s",
		p.port, filepath.Join(p.folder, "js"), strings.Join(settings, "\n"))
	must(t, os.WriteFile(filepath.Join(p.folder, "server.conf"), []byte(text), 0o600))
	t.Cleanup(p.kill)
	p.start()
	return p
}

// start starts the server again where it was.
func (p *process) start() {
	p.t.Helper()
	must(p.t, natsdtest.AwaitPort("127.0.0.1", p.port))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverConfig+"="+filepath.Join(p.folder, "server.conf"))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // ends with us, should we be killed
		p.t.Fatal(err)
	}
	must(p.t, cmd.Start())
	eventually(p.t, "the server listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(p.port))
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

// Write kills the server once it has been sent n bytes, of which it may have read some.
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

// bell has a connection whose writes kill the server.
func (p *process) bell() *bell {
	p.t.Helper()
	nc, err := nats.Connect("nats://127.0.0.1:"+strconv.Itoa(p.port), nats.SetCustomDialer(p), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // broken pipes are what this is about
	must(p.t, err)
	return bellOn(p.t, nc)
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
	if err := b.relay().RunOnce(t.Context()); !errors.Is(err, ErrNoStream) {
		t.Fatalf("missing stream: %v", err)
	}
	b.o.Manage = true
	b.deliver()
	b.o.MaxAge = time.Hour
	r := b.relay()
	must(t, r.RunOnce(t.Context()))
	if age := b.stream().CachedInfo().Config.MaxAge; age != 0 {
		t.Fatalf("the external stream was changed: max age %s", age)
	}
}
