package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
)

var kills = flag.Int("kills", 30, "how many times the daemon is killed")

// builtOnce is the program that binary built, empty if that failed.
var builtOnce struct {
	sync.Once
	path string
}

// binary builds the program as users get it, by the line of the Dockerfile, once for all tests.
func binary(t testing.TB) string {
	t.Helper()
	builtOnce.Do(func() {
		dir, err := os.MkdirTemp("", "doorbell")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "doorbell")
		line := buildLine(t, path)
		if exec.Command("git", "-C", top, "status").Run() != nil {
			line = strings.Replace(line, "-buildvcs=auto", "-buildvcs=false", 1) // a tree that git does not trust
		}
		build := exec.Command("sh", "-ec", line)
		build.Dir = top
		build.Env = append(os.Environ(), "GOFLAGS=", "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		builtOnce.path = path
	})
	if builtOnce.path == "" {
		t.Fatal("the program was not built: the first test that uses it says why")
	}
	return builtOnce.path
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

// natsURL waits until the daemon answers at its socket and returns where its NATS listens.
func natsURL(t testing.TB, dir string) string {
	t.Helper()
	client := ops.NewClient(filepath.Join(dir, daemon.SocketFile))
	url := ""
	eventually(t, "an answer at the socket", func() bool {
		s, err := client.Status(t.Context())
		url = s.NATS.URL
		statusHoldsNobody(t, s)
		return err == nil && url != ""
	})
	return url
}

func runEnviron(dir, api, key string, agencies ...string) []string {
	return []string{
		"DOORBELL_DATA_DIR=" + dir, "DOORBELL_BASE_URL=" + api, "DOORBELL_API_KEY=" + key,
		"DOORBELL_AGENCIES=" + strings.Join(agencies, ","), "DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=127.0.0.1:0",
		"DOORBELL_REQUESTS_PER_SECOND=1000", "DOORBELL_POLL_INTERVAL=100ms", "DOORBELL_WALK_INTERVAL=150ms",
	}
}

// firstStarts is how many of the kills hit the very first start.
const firstStarts = 4

const testKey = "11111111-2222-4333-8444-sentinel0key"

// killsInAScene is how many daemons live on one data directory before it is judged.
const killsInAScene = 50

// TestKillingTheDaemonAtRandomLosesAndDoublesNothing kills the real process while the API keeps moving, again and again,
// and then holds the stream against the truth. It runs beside no other test, which would have most kills hit a start.
// `go test ./cmd/doorbell -run TestKilling -kills 1000 -v` is the long form.
func TestKillingTheDaemonAtRandomLosesAndDoublesNothing(t *testing.T) {
	renderings := []sandbox.Rendering{sandbox.Flat(), sandbox.Nested()}
	times := make([]int, max(len(renderings), (*kills+killsInAScene-1)/killsInAScene))
	for n := range *kills {
		times[n%len(times)]++
	}
	list := make([]int, len(times))
	for n := range list {
		list[n] = n
	}
	begin, events := time.Now(), atomic.Int64{}
	atOnce(min(*scenes, len(list)), list, func(n int) {
		r := renderings[n%len(renderings)]
		t.Run(fmt.Sprintf("%d %s", n+1, r.Name), func(t *testing.T) {
			events.Add(int64(killAtRandom(t, uint64(n+1), r, times[n])))
		})
	})
	t.Logf("%d kills in %d scenes, %d events, %.0f kills a minute", *kills, len(list), events.Load(), float64(*kills)/time.Since(begin).Minutes())
}

func killAtRandom(t *testing.T, seed uint64, r sandbox.Rendering, times int) (events int) {
	dir := shortDir(t)
	b := newRestless(t, seed, r, dir, 1200)
	for n := range times {
		p := launch(t, b.environ, "run")
		if n == firstStarts {
			natsURL(t, dir)
			b.begun() // in this life or before
		}
		life := 500 * time.Millisecond
		if n < firstStarts {
			life = 60 * time.Millisecond // while store and stream are made
		}
		time.Sleep(rand.N(life)) // the moment of the kill is the point of the test
		p.end(t, syscall.SIGKILL)
	}
	last := launch(t, b.environ, "run")
	url := natsURL(t, dir)
	b.begun()
	return b.judge(t, last, url)
}
