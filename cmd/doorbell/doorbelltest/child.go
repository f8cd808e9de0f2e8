package doorbelltest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
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
	"doorbell/events/helptest"
	"doorbell/events/natsd/natsdtest"
)

var must = helptest.Must

// Patience is how long a test waits for another process before it calls it broken: it only ends a
// hang, on a machine however busy.
const Patience = 2 * time.Minute

// Program is doorbell as a function; see cli.Main.
type Program func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int

// RunTests is the TestMain of a package of whole-program tests. A test binary that is started under
// the name doorbell is the program, so that nothing is compiled or linked twice: process is
// [cli.Process].
//
// All tests of the package get one temporary directory. It is in memory, unless TMPDIR says
// otherwise or there is no room: here processes end, never the machine. What is measured, or piles
// up a million events, needs a disk (onDisk).
func RunTests(m *testing.M, process func() int, program Program, onDisk bool) {
	if name := filepath.Base(os.Args[0]); strings.HasPrefix(name, "doorbell") && !strings.HasSuffix(name, ".test") {
		os.Exit(process())
	}
	underTest = program
	natsdtest.Parallel(4, 16) // most tests wait: for NATS, leases, drains and the ends of processes
	debug.SetGCPercent(200)   // a tenth of the time would go into garbage
	memory := natsdtest.InMemory()
	if onDisk || natsdtest.Given("test.bench") {
		memory = ""
	} else if os.Getenv("GOGC") == "" {
		os.Setenv("GOGC", "400") // of the children: no test here measures their memory
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

// Child is a doorbell in a process of its own whose output can be read while it runs. It is killed
// at the end of the test.
type Child struct {
	Cmd            *exec.Cmd
	Stdout, Stderr Transcript
	Gone           chan struct{} // closed when it has ended
}

func Launch(t testing.TB, environ []string, args ...string) *Child {
	t.Helper()
	return LaunchAs(t, nil, environ, args...)
}

// LaunchAs runs it as another user; nil for the one of the test.
func LaunchAs(t testing.TB, user *syscall.Credential, environ []string, args ...string) *Child {
	t.Helper()
	program := Binary(t)
	if user != nil {
		program = copyForOthers(t)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = environ
	cmd.Dir = os.TempDir() // not here, should it write to ./data
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	return Begin(t, cmd).TellingNobody(t, args)
}

// Begin starts a command that the caller ends.
func Begin(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	c := &Child{Cmd: cmd, Gone: make(chan struct{})}
	c.Stdout.Grown, c.Stderr.Grown = make(chan struct{}, 1), make(chan struct{}, 1)
	cmd.Stdout, cmd.Stderr = &c.Stdout, &c.Stderr
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	must(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the exit code tells
		close(c.Gone)
	}()
	return c
}

// TellingNobody kills a doorbell at the end of the test, and looks for people in what it has
// printed.
func (c *Child) TellingNobody(t testing.TB, args []string) *Child {
	t.Cleanup(func() {
		_ = c.Cmd.Process.Kill() // mostly it has ended already
		<-c.Gone
		tellsNobody(t, args, c.Stdout.String(), c.Stderr.String())
	})
	return c
}

// Exit waits for the end and returns the exit code; -1 after a signal.
func (c *Child) Exit(t testing.TB) int {
	t.Helper()
	select {
	case <-c.Gone:
		return c.Cmd.ProcessState.ExitCode()
	case <-time.After(Patience):
		t.Fatalf("it does not end:\n%s\n%s", c.Stdout.String(), c.Stderr.String())
		return 0
	}
}

// End sends a signal and waits for the exit code.
func (c *Child) End(t testing.TB, signal os.Signal) int {
	t.Helper()
	if err := c.Cmd.Process.Signal(signal); err != nil {
		t.Fatalf("it had ended by itself: %v\n%s", err, c.Stderr.String())
	}
	return c.Exit(t)
}

// Stop ends it as a supervisor would and wants exit code 0.
func (c *Child) Stop(t testing.TB) {
	t.Helper()
	if code := c.End(t, syscall.SIGTERM); code != exit.Done {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, c.Stderr.String())
	}
}

// Transcript is output that can be waited for.
type Transcript struct {
	mu    sync.Mutex
	text  bytes.Buffer
	Grown chan struct{} // nil: no caller waits
}

func (w *Transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.Grown <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *Transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// Reset forgets what was written.
func (w *Transcript) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
}

// Await waits for a text that fits the pattern and returns its groups. Only one goroutine may wait.
func (w *Transcript) Await(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(Patience)
	for {
		if m := re.FindStringSubmatch(w.String()); m != nil {
			return m
		}
		select {
		case <-w.Grown:
		case <-deadline:
			t.Fatalf("nothing like %s was printed:\n%s", pattern, w.String())
		}
	}
}

// Eventually polls: what it waits for happens in another process, which gives no signal.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, Patience, what, ok)
}

// Within is Eventually with a limit of its own. A check may be a process: the next one waits
// three times as long as it took, so that they do not keep the machine busy.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) {
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

// Tree is everything in a directory: names and contents.
func Tree(t *testing.T, dir string) map[string]string {
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
	must(t, err)
	return files
}

// Has fails the test unless all words are in the text.
func Has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}
