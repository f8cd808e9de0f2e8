package cli

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// TestAHaltOutlastsEveryRestartUntilAPersonEndsIt has B200 refused while A100 continues.
func TestAHaltOutlastsEveryRestartUntilAPersonEndsIt(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	d, sub, url := running(t, s)
	must(t, s.Model.UnlinkKey(doorbelltest.TestKey, "B200"))
	halt := sub.Event(t, "access.halted", "B200")
	for name, want := range map[string]any{
		"scope": "agency", "operation": "insertions", "status": 403.0, "probableReason": "unknown", "resume": "doorbell resume B200",
	} {
		if got := halt.Member(t, name); got != want {
			t.Errorf("%s of the halt is %v, want %v", name, got, want)
		}
	}
	for _, end := range []os.Signal{nil, syscall.SIGTERM, syscall.SIGKILL} {
		if end != nil {
			asked := s.Asked("B200")
			d.End(t, end)
			d = doorbelltest.Launch(t, s.Environ, "run")
			url = doorbelltest.NatsURL(t, s.Dir)
			sub = doorbelltest.SubscribeTo(t, url)
			sub.Request(t, s.Ring(t, "A100"))
			if more := s.Asked("B200") - asked; more != 0 {
				t.Errorf("after %v and a restart B200 was asked %d times", end, more)
			}
		}
		s.StaysSilent(t, "B200", "A100")
		if n := s.Model.Requests(sandbox.Filter{AgencyID: "B200", Operation: sandbox.OperationInsertions, Status: 403}); n != 1 {
			t.Errorf("the list was asked for %d times although refused", n)
		}
		got := doorbelltest.Run(t, s.Environ, "status", "--check")
		doorbelltest.Has(t, got.Stdout, "B200 is halted: the API refuses access", "doorbell resume B200")
		if got.Code != exit.CodeFailed || strings.Contains(got.Stdout, "A100 is halted") {
			t.Errorf("status --check: %+v", got)
		}
	}
	resume := func() {
		t.Helper()
		if got := doorbelltest.Run(t, s.Environ, "resume", "B200"); got.Code != exit.Done || !strings.Contains(got.Stdout, "1 halt ended") {
			t.Fatalf("resume: %+v", got)
		}
	}
	resume()
	sub.Event(t, "access.resumed", "B200")
	sub.Event(t, "access.halted", "B200") // nothing had changed at the API: refused again
	s.StaysSilent(t, "B200", "A100")
	missed := s.Ring(t, "B200")
	s.Model.AddKey(doorbelltest.TestKey, "B200")
	resume()
	if cause := sub.Event(t, "access.resumed", "B200").Member(t, "cause"); cause != "operator" {
		t.Errorf("resumed because of %v", cause)
	}
	sub.Request(t, missed)
	if got := doorbelltest.Run(t, s.Environ, "status", "--check"); got.Code != exit.Done {
		t.Errorf("status --check after the end of the halt: %+v", got)
	}
	all := doorbelltest.MustBeWhole(t, url)
	for agency, want := range map[string]int{"A100": 0, "B200": 2} {
		kinds := doorbelltest.Kinds(all, agency)
		if doorbelltest.Count(kinds, "access.halted") != want || doorbelltest.Count(kinds, "access.resumed") != want {
			t.Errorf("the stream has %s: %s", agency, kinds)
		}
	}
	d.Stop(t)
	// The person who resumes looks for the outcome in the log: a second refusal is no repetition of the first.
	if got := regexp.MustCompile(`"access \w+"`).FindAllString(d.Stderr.String(), -1); strings.Join(got, " ") != `"access resumed" "access halted" "access resumed"` {
		t.Errorf("the log of the last start says %v", got)
	}
}

func TestADaemonThatHoldsTheStoreAndDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	dir := doorbelltest.ShortDir(t)
	held, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.com"})
	must(t, err)
	defer held.Close()
	before := doorbelltest.Tree(t, dir)
	var all sync.WaitGroup // each waits for the lock
	for _, args := range [][]string{{"status", "--check"}, {"resume", "A100"}, {"events", "show", "1"}} {
		all.Go(func() {
			got := doorbelltest.Run(t, []string{"DOORBELL_DATA_DIR=" + dir}, args...)
			if got.Code != exit.CodeUnavailable || got.Stdout != "" {
				t.Errorf("%q: %+v", args, got)
			}
			doorbelltest.Has(t, got.Stderr, "holds the store and does not answer", dir)
		})
	}
	all.Wait()
	mustBeUntouched(t, dir, before)
}
