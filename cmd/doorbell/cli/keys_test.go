package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
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
	rewrite(t, file, "A100="+doorbelltest.OtherKey+"\nB200="+doorbelltest.OtherKey+"\n")
	must(t, d.Cmd.Process.Signal(syscall.SIGHUP))
	d.Stderr.Await(t, "were reloaded")
	must(t, s.Model.DeactivateKey(doorbelltest.TestKey))
	sub.Request(t, s.Ring(t, "A100"))
	sub.Request(t, s.Ring(t, "B200"))
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
