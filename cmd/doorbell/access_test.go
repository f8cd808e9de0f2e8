package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

const notWatched = "doorbell: agency is not watched: C300\n  doorbell status lists the agencies; upper and lower case differ\n"

// halted is a scene in which B200 has been refused while A100 goes on.
func halted(t *testing.T) (scene, *child) {
	t.Helper()
	s := newScene(t, "A100", "B200")
	d := launch(t, s.environ, "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100", "B200")
	if err := s.model.UnlinkKey(testKey, "B200"); err != nil {
		t.Fatal(err)
	}
	halt := sub.event(t, "access.halted", "B200")
	for name, want := range map[string]any{
		"scope": "agency", "operation": "insertions", "status": 403.0, "probableReason": "agency_not_linked", "resume": "doorbell resume B200",
	} {
		if got := halt.member(t, name); got != want {
			t.Errorf("%s of the halt is %v, want %v", name, got, want)
		}
	}
	s.staysSilent(t, "B200", "A100")
	if n := s.model.Requests(sandbox.Filter{AgencyID: "B200", Operation: sandbox.OperationInsertions, Status: 403}); n != 1 {
		t.Errorf("the list was asked for %d times although refused", n)
	}
	return s, d
}

// mustSayHalted holds all three forms of status against a halt of B200.
func (s scene) mustSayHalted(t *testing.T, running bool) {
	t.Helper()
	text := run(t, s.environ, "status")
	if text.code != exit.Done {
		t.Fatalf("status: %+v", text)
	}
	has(t, text.stdout, "B200 is halted: the key may not read this agency", "doorbell resume B200")
	if strings.Contains(text.stdout, "A100 is halted") {
		t.Errorf("A100 is well:\n%s", text.stdout)
	}
	if got := run(t, s.environ, "status", "--check"); got.code != exit.CodeFailed {
		t.Errorf("status --check: exit code %d:\n%s", got.code, got.stderr)
	}
	var status ops.Status
	got := run(t, s.environ, "status", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil || status.Running != running || len(status.Watch.Agencies) != 2 {
		t.Fatalf("status --json: %v, %+v", err, got)
	}
	for _, a := range status.Watch.Agencies {
		if wanted := a.AgencyID == "B200"; wanted != (len(a.Halts) == 1) {
			t.Errorf("%s has halts %+v", a.AgencyID, a.Halts)
		}
	}
	holdsNobody(t, text.stdout+got.stdout+got.stderr)
}

func TestAHaltOutlastsEveryRestartUntilAPersonEndsIt(t *testing.T) {
	t.Parallel()
	s, d := halted(t)
	s.mustSayHalted(t, true)
	for _, end := range []struct {
		signal os.Signal
		code   int
	}{{syscall.SIGTERM, exit.Done}, {syscall.SIGKILL, -1}} {
		if code := d.end(t, end.signal); code != end.code {
			t.Errorf("exit code %d after %v, want %d", code, end.signal, end.code)
		}
		asked := s.asked("B200")
		d = launch(t, s.environ, "run")
		subscribeTo(t, natsURL(t, s.dir)).request(t, s.ring(t, "A100"))
		s.staysSilent(t, "B200", "A100")
		if more := s.asked("B200") - asked; more != 0 {
			t.Errorf("after %v and a restart B200 was asked %d times", end.signal, more)
		}
		s.mustSayHalted(t, true)
	}
	url := natsURL(t, s.dir)
	sub := subscribeTo(t, url)
	s.resume(t)
	sub.event(t, "access.resumed", "B200")
	sub.event(t, "access.halted", "B200") // nothing had changed at the API: refused again
	s.staysSilent(t, "B200", "A100")

	missed := s.ring(t, "B200")
	s.model.AddKey(testKey, "B200")
	s.resume(t)
	if cause := sub.event(t, "access.resumed", "B200").member(t, "cause"); cause != "operator" {
		t.Errorf("resumed because of %v", cause)
	}
	sub.request(t, missed)
	if got := run(t, s.environ, "status", "--check"); got.code != exit.Done {
		t.Errorf("status --check after the end of the halt: %+v", got)
	}
	if got := run(t, s.environ, "resume", "B200"); got.code != exit.Done || got.stdout != "B200 is not halted\n" {
		t.Errorf("resume without a halt: %+v", got)
	}
	for _, verb := range []string{"resume", "approve"} {
		if got := run(t, s.environ, verb, "C300"); got.code != exit.CodeFailed || got.stderr != notWatched {
			t.Errorf("%s of an agency that is not watched: %+v", verb, got)
		}
	}
	s.mustHaveSaid(t, url, 2, 2)
	d.stop(t)
	// Who resumes looks at the log for what came of it: a second refusal is no repetition of the first.
	if got := regexp.MustCompile(`"access \w+"`).FindAllString(d.stderr.String(), -1); strings.Join(got, " ") != `"access resumed" "access halted" "access resumed"` {
		t.Errorf("the log of the last start says %v", got)
	}
	holdsNobody(t, d.stderr.String())
}

// resume runs `doorbell resume B200`, which must end one halt.
func (s scene) resume(t *testing.T) {
	t.Helper()
	got := run(t, s.environ, "resume", "B200")
	if got.code != exit.Done || !strings.Contains(got.stdout, "one halt ended") {
		t.Fatalf("resume: %+v", got)
	}
}

// mustHaveSaid counts what the stream says about the access of B200, and of A100, which was always well.
func (s scene) mustHaveSaid(t *testing.T, url string, halts, resumes int) {
	t.Helper()
	all := mustBeWhole(t, url)
	b := kinds(all, "B200")
	if h, r := count(b, "access.halted"), count(b, "access.resumed"); h != halts || r != resumes {
		t.Errorf("%d halts and %d resumes of B200 in the stream, want %d and %d: %s", h, r, halts, resumes, access(all, "B200"))
	}
	if a := kinds(all, "A100"); count(a, "access.halted")+count(a, "access.resumed") > 0 {
		t.Errorf("A100 was well, and the stream says %v", a)
	}
}

// access is what the stream says about the access of an agency, a line each. It names no person.
func access(all []message, agency string) (text string) {
	for _, m := range all {
		if m.body.AgencyID == agency && strings.HasPrefix(m.kind(), "access.") {
			text += fmt.Sprintf("\n%s %s", m.kind(), m.data)
		}
	}
	return text
}

// TestAHaltCanBeEndedWhileTheDaemonIsStopped by a command, and by another key at the next start.
func TestAHaltCanBeEndedWhileTheDaemonIsStopped(t *testing.T) {
	t.Parallel()
	s, d := halted(t)
	d.stop(t)
	s.mustSayHalted(t, false)
	for _, verb := range []string{"resume", "approve"} {
		if got := run(t, s.environ, verb, "C300"); got.code != exit.CodeFailed || got.stderr != notWatched {
			t.Errorf("%s of an agency that is not watched: %+v", verb, got)
		}
	}
	missed := s.ring(t, "B200")
	s.model.AddKey(testKey, "B200")
	s.resume(t)
	if got := run(t, s.environ, "status", "--check"); got.code != exit.CodeFailed || strings.Contains(got.stdout, "halted") {
		t.Errorf("status --check after the end of the halt, with no daemon: %+v", got)
	}
	d = launch(t, s.environ, "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	if cause := sub.event(t, "access.resumed", "B200").member(t, "cause"); cause != "operator" {
		t.Errorf("resumed because of %v", cause)
	}
	sub.request(t, missed)

	if err := s.model.UnlinkKey(testKey, "B200"); err != nil {
		t.Fatal(err)
	}
	sub.event(t, "access.halted", "B200")
	d.stop(t)
	missed = s.ring(t, "B200")
	s.model.AddKey(otherKey, "A100", "B200")
	launch(t, s.with("DOORBELL_API_KEY="+otherKey), "run")
	url := natsURL(t, s.dir)
	sub = subscribeTo(t, url)
	sub.event(t, "access.resumed", "B200") // that of the operator
	if cause := sub.event(t, "access.resumed", "B200").member(t, "cause"); cause != "key_changed" {
		t.Errorf("resumed because of %v", cause)
	}
	sub.request(t, missed)
	s.mustHaveSaid(t, url, 2, 2)
}

func TestWithoutADaemonAndWithoutAStoreThereIsNothingToAskOrEnd(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"resume", "A100"}, {"events", "ls"}, {"plan"}, {"replay", "--dry-run"}} {
		dir := filepath.Join(t.TempDir(), "data")
		got := run(t, []string{"DOORBELL_DATA_DIR=" + dir}, args...)
		if got.code != exit.CodeFailed || got.stdout != "" {
			t.Errorf("%q: %+v", args, got)
		}
		has(t, got.stderr, "there is no store in "+dir, "DOORBELL_DATA_DIR")
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%q made %s", args, dir)
		}
	}
}

func TestADaemonThatHoldsTheStoreAndDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	held, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	before := tree(t, dir)
	for _, args := range [][]string{{"status", "--check"}, {"resume", "A100"}, {"events", "show", "A100", "1"}, {"plan"}} {
		got := run(t, []string{"DOORBELL_DATA_DIR=" + dir}, args...)
		if got.code != exit.CodeUnavailable || got.stdout != "" {
			t.Errorf("%q: %+v", args, got)
		}
		has(t, got.stderr, "holds the store and does not answer", dir)
	}
	mustBeUntouched(t, dir, before)
}
