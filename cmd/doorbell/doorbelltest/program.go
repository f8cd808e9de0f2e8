// Package doorbelltest runs the whole program for tests, in their process or as one of its own,
// against a made-up API, NATS servers and fakes of the receivers. Its oracle compares the stream
// with what the API knew, and searches every output for marked people and keys.
package doorbelltest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
)

// underTest is what [run] runs.
var underTest Program

// Result is what a run of the whole program left.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs the whole program in this process.
func Run(t *testing.T, environ []string, args ...string) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := underTest(t.Context(), args, strings.NewReader(""), &stdout, &stderr, environ)
	tellsNobody(t, args, stdout.String(), stderr.String())
	return Result{code, stdout.String(), stderr.String()}
}

func (r Result) HoldsNoSecret(t *testing.T) {
	t.Helper()
	if strings.Contains(r.Stdout, Sentinel) || strings.Contains(r.Stderr, Sentinel) {
		t.Errorf("a secret is in the output:\n%s\n%s", r.Stdout, r.Stderr)
	}
}

// named is the directory in which this test binary is called doorbell.
var named = sync.OnceValues(func() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "doorbell")
	if err != nil {
		return "", err
	}
	return dir, os.Symlink(program, filepath.Join(dir, "doorbell"))
})

// Binary is the program as a file named doorbell: this test binary, see [RunTests].
func Binary(t testing.TB) string {
	t.Helper()
	dir, err := named()
	must(t, err)
	return filepath.Join(dir, "doorbell")
}

// copyForOthers returns a copy of the program that any user may execute: the directory of a test
// binary is closed to others. Another process writes it: a child that this one forks at the same
// moment would inherit a descriptor open for writing, and the kernel executes no such file.
func copyForOthers(t testing.TB) string {
	t.Helper()
	dir := ShortDir(t)
	program := filepath.Join(dir, "doorbell")
	must(t, os.Chmod(dir, 0o711))
	if out, err := exec.Command("install", "-m", "755", Binary(t), program).CombinedOutput(); err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	return program
}

// ShortDir is a directory with a path that is short enough for a socket.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "db")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// NatsURL waits until the daemon answers at its socket and returns where its NATS listens.
func NatsURL(t testing.TB, dir string) string {
	t.Helper()
	client := ops.NewClient(filepath.Join(dir, daemon.SocketFile))
	url := ""
	Eventually(t, "an answer at the socket", func() bool {
		s, err := client.Status(t.Context())
		url = s.NATS.URL
		statusHoldsNobody(t, s)
		return err == nil && url != ""
	})
	return url
}

func RunEnviron(dir, api, key string, agencies ...string) []string {
	return []string{
		"DOORBELL_DATA_DIR=" + dir, "DOORBELL_BASE_URL=" + api, "DOORBELL_API_KEY=" + key,
		"DOORBELL_AGENCIES=" + strings.Join(agencies, ","), "DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=127.0.0.1:0",
		"DOORBELL_REQUESTS_PER_SECOND=1000", "DOORBELL_POLL_INTERVAL=100ms", "DOORBELL_WALK_INTERVAL=150ms",
	}
}

const TestKey = "11111111-2222-4333-8444-sentinel0key"

// Fit is an environment that is good enough to run; more comes after it and wins.
func Fit(more ...string) []string {
	return append([]string{
		"HOME=/root", "DOORBELL_BASE_URL=https://api.example.com", "DOORBELL_AGENCIES=A100,B200", "DOORBELL_API_KEY=" + Sentinel,
	}, more...)
}
