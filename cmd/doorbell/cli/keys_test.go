package cli

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
)

// rotation is a scene with a file of keys.
func rotation(t *testing.T, text string) (doorbelltest.Scene, string) {
	t.Helper()
	s, file := doorbelltest.NewScene(t, "A100", "B200"), write(t, "api_keys", text, 0o600)
	s.Environ = s.With("DOORBELL_API_KEY=", "DOORBELL_AGENCIES=", "DOORBELL_API_KEYS_FILE="+file)
	return s, file
}

// TestARotationByTheKeyFileHaltsNothing writes the new key into the file while the provider accepts both.
func TestARotationByTheKeyFileHaltsNothing(t *testing.T) {
	t.Parallel()
	s, file := rotation(t, "A100="+doorbelltest.TestKey+"\nB200="+doorbelltest.TestKey+"\n")
	d, sub, url := running(t, s)
	s.Model.AddKey(doorbelltest.OtherKey, "A100", "B200")
	reload := func(text string) {
		t.Helper()
		seen := strings.Count(d.Stderr.String(), "were reloaded")
		rewrite(t, file, text)
		must(t, d.Cmd.Process.Signal(syscall.SIGHUP))
		doorbelltest.Eventually(t, "the file is read again", func() bool { return strings.Count(d.Stderr.String(), "were reloaded") > seen })
	}
	reload("A100=" + doorbelltest.OtherKey + "\nB200=" + doorbelltest.OtherKey + "\n")
	must(t, s.Model.DeactivateKey(doorbelltest.TestKey))
	sub.Request(t, s.Ring(t, "A100"))
	sub.Request(t, s.Ring(t, "B200"))
	reload("A100=" + doorbelltest.OtherKey + "\n") // B200 is retired
	doorbelltest.Eventually(t, "B200 is not watched", func() bool {
		var status ops.Status
		err := json.Unmarshal([]byte(doorbelltest.Run(t, s.Environ, "status", "--json").Stdout), &status)
		return err == nil && len(status.Watch.Agencies) == 1
	})
	s.GoesOn(t, "A100", 5) // what was sent before may arrive late
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
		if k := doorbelltest.Kinds(all, agency); strings.Contains(strings.Join(k, " "), "access.") {
			t.Errorf("the stream has of %s: %v", agency, k)
		}
	}
	d.Stop(t)
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}
