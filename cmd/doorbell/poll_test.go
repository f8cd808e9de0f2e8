package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/exit"
)

// TestAPersonLetsAnAgencyBeAskedForNow asks the running daemon, and the one that does not run.
func TestAPersonLetsAnAgencyBeAskedForNow(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	d := launch(t, s.environ, "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100")
	if got := run(t, s.environ, "poll", "A100"); got.code != exit.Done || !strings.HasPrefix(got.stdout, "A100 is walked now") {
		t.Errorf("poll: %+v", got)
	}
	got := run(t, s.environ, "poll", "A100", "--json")
	var done struct{ Insertions, Of int }
	if err := json.Unmarshal([]byte(got.stdout), &done); err != nil || got.code != exit.Done || done.Of == 0 || done.Insertions != done.Of {
		t.Errorf("poll --json: %+v, %v", got, err)
	}
	if got := run(t, s.environ, "poll", "Z900"); got.code != exit.CodeFailed || !strings.Contains(got.stderr, "Z900") {
		t.Errorf("an unknown agency: %+v", got)
	}
	if got := run(t, s.environ, "poll"); got.code != exit.CodeUsage {
		t.Errorf("no agency: %+v", got)
	}
	d.end(t, syscall.SIGTERM)
	if got := run(t, s.environ, "poll", "A100"); got.code != exit.CodeFailed || !strings.Contains(got.stderr, "doorbell run") {
		t.Errorf("without a daemon: %+v", got)
	}
}
