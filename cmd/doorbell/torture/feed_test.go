package torture

import (
	"bufio"
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
	"sync"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events/natsd/natsdtest"
	"doorbell/poller/sandbox"
	"doorbell/schemas/skiptest"
)

const feedToken = "feed-0123456789abcdef"

// heard is an event as a reader of the feed got it.
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

// TestTheFeedMissesNothing kills the daemon and those who read its feed, in turn and together, and loses the store, while leads go
// on. Each reader then has every event of the stream, whatever it got twice. The long form is
// `go test ./cmd/doorbell/torture -run TestTheFeedMissesNothing -rounds 10 -v`.
func TestTheFeedMissesNothing(t *testing.T) {
	t.Parallel()
	far := doorbelltest.StartFar(t)
	b := doorbelltest.NewLeads(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 900)
	listen := freeAddress(t)
	feed := "http://" + listen + "/v1/events"
	b.Environ = append(b.Environ, "NATS_URL="+far.URL(), "DOORBELL_HTTP_LISTEN="+listen, "DOORBELL_FEED_TOKEN="+feedToken)
	readers := map[string]reader{"an HTTP client": &client{feed: feed}}
	if _, err := exec.LookPath("python3"); err == nil {
		readers["Python"] = &script{feed: feed, dir: t.TempDir(), program: []string{"python3", "../../../schemas/feed.py"}}
	}
	_, noCurl := exec.LookPath("curl")
	if _, err := exec.LookPath("jq"); err == nil && noCurl == nil {
		readers["a shell"] = &script{feed: feed, dir: t.TempDir(), program: []string{"sh", "../../../schemas/feed.sh"}}
	}
	for _, r := range readers {
		r.start(t)
		t.Cleanup(r.kill)
	}
	p := doorbelltest.Launch(t, b.Environ, "run")
	doorbelltest.NatsURL(t, b.Dir)
	b.Begun()
	happenings := []string{"kill reader", "kill", "kill reader", "lose", "kill both", "kill reader", "NATS away", "kill both", "lose", "kill"}
	for n := range len(happenings) * *rounds {
		b.GoesOn(t, 20+rand.N(80)) // the moment is the point of the test
		what := happenings[n%len(happenings)]
		if what == "kill reader" || what == "kill both" {
			for _, r := range readers {
				r.kill()
				r.start(t)
			}
		}
		switch what {
		case "NATS away":
			far.Stop()
			b.GoesOn(t, 50)
			far.Start(t)
		case "kill", "kill both", "lose":
			p.End(t, syscall.SIGKILL)
			if err := suffer(what, filepath.Join(b.Dir, daemon.StoreFile), ""); err != nil {
				t.Fatal(err)
			}
			p = doorbelltest.Launch(t, b.Environ, "run")
			doorbelltest.NatsURL(t, b.Dir)
		}
	}
	events := b.Judge(t, p, far.URL())
	last := doorbelltest.Launch(t, b.Environ, "run") // the readers catch up
	doorbelltest.NatsURL(t, b.Dir)
	defer logIfFailed(t, last)
	want := map[string]any{}
	list, err := doorbelltest.ReadStream(t.Context(), far.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		want[m.Header.Get("ce-id")] = parsed(t, m.Data)
	}
	for _, name := range []string{"an HTTP client", "Python", "a shell"} {
		t.Run(name, func(t *testing.T) {
			r := readers[name]
			if r == nil {
				skiptest.Skipf(t, "python3, or curl and jq, are not installed")
			}
			got := map[string]any{}
			all := []heard(nil)
			doorbelltest.Within(t, 60*time.Second, "all events of the stream", func() bool {
				all = r.heard(t)
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
			t.Logf("%d events of %d, %d of them again", len(got), events, len(all)-len(got))
		})
	}
	for _, r := range readers {
		r.kill()
	}
	last.Stop(t)
}

// freeAddress is one that a daemon can take again and again: no connection to elsewhere begins at its host.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", natsdtest.Loopback()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func parsed(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// script is a program in a process group of its own. Each of its lives writes to a file of its own, whose last line may be cut.
type script struct {
	feed, dir string
	program   []string
	lives     int
	running   *exec.Cmd
}

func (s *script) start(t *testing.T) {
	t.Helper()
	s.lives++
	out, err := os.Create(filepath.Join(s.dir, fmt.Sprint(s.lives, ".jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(s.program[0], append(s.program[1:len(s.program):len(s.program)], filepath.Join(s.dir, "cursor"))...)
	cmd.Env = append(os.Environ(), "FEED="+s.feed, "TOKEN="+feedToken, "PAUSE=0.05", "TMPDIR="+s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
		f, err := os.Open(filepath.Join(s.dir, fmt.Sprint(n+1, ".jsonl")))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for r := bufio.NewReader(f); ; {
			line, err := r.ReadBytes('\n')
			if err != nil { // the end, or a line that was cut
				break
			}
			var e heard
			if err := json.Unmarshal(line, &e); err != nil {
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

	mu     sync.Mutex
	cursor string
	all    []heard
}

func (c *client) start(t *testing.T) {
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
	c.mu.Lock()
	q := url.Values{"timeout": {"10s"}, "limit": {"20"}, "after": {c.cursor}}
	c.mu.Unlock()
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
