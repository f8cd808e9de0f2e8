package cli

import (
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

// TestAHeldChangeIsToldOnceAPersonApprovesIt empties the list, which is held until a person says that it is true.
func TestAHeldChangeIsToldOnceAPersonApprovesIt(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	doorbelltest.Launch(t, s.Environ, "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100")
	if got := doorbelltest.Run(t, s.Environ, "approve", "A100"); got.Code != exit.Done || got.Stdout != "nothing is held for A100\n" {
		t.Errorf("nothing is held: %+v", got)
	}
	for _, i := range s.Model.Truth().Insertions {
		if err := s.Model.Withdraw("A100", i.Reference); err != nil {
			t.Fatal(err)
		}
	}
	held := sub.Event(t, "watch.change_held", "A100")
	if got := held.Member(t, "approve"); got != "doorbell approve A100" {
		t.Errorf("the event says %v", got)
	}
	text := doorbelltest.Run(t, s.Environ, "status")
	doorbelltest.Has(t, text.Stdout, "A100 lists nothing any more: ", "doorbell approve A100")
	if got := doorbelltest.Run(t, s.Environ, "status", "--check"); got.Code != exit.CodeFailed {
		t.Errorf("status --check: %+v", got)
	}
	if got := doorbelltest.Run(t, s.Environ, "approve", "A100"); got.Code != exit.Done || !strings.Contains(got.Stdout, "A100") {
		t.Errorf("approve: %+v", got)
	}
	sub.Event(t, "insertion.disappeared", "A100")
	sub.Event(t, "watch.recovered", "A100")
}
