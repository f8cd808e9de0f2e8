package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
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

// mustSayHalted holds all three forms of status against a halt of B200.
func mustSayHalted(s doorbelltest.Scene, t *testing.T) {
	t.Helper()
	text := doorbelltest.Run(t, s.Environ, "status")
	if text.Code != exit.Done {
		t.Fatalf("status: %+v", text)
	}
	doorbelltest.Has(t, text.Stdout, "B200 is halted: the API refuses access", "doorbell resume B200")
	if strings.Contains(text.Stdout, "A100 is halted") {
		t.Errorf("A100 is well:\n%s", text.Stdout)
	}
	if got := doorbelltest.Run(t, s.Environ, "status", "--check"); got.Code != exit.CodeFailed {
		t.Errorf("status --check: exit code %d:\n%s", got.Code, got.Stderr)
	}
	var status ops.Status
	got := doorbelltest.Run(t, s.Environ, "status", "--json")
	if err := json.Unmarshal([]byte(got.Stdout), &status); err != nil || len(status.Watch.Agencies) != 2 {
		t.Fatalf("status --json: %v, %+v", err, got)
	}
	for _, a := range status.Watch.Agencies {
		if wanted := a.AgencyID == "B200"; wanted != (len(a.Halts) == 1) {
			t.Errorf("%s has halts %+v", a.AgencyID, a.Halts)
		}
	}
	doorbelltest.HoldsNobody(t, text.Stdout+got.Stdout+got.Stderr)
}

func TestAHaltOutlastsEveryRestartUntilAPersonEndsIt(t *testing.T) {
	t.Parallel()
	s, d := halted(t)
	mustSayHalted(s, t)
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
		mustSayHalted(s, t)
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
	if got := doorbelltest.Run(t, s.Environ, "resume", "B200"); got.Code != exit.Done || got.Stdout != "B200 is not halted\n" {
		t.Errorf("resume without a halt: %+v", got)
	}
	for _, verb := range []string{"resume", "approve"} {
		if got := doorbelltest.Run(t, s.Environ, verb, "C300"); got.Code != exit.CodeFailed || got.Stderr != notWatched {
			t.Errorf("%s of an agency that is not watched: %+v", verb, got)
		}
	}
	mustHaveSaid(s, t, url, 2, 2)
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

// mustHaveSaid counts what the stream says about the access of B200, and of A100, which was always well.
func mustHaveSaid(s doorbelltest.Scene, t *testing.T, url string, halts, resumes int) {
	t.Helper()
	all := doorbelltest.MustBeWhole(t, url)
	b := doorbelltest.Kinds(all, "B200")
	if h, r := doorbelltest.Count(b, "access.halted"), doorbelltest.Count(b, "access.resumed"); h != halts || r != resumes {
		t.Errorf("%d halts and %d resumes of B200 in the stream, want %d and %d: %s", h, r, halts, resumes, access(all, "B200"))
	}
	if a := doorbelltest.Kinds(all, "A100"); doorbelltest.Count(a, "access.halted")+doorbelltest.Count(a, "access.resumed") > 0 {
		t.Errorf("A100 was well, and the stream says %v", a)
	}
}

// access is what the stream says about the access of an agency, a line each. It names no person.
func access(all []doorbelltest.Message, agency string) (text string) {
	for _, m := range all {
		if m.Body.AgencyID == agency && strings.HasPrefix(m.Kind(), "access.") {
			text += fmt.Sprintf("\n%s %s", m.Kind(), m.Data)
		}
	}
	return text
}

func TestAHaltEndsWithAnotherKeyAtTheNextStart(t *testing.T) {
	t.Parallel()
	s, d := halted(t)
	d.Stop(t)
	for _, args := range [][]string{{"status"}, {"status", "--check"}, {"resume", "B200"}, {"approve", "B200"}, {"poll", "B200"}} {
		if got := doorbelltest.Run(t, s.Environ, args...); got.Code != exit.CodeFailed || !strings.Contains(got.Stderr, "start it with doorbell run") {
			t.Errorf("%q without a daemon: %+v", args, got)
		}
	}
	missed := s.Ring(t, "B200")
	s.Model.AddKey(doorbelltest.OtherKey, "A100", "B200")
	doorbelltest.Launch(t, s.With("DOORBELL_API_KEY="+doorbelltest.OtherKey), "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	if cause := sub.Event(t, "access.resumed", "B200").Member(t, "cause"); cause != "key_changed" {
		t.Errorf("resumed because of %v", cause)
	}
	sub.Request(t, missed)
	mustHaveSaid(s, t, url, 1, 1)
}

func TestWithoutADaemonAndWithoutAStoreThereIsNothingToAskOrEnd(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"resume", "A100"}, {"events", "ls"}, {"replay"}} {
		dir := filepath.Join(t.TempDir(), "data")
		got := doorbelltest.Run(t, []string{"DOORBELL_DATA_DIR=" + dir}, args...)
		if got.Code != exit.CodeFailed || got.Stdout != "" {
			t.Errorf("%q: %+v", args, got)
		}
		doorbelltest.Has(t, got.Stderr, "there is no store in "+dir, "DOORBELL_DATA_DIR")
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%q made %s", args, dir)
		}
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
