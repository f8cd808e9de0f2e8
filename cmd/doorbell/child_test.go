package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/events/natsd/natsdtest"
	"doorbell/poller/sandbox"
)

// patience is how long a test waits for another process before it calls it broken: it only ends a hang, on a machine however busy.
const patience = 2 * time.Minute

// TestMain gives all tests of this package one temporary directory, so that the built program goes with them. It is in memory,
// unless TMPDIR says otherwise or there is no room: here processes end, and never the machine; the test in which the power fails has a
// file system of its own. What is measured, or piles up a million events, needs a disk.
func TestMain(m *testing.M) {
	if asVerifier() {
		return
	}
	if size := os.Getenv(cheapInsertions); size != "" {
		serveCheaply(size)
		return
	}
	if dir := os.Getenv(latencyLimit); dir != "" {
		fmt.Fprintln(os.Stderr, commitAndPublish(dir))
		os.Exit(1)
	}
	if os.Getenv(backlogDaemon) != "" {
		if err := runWithBacklog(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	natsdtest.Parallel(4, 8)
	debug.SetGCPercent(200) // a tenth of the time would go into garbage
	memory := inMemory()
	if natsdtest.Given("test.bench") || natsdtest.Given("backlog") {
		memory = ""
	}
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("TMPDIR"), memory), "dbt")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// child is a doorbell in a process of its own whose output can be read while it runs. It is killed at the end of the test.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr transcript
	gone           chan struct{} // closed when it has ended
}

func launch(t testing.TB, environ []string, args ...string) *child {
	t.Helper()
	return launchAs(t, nil, environ, args...)
}

// launchAs runs it as another user; nil for the one of the test.
func launchAs(t testing.TB, user *syscall.Credential, environ []string, args ...string) *child {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	cmd.Env = environ
	cmd.Dir = os.TempDir() // not here, should it write to ./data
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	return begin(t, cmd).tellingNobody(t, args)
}

// begin starts a command that somebody else ends.
func begin(t testing.TB, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{cmd: cmd, gone: make(chan struct{})}
	c.stdout.grown, c.stderr.grown = make(chan struct{}, 1), make(chan struct{}, 1)
	cmd.Stdout, cmd.Stderr = &c.stdout, &c.stderr
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the exit code says it
		close(c.gone)
	}()
	return c
}

// tellingNobody kills a doorbell at the end of the test, and looks for people in what it has printed.
func (c *child) tellingNobody(t testing.TB, args []string) *child {
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // mostly it has ended already
		<-c.gone
		tellsNobody(t, args, c.stdout.String(), c.stderr.String())
	})
	return c
}

// exit waits for the end and returns the exit code; -1 after a signal.
func (c *child) exit(t testing.TB) int {
	t.Helper()
	select {
	case <-c.gone:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("it does not end:\n%s\n%s", c.stdout.String(), c.stderr.String())
		return 0
	}
}

// end sends a signal and waits for the exit code.
func (c *child) end(t testing.TB, signal os.Signal) int {
	t.Helper()
	if err := c.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("it had ended by itself: %v\n%s", err, c.stderr.String())
	}
	return c.exit(t)
}

// stop ends it as a supervisor would and wants exit code 0.
func (c *child) stop(t testing.TB) {
	t.Helper()
	if code := c.end(t, syscall.SIGTERM); code != exit.Done {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, c.stderr.String())
	}
}

// transcript is output that can be waited for.
type transcript struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{}
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.grown <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// reset forgets what was written.
func (w *transcript) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
}

// await waits for a text that fits the pattern and returns its groups. Only one goroutine may wait.
func (w *transcript) await(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for {
		if m := re.FindStringSubmatch(w.String()); m != nil {
			return m
		}
		select {
		case <-w.grown:
		case <-deadline:
			t.Fatalf("nothing like %s was printed:\n%s", pattern, w.String())
		}
	}
}

// eventually polls: what it waits for happens in another process, which gives no signal.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, patience, what, ok)
}

// within is eventually with a limit of its own. A question may be a process: the next one waits three times as long as it took, so that
// they do not keep the machine busy.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; {
		asked := time.Now()
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", limit, what)
		}
		time.Sleep(min(max(10*time.Millisecond, 3*time.Since(asked)), time.Second/5)) // another process gives no signal
	}
}

// api is `doorbell sandbox` in a process of its own, at rest but for what a test does to it.
type api struct{ url, control string }

func startAPI(t *testing.T) api {
	t.Helper()
	c := launch(t, nil, "sandbox", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--insertions", "3", "--history", "2",
		"--contact-requests-per-minute", "0", "--changes-per-minute", "0")
	found := c.stdout.await(t, `(?s)API is at (http://\S+), for.*curl (http://\S+)/truth`)
	return api{url: found[1], control: found[2]}
}

// change posts to the control and returns the answer.
func (a api) change(t *testing.T, path string, body map[string]any) map[string]any {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(a.control+path, "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v %v", path, response.Status, answer, err)
	}
	return answer
}

// read gets what the control tells.
func (a api) read(t *testing.T, path string, into any) {
	t.Helper()
	response, err := http.Get(a.control + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// asked is how many requests it has answered for the agency.
func (a api) asked(t *testing.T, agency string) (n int) {
	t.Helper()
	var counts []sandbox.Count
	a.read(t, "/requests", &counts)
	for _, c := range counts {
		if c.AgencyID == agency {
			n += c.Requests
		}
	}
	return n
}

// tree is everything in a directory: names and contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			files[path] = d.Type().String()
			return nil
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// has fails the test unless all words are in the text.
func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}
