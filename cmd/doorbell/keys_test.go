package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller"
	"doorbell/poller/sandbox"
)

// rotation is a scene with a file of keys.
func rotation(t *testing.T, text string) (scene, string) {
	t.Helper()
	s := newScene(t, "A100", "B200")
	file := write(t, "api_keys", text, 0o600)
	var environ []string
	for _, e := range s.environ {
		if !strings.HasPrefix(e, "DOORBELL_API_KEY=") && !strings.HasPrefix(e, "DOORBELL_AGENCIES=") {
			environ = append(environ, e)
		}
	}
	s.environ = append(environ, "DOORBELL_API_KEYS_FILE="+file)
	return s, file
}

func (s scene) verified(t *testing.T, code int) poller.KeyReport {
	t.Helper()
	text := run(t, s.environ, "keys", "verify")
	got := run(t, s.environ, "keys", "verify", "--json")
	holdsNobody(t, text.stdout+text.stderr+got.stdout+got.stderr)
	var r poller.KeyReport
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != code || text.code != code {
		t.Fatalf("keys verify: %v, want exit code %d: %+v %+v", err, code, text, got)
	}
	has(t, text.stdout, "current", "next", config.NewSecret(testKey).Fingerprint(), config.NewSecret(otherKey).Fingerprint(), r.Text)
	return r
}

func TestARotationFromTheSecondKeyToTheEndOfTheFirst(t *testing.T) {
	t.Parallel()
	s, file := rotation(t, "A100="+testKey+"\nB200="+testKey+"\n")
	d := launch(t, s.environ, "run")
	url := natsURL(t, s.dir)
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100", "B200")
	got := run(t, s.environ, "keys", "verify")
	if got.code != exit.CodeConfig || got.stdout != "" {
		t.Errorf("without a next key: %+v", got)
	}
	has(t, got.stderr, "no next key", "DOORBELL_API_KEY_NEXT", "A100=key|next")

	s.model.AddKey(otherKey, "A100")
	reload := func(text string) {
		t.Helper()
		seen := strings.Count(d.stderr.String(), "were reloaded")
		rewrite(t, file, text)
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the file is read again", func() bool { return strings.Count(d.stderr.String(), "were reloaded") > seen })
	}
	reload("A100=" + testKey + "|" + otherKey + "\nB200=" + testKey + "|" + otherKey + "\n")
	if r := s.verified(t, exit.CodeFailed); !r.Agencies[0].Ready || r.Agencies[1].Ready || r.Agencies[1].Next.Status != 403 || *r.Agencies[0].Next.Insertions != 4 {
		t.Errorf("%+v", r)
	}
	s.model.AddKey(otherKey, "B200")
	if r := s.verified(t, exit.Done); !r.MayGiveUp {
		t.Errorf("%+v", r)
	}
	if err := s.model.DeactivateKey(testKey); err != nil {
		t.Fatal(err)
	}
	both := map[string]bool{}
	sub.await(t, "both switches", func(a arrival) bool {
		if a.kind() == "access.key_switched" {
			both[a.body.AgencyID] = true
		}
		return len(both) == 2
	})
	sub.request(t, s.ring(t, "A100"))
	s.verified(t, exit.Done)
	reload("A100=" + otherKey + "\n") // B200 is retired
	s.goesOn(t, "A100", 5)            // a request of B200 may still be on its way
	asked := s.asked("B200")
	s.goesOn(t, "A100", 30)
	if n := s.asked("B200"); n != asked {
		t.Errorf("B200 was asked for %d times after its retirement", n-asked)
	}
	missed := s.ring(t, "B200")
	reload("A100=" + otherKey + "\nB200=" + otherKey + "\n")
	sub.request(t, missed)
	all := mustBeWhole(t, url)
	for _, agency := range []string{"A100", "B200"} {
		if k := kinds(all, agency); count(k, "access.key_switched") != 1 || count(k, "access.halted")+count(k, "access.resumed") > 0 {
			t.Errorf("the stream says of %s: %v", agency, k)
		}
		if n := s.model.Requests(sandbox.Filter{AgencyID: agency, Operation: sandbox.OperationInsertions, Key: "key-1", Status: 403}); n > 3 { // two are of keys verify
			t.Errorf("the list of %s was refused %d times to the old key", agency, n)
		}
	}
	d.stop(t)
	holdsNobody(t, d.stderr.String())
}

func TestKeysAreVerifiedWithoutADaemonToo(t *testing.T) {
	t.Parallel()
	s, file := rotation(t, "A100="+testKey+"|"+otherKey+"\nB200="+testKey+"\n")
	s.model.AddKey(otherKey, "A100")
	if r := s.verified(t, exit.CodeFailed); !strings.Contains(r.Agencies[1].Text, "only one") {
		t.Errorf("%+v", r)
	}
	rewrite(t, file, "A100="+testKey+"|"+otherKey+"\n")
	s.verified(t, exit.Done)
	rewrite(t, file, "A100="+testKey+"\n")
	if got := run(t, s.environ, "keys", "verify"); got.code != exit.CodeConfig {
		t.Errorf("without a next key: %+v", got)
	}
	rewrite(t, file, "A100=\n")
	if got := run(t, s.environ, "keys", "verify"); got.code != exit.CodeConfig || !strings.Contains(got.stderr, "DOORBELL_API_KEYS") {
		t.Errorf("with a broken file: %+v", got)
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
