package main

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
)

var kills = flag.Int("kills", 30, "how many times the daemon is killed")

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "doorbell")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "doorbell")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return path, err
})

// binary builds the program as a user would, once for all tests.
func binary(t testing.TB) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a doorbell of its own.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan error
}

// shortDir is a directory with a path that is short enough for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func start(t testing.TB, environ []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary(t), args...), ended: make(chan error, 1)}
	p.cmd.Env = environ
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("the daemon had ended by itself: %v\n%s", <-p.ended, p.stderr.String())
	}
	<-p.ended
}

// stop ends the process as a supervisor would and wants exit code 0.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, p.stderr.String())
	}
}

// natsURL waits until the daemon answers at its socket and returns where its NATS listens.
func natsURL(t testing.TB, dir string) string {
	t.Helper()
	client := ops.NewClient(filepath.Join(dir, socketFile))
	url := ""
	eventually(t, "an answer at the socket", func() bool {
		s, err := client.Status(t.Context())
		url = s.NATS.URL
		return err == nil && url != ""
	})
	return url
}

func runEnviron(dir, api, key string, agencies ...string) []string {
	return []string{
		"DOORBELL_DATA_DIR=" + dir, "DOORBELL_BASE_URL=" + api, "DOORBELL_API_KEY=" + key,
		"DOORBELL_AGENCIES=" + strings.Join(agencies, ","), "DOORBELL_NATS_LISTEN=127.0.0.1:0",
		"DOORBELL_REQUESTS_PER_SECOND=1000", "DOORBELL_POLL_INTERVAL=100ms", "DOORBELL_WALK_INTERVAL=150ms",
	}
}

// firstStarts is how many of the kills hit the very first start.
const firstStarts = 4

const testKey = "11111111-2222-4333-8444-sentinel0key"

// TestKillingTheDaemonAtRandomLosesAndDoublesNothing kills the real process while the API keeps moving, again and again,
// and then holds the stream against the truth. `go test ./cmd/doorbell -run TestKilling -kills 200` is the long form.
func TestKillingTheDaemonAtRandomLosesAndDoublesNothing(t *testing.T) {
	for _, rendering := range sandbox.Renderings() {
		t.Run(rendering.Name, func(t *testing.T) { killAtRandom(t, rendering, *kills/len(sandbox.Renderings())) })
	}
}

func killAtRandom(t *testing.T, rendering sandbox.Rendering, times int) {
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	agencies := []string{"A100", "B200"}
	g := sandbox.NewGenerator(model, sandbox.GeneratorOptions{
		Seed: 1, Agencies: agencies, Insertions: 30, History: 3, ContactRequestsPerMinute: 6000, ChangesPerMinute: 600,
	})
	g.Seed()
	model.AddKey(testKey, agencies...)
	api := httptest.NewServer(sandbox.New(model, rendering))
	defer api.Close()
	dir := shortDir(t)
	// So much changes here that, where a slow machine brings no complete walk for long, it is held as too large to believe.
	environ := append(runEnviron(dir, api.URL, testKey, agencies...), "DOORBELL_HOLD_FOR=2s")

	o := oracle{model: model, from: time.Now().Truncate(time.Second)} // an answer tells times in whole seconds
	moving, rest := context.WithCancel(t.Context())
	var world sync.WaitGroup
	world.Go(func() { g.Run(moving) })
	var output bytes.Buffer
	for n := range times {
		p := start(t, environ, "run")
		if n == firstStarts {
			natsURL(t, dir)
			o.until = time.Now() // the watch has begun by now, in this life or before
		}
		life := 500 * time.Millisecond
		if n < firstStarts {
			life = 60 * time.Millisecond // while store and stream are made
		}
		time.Sleep(rand.N(life)) // the moment of the kill is the point of the test
		p.kill(t)
		output.Write(p.stderr.Bytes())
	}
	last := start(t, environ, "run")
	url := natsURL(t, dir)
	if o.until.IsZero() {
		o.until = time.Now()
	}
	rest()
	world.Wait()
	all := o.mustKeepItsPromises(t, url, 60*time.Second)
	last.stop(t)
	output.Write(last.stderr.Bytes())
	for _, secret := range []string{testKey, sandbox.Marker} {
		if strings.Contains(output.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	t.Logf("%d kills, %d events", times, len(all))
}
