package main

import (
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/exit"
)

// TestAHeldChangeIsToldOnceAPersonApprovesIt empties the list, which nobody believes, and says that it is true: to the
// running daemon, and to the store of one that is stopped.
func TestAHeldChangeIsToldOnceAPersonApprovesIt(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"running": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "A100")
			d := launch(t, s.environ, "run")
			sub := subscribeTo(t, natsURL(t, s.dir))
			sub.baselined(t, "A100")
			if got := run(t, s.environ, "approve", "A100"); got.code != exit.Done || got.stdout != "nothing is held for A100\n" {
				t.Errorf("nothing is held: %+v", got)
			}
			for _, i := range s.model.Truth().Insertions {
				if err := s.model.Withdraw("A100", i.Reference); err != nil {
					t.Fatal(err)
				}
			}
			held := sub.event(t, "watch.change_held", "A100")
			if got := held.member(t, "approve"); got != "doorbell approve A100" {
				t.Errorf("the event says %v", got)
			}
			text := run(t, s.environ, "status")
			has(t, text.stdout, "A100 lists nothing any more: ", "doorbell approve A100")
			if got := run(t, s.environ, "status", "--check"); got.code != exit.CodeFailed {
				t.Errorf("status --check: %+v", got)
			}
			if stopped {
				d.end(t, syscall.SIGTERM)
			}
			if got := run(t, s.environ, "approve", "A100"); got.code != exit.Done || !strings.Contains(got.stdout, "A100") {
				t.Errorf("approve: %+v", got)
			}
			if stopped {
				launch(t, s.environ, "run")
				sub = subscribeTo(t, natsURL(t, s.dir))
			}
			sub.event(t, "insertion.disappeared", "A100")
			sub.event(t, "watch.recovered", "A100")
		})
	}
}
