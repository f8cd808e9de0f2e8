package cli

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller"
	"doorbell/poller/sandbox"
)

// rotation is a scene with a file of keys.
func rotation(t *testing.T, text string) (doorbelltest.Scene, string) {
	t.Helper()
	s := doorbelltest.NewScene(t, "A100", "B200")
	file := write(t, "api_keys", text, 0o600)
	var environ []string
	for _, e := range s.Environ {
		if !strings.HasPrefix(e, "DOORBELL_API_KEY=") && !strings.HasPrefix(e, "DOORBELL_AGENCIES=") {
			environ = append(environ, e)
		}
	}
	s.Environ = append(environ, "DOORBELL_API_KEYS_FILE="+file)
	return s, file
}

func verifiedKeys(s doorbelltest.Scene, t *testing.T, code int) poller.KeyReport {
	t.Helper()
	text := doorbelltest.Run(t, s.Environ, "keys", "verify")
	got := doorbelltest.Run(t, s.Environ, "keys", "verify", "--json")
	doorbelltest.HoldsNobody(t, text.Stdout+text.Stderr+got.Stdout+got.Stderr)
	var r poller.KeyReport
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil || got.Code != code || text.Code != code {
		t.Fatalf("keys verify: %v, want exit code %d: %+v %+v", err, code, text, got)
	}
	doorbelltest.Has(t, text.Stdout, "current", "next", config.NewSecret(doorbelltest.TestKey).Fingerprint(), config.NewSecret(doorbelltest.OtherKey).Fingerprint(), r.Text)
	return r
}

func TestARotationFromTheSecondKeyToTheEndOfTheFirst(t *testing.T) {
	t.Parallel()
	s, file := rotation(t, "A100="+doorbelltest.TestKey+"\nB200="+doorbelltest.TestKey+"\n")
	d := doorbelltest.Launch(t, s.Environ, "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100", "B200")
	got := doorbelltest.Run(t, s.Environ, "keys", "verify")
	if got.Code != exit.CodeConfig || got.Stdout != "" {
		t.Errorf("without a next key: %+v", got)
	}
	doorbelltest.Has(t, got.Stderr, "no next key", "DOORBELL_API_KEY_NEXT", "A100=key|next")

	s.Model.AddKey(doorbelltest.OtherKey, "A100")
	reload := func(text string) {
		t.Helper()
		seen := strings.Count(d.Stderr.String(), "were reloaded")
		rewrite(t, file, text)
		if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		doorbelltest.Eventually(t, "the file is read again", func() bool { return strings.Count(d.Stderr.String(), "were reloaded") > seen })
	}
	reload("A100=" + doorbelltest.TestKey + "|" + doorbelltest.OtherKey + "\nB200=" + doorbelltest.TestKey + "|" + doorbelltest.OtherKey + "\n")
	if r := verifiedKeys(s, t, exit.CodeFailed); !r.Agencies[0].Ready || r.Agencies[1].Ready || r.Agencies[1].Next.Status != 403 || *r.Agencies[0].Next.Insertions != 4 {
		t.Errorf("%+v", r)
	}
	s.Model.AddKey(doorbelltest.OtherKey, "B200")
	if r := verifiedKeys(s, t, exit.Done); !r.MayGiveUp {
		t.Errorf("%+v", r)
	}
	if err := s.Model.DeactivateKey(doorbelltest.TestKey); err != nil {
		t.Fatal(err)
	}
	both := map[string]bool{}
	sub.Await(t, "both switches", func(a doorbelltest.Arrival) bool {
		if a.Kind() == "access.key_switched" {
			both[a.Body.AgencyID] = true
		}
		return len(both) == 2
	})
	sub.Request(t, s.Ring(t, "A100"))
	verifiedKeys(s, t, exit.Done)
	reload("A100=" + doorbelltest.OtherKey + "\n") // B200 is retired
	s.GoesOn(t, "A100", 5)                         // a request of B200 may still be on its way
	asked := s.Asked("B200")
	s.GoesOn(t, "A100", 30)
	if n := s.Asked("B200"); n != asked {
		t.Errorf("B200 was asked for %d times after its retirement", n-asked)
	}
	missed := s.Ring(t, "B200")
	reload("A100=" + doorbelltest.OtherKey + "\nB200=" + doorbelltest.OtherKey + "\n")
	sub.Request(t, missed)
	all := doorbelltest.MustBeWhole(t, url)
	for _, agency := range []string{"A100", "B200"} {
		if k := doorbelltest.Kinds(all, agency); doorbelltest.Count(k, "access.key_switched") != 1 || doorbelltest.Count(k, "access.halted")+doorbelltest.Count(k, "access.resumed") > 0 {
			t.Errorf("the stream says of %s: %v", agency, k)
		}
		if n := s.Model.Requests(sandbox.Filter{AgencyID: agency, Operation: sandbox.OperationInsertions, Key: "key-1", Status: 403}); n > 3 { // two are of keys verify
			t.Errorf("the list of %s was refused %d times to the old key", agency, n)
		}
	}
	d.Stop(t)
	doorbelltest.HoldsNobody(t, d.Stderr.String())
}

func TestKeysAreVerifiedWithoutADaemonToo(t *testing.T) {
	t.Parallel()
	s, file := rotation(t, "A100="+doorbelltest.TestKey+"|"+doorbelltest.OtherKey+"\nB200="+doorbelltest.TestKey+"\n")
	s.Model.AddKey(doorbelltest.OtherKey, "A100")
	if r := verifiedKeys(s, t, exit.CodeFailed); !strings.Contains(r.Agencies[1].Text, "only one") {
		t.Errorf("%+v", r)
	}
	rewrite(t, file, "A100="+doorbelltest.TestKey+"|"+doorbelltest.OtherKey+"\n")
	verifiedKeys(s, t, exit.Done)
	rewrite(t, file, "A100="+doorbelltest.TestKey+"\n")
	if got := doorbelltest.Run(t, s.Environ, "keys", "verify"); got.Code != exit.CodeConfig {
		t.Errorf("without a next key: %+v", got)
	}
	rewrite(t, file, "A100=\n")
	if got := doorbelltest.Run(t, s.Environ, "keys", "verify"); got.Code != exit.CodeConfig || !strings.Contains(got.Stderr, "DOORBELL_API_KEYS") {
		t.Errorf("with a broken file: %+v", got)
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
