package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events/natsd/natsdtest"
	"doorbell/schemas/skiptest"
)

const feedToken = "feed-0123456789abcdef"

// heard is an event as a reader of the feed received it.
type heard struct {
	ID   string
	Data any
}

// reader is a program that reads the feed, and continues at its cursor after it was killed.
type reader interface {
	start(t *testing.T)
	kill()
	heard(t *testing.T) []heard // in all its lives
}

// TestTheFeedMissesNothing kills the daemon and those who read its feed, in turn and together, and
// loses the store, while leads go on. Each reader then has every event of the stream, whatever it
// got twice. The long form is
// `go test ./cmd/doorbell/torture -run TestTheFeedMissesNothing -rounds 10 -v`.
func TestTheFeedMissesNothing(t *testing.T) {
	t.Parallel()
	b := newLeads(t, 900)
	listen := freeAddress(t)
	feed := "http://" + listen + "/v1/events"
	b.environ = append(b.environ, "DOORBELL_HTTP_LISTEN="+listen, "DOORBELL_FEED_TOKEN="+feedToken)
	readers := map[string]reader{
		"an HTTP client": &client{feed: feed},
		"Python":         scriptOf(t, feed, "python3", "../../../schemas/feed.py"),
		"a shell":        scriptOf(t, feed, "sh", "../../../schemas/feed.sh", "curl", "jq"),
	}
	for _, r := range readers {
		r.start(t)
		t.Cleanup(r.kill)
	}
	b.launch(0)
	b.up(0)
	b.happen([]string{
		"kill reader", "kill", "kill reader", "lose", "kill both", "kill reader", "NATS away", "kill both", "lose", "kill",
	}, func(what string) {
		b.goesOn(20 + rand.N(80)) // the moment is the point of the test
		if what == "kill reader" || what == "kill both" {
			for _, r := range readers {
				r.kill()
				r.start(t)
			}
		}
		switch what {
		case "NATS away":
			b.far.Stop()
			b.goesOn(50)
			b.far.Start(t)
		case "kill", "kill both", "lose":
			b.kill(0)
			b.suffer(what, "")
			b.launch(0)
			b.up(0)
		}
	})
	b.judge(0)
	b.launch(0) // the readers catch up
	b.up(0)
	list, err := doorbelltest.ReadStream(t.Context(), b.far.URL())
	must(t, err)
	want := map[string]any{}
	for _, m := range list {
		var data any
		must(t, json.Unmarshal(m.Data, &data))
		want[m.Header.Get("ce-id")] = data
	}
	for name, r := range readers {
		t.Run(name, func(t *testing.T) { mustHaveHeard(t, r, want) })
		r.kill()
	}
	b.doorbells[0].Stop(t)
}

func mustHaveHeard(t *testing.T, r reader, want map[string]any) {
	if s, ok := r.(*script); ok && s.missing {
		skiptest.Skipf(t, "%s is not installed, or what it needs", s.program[0])
	}
	got, times := map[string]any{}, 0
	doorbelltest.Within(t, 60*time.Second, "all events of the stream", func() bool {
		all := r.heard(t)
		times = len(all)
		for _, e := range all {
			got[e.ID] = e.Data
		}
		for id := range want {
			if _, have := got[id]; !have {
				return false
			}
		}
		return true
	})
	for id, data := range want {
		if !reflect.DeepEqual(got[id], data) {
			t.Errorf("event %s has other data", id)
		}
	}
	t.Logf("%d events, %d of them repeated", len(got), times-len(got))
}

// freeAddress is one that a daemon can take again and again: no connection to elsewhere begins at
// its host.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", natsdtest.Loopback()+":0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// script is a program in a process group of its own. Each of its lives writes to a file of its own,
// whose last line may be cut.
type script struct {
	feed, dir string
	program   []string
	lives     int
	running   *exec.Cmd
	missing   bool // it, or what it needs
}

func scriptOf(t *testing.T, feed, interpreter, path string, needs ...string) *script {
	s := &script{feed: feed, dir: t.TempDir(), program: []string{interpreter, path}}
	s.missing = slices.ContainsFunc(append(needs, interpreter), func(name string) bool {
		_, err := exec.LookPath(name)
		return err != nil
	})
	return s
}

func (s *script) start(t *testing.T) {
	t.Helper()
	if s.missing {
		return
	}
	s.lives++
	out, err := os.Create(filepath.Join(s.dir, fmt.Sprint(s.lives, ".jsonl")))
	must(t, err)
	defer out.Close()
	cmd := exec.Command(s.program[0], s.program[1], filepath.Join(s.dir, "cursor"))
	cmd.Env = append(os.Environ(), "FEED="+s.feed, "TOKEN="+feedToken, "PAUSE=0.05", "TMPDIR="+s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout = out
	must(t, cmd.Start())
	s.running = cmd
}

func (s *script) kill() {
	if s.running != nil {
		_ = syscall.Kill(-s.running.Process.Pid, syscall.SIGKILL)
		_ = s.running.Wait()
		s.running = nil
	}
}

func (s *script) heard(t *testing.T) (all []heard) {
	t.Helper()
	for n := range s.lives {
		text, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprint(n+1, ".jsonl")))
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if !strings.HasSuffix(line, "\n") { // it was cut
				break
			}
			var e heard
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("a line of %d bytes: %v", len(line), err)
			}
			all = append(all, e)
		}
	}
	return all
}

// client is a reader in this process. It is killed between what it got and what it remembers.
type client struct {
	feed string
	stop func()

	cursor string

	mu  sync.Mutex
	all []heard
}

func (c *client) start(*testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var life sync.WaitGroup
	life.Go(func() {
		for ctx.Err() == nil {
			if err := c.ask(ctx); err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
	})
	c.stop = func() { stop(); life.Wait() }
}

func (c *client) kill() { c.stop() }

func (c *client) ask(ctx context.Context) error {
	q := url.Values{"timeout": {"10s"}, "limit": {"20"}, "after": {c.cursor}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.feed+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+feedToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", answer.Status, err)
	}
	var list []heard
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, list...)
	if ctx.Err() == nil { // or it was killed before it could remember
		c.cursor = answer.Header.Get("doorbell-feed-cursor")
	}
	return nil
}

func (c *client) heard(*testing.T) []heard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]heard(nil), c.all...)
}
