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

const notWatched = "doorbell: agency is not watched: C300\n  doorbell status lists the agencies; upper and lower case differ\n"

// halted is a scene in which B200 has been refused while A100 goes on.
func halted(t *testing.T) (doorbelltest.Scene, *doorbelltest.Child) {
	t.Helper()
	s := doorbelltest.NewScene(t, "A100", "B200")
	d := doorbelltest.Launch(t, s.Environ, "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100", "B200")
	if err := s.Model.UnlinkKey(doorbelltest.TestKey, "B200"); err != nil {
		t.Fatal(err)
	}
	halt := sub.Event(t, "access.halted", "B200")
	for name, want := range map[string]any{
		"scope": "agency", "operation": "insertions", "status": 403.0, "probableReason": "unknown", "resume": "doorbell resume B200",
	} {
		if got := halt.Member(t, name); got != want {
			t.Errorf("%s of the halt is %v, want %v", name, got, want)
		}
	}
	s.StaysSilent(t, "B200", "A100")
	if n := s.Model.Requests(sandbox.Filter{AgencyID: "B200", Operation: sandbox.OperationInsertions, Status: 403}); n != 1 {
		t.Errorf("the list was asked for %d times although refused", n)
	}
	return s, d
}

func TestAHaltOutlastsEveryRestartUntilAPersonEndsIt(t *testing.T) {
	t.Parallel()
	s, d := halted(t)
	for _, end := range []struct {
		signal os.Signal
		code   int
	}{{syscall.SIGTERM, exit.Done}, {syscall.SIGKILL, -1}} {
		if code := d.End(t, end.signal); code != end.code {
			t.Errorf("exit code %d after %v, want %d", code, end.signal, end.code)
		}
		asked := s.Asked("B200")
		d = doorbelltest.Launch(t, s.Environ, "run")
		doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Request(t, s.Ring(t, "A100"))
		s.StaysSilent(t, "B200", "A100")
		if more := s.Asked("B200") - asked; more != 0 {
			t.Errorf("after %v and a restart B200 was asked %d times", end.signal, more)
		}
		text := doorbelltest.Run(t, s.Environ, "status")
		doorbelltest.Has(t, text.Stdout, "B200 is halted: the API refuses access", "doorbell resume B200")
		if strings.Contains(text.Stdout, "A100 is halted") {
			t.Errorf("A100 is well:\n%s", text.Stdout)
		}
		if got := doorbelltest.Run(t, s.Environ, "status", "--check"); got.Code != exit.CodeFailed {
			t.Errorf("status --check: exit code %d:\n%s", got.Code, got.Stderr)
		}
	}
	url := doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	resume(s, t)
	sub.Event(t, "access.resumed", "B200")
	sub.Event(t, "access.halted", "B200") // nothing had changed at the API: refused again
	s.StaysSilent(t, "B200", "A100")

	missed := s.Ring(t, "B200")
	s.Model.AddKey(doorbelltest.TestKey, "B200")
	resume(s, t)
	if cause := sub.Event(t, "access.resumed", "B200").Member(t, "cause"); cause != "operator" {
		t.Errorf("resumed because of %v", cause)
	}
	sub.Request(t, missed)
	if got := doorbelltest.Run(t, s.Environ, "status", "--check"); got.Code != exit.Done {
		t.Errorf("status --check after the end of the halt: %+v", got)
	}
	for _, verb := range []string{"resume", "approve"} {
		if got := doorbelltest.Run(t, s.Environ, verb, "C300"); got.Code != exit.CodeFailed || got.Stderr != notWatched {
			t.Errorf("%s of an agency that is not watched: %+v", verb, got)
		}
	}
	all := doorbelltest.MustBeWhole(t, url)
	if got := strings.Join(doorbelltest.Kinds(all, "B200"), " "); strings.Count(got, "access.halted") != 2 || strings.Count(got, "access.resumed") != 2 {
		t.Errorf("of B200 the stream says %s", got)
	}
	if got := strings.Join(doorbelltest.Kinds(all, "A100"), " "); strings.Contains(got, "access.") {
		t.Errorf("A100 was well, and the stream says %s", got)
	}
	d.Stop(t)
	// Who resumes looks at the log for what came of it: a second refusal is no repetition of the first.
	if got := regexp.MustCompile(`"access \w+"`).FindAllString(d.Stderr.String(), -1); strings.Join(got, " ") != `"access resumed" "access halted" "access resumed"` {
		t.Errorf("the log of the last start says %v", got)
	}
	doorbelltest.HoldsNobody(t, d.Stderr.String())
}

// resume runs `doorbell resume B200`, which must end one halt.
func resume(s doorbelltest.Scene, t *testing.T) {
	t.Helper()
	got := doorbelltest.Run(t, s.Environ, "resume", "B200")
	if got.Code != exit.Done || !strings.Contains(got.Stdout, "1 halt ended") {
		t.Fatalf("resume: %+v", got)
	}
}

func TestADaemonThatHoldsTheStoreAndDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	dir := doorbelltest.ShortDir(t)
	held, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
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
