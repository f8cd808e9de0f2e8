package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/standby"
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

// TestARotationByTheKeyFileHaltsNothing writes the new key into the file while the provider accepts both.
func TestARotationByTheKeyFileHaltsNothing(t *testing.T) {
	t.Parallel()
	s, file := rotation(t, "A100="+doorbelltest.TestKey+"\nB200="+doorbelltest.TestKey+"\n")
	d := doorbelltest.Launch(t, s.Environ, "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100", "B200")

	s.Model.AddKey(doorbelltest.OtherKey, "A100", "B200")
	reload := func(text string) {
		t.Helper()
		seen := strings.Count(d.Stderr.String(), "were reloaded")
		rewrite(t, file, text)
		if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		doorbelltest.Eventually(t, "the file is read again", func() bool { return strings.Count(d.Stderr.String(), "were reloaded") > seen })
	}
	reload("A100=" + doorbelltest.OtherKey + "\nB200=" + doorbelltest.OtherKey + "\n")
	if err := s.Model.DeactivateKey(doorbelltest.TestKey); err != nil {
		t.Fatal(err)
	}
	sub.Request(t, s.Ring(t, "A100"))
	sub.Request(t, s.Ring(t, "B200"))
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
		if k := doorbelltest.Kinds(all, agency); doorbelltest.Count(k, "access.halted")+doorbelltest.Count(k, "access.resumed") > 0 {
			t.Errorf("the stream says of %s: %v", agency, k)
		}
	}
	d.Stop(t)
	doorbelltest.HoldsNobody(t, d.Stderr.String())
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEachTurnOfAPairBeginsWithTheKeysOfItsTime replaces the key while the doorbell waits. It may not
// send the one that its process has begun with, in no turn.
func TestEachTurnOfAPairBeginsWithTheKeysOfItsTime(t *testing.T) {
	t.Parallel()
	s, file := rotation(t, "A100="+doorbelltest.TestKey+"\n")
	far := doorbelltest.StartFar(t)
	_, js := doorbelltest.Connected(t, far.URL())
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: standby.Bucket, TTL: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	away := func() {
		t.Helper()
		if _, err := kv.PutString(t.Context(), "pair", `{"name":"machine-one","id":"1"}`); err != nil {
			t.Fatal(err)
		}
	}
	back := func() {
		t.Helper()
		if err := kv.Delete(t.Context(), "pair"); err != nil {
			t.Fatal(err)
		}
	}
	away()
	d := doorbelltest.Launch(t, s.With("NATS_URL="+far.URL(), "DOORBELL_STANDBY=pair"), "run")
	d.Stderr.Await(t, "another doorbell works")
	s.Model.AddKey(doorbelltest.OtherKey, "A100", "B200")
	if err := s.Model.DeactivateKey(doorbelltest.TestKey); err != nil {
		t.Fatal(err)
	}
	rewrite(t, file, "A100="+doorbelltest.OtherKey+"\n")
	back()
	s.GoesOn(t, "A100", 5)
	away()
	d.Stderr.Await(t, "the lease is lost")
	back()
	s.GoesOn(t, "A100", 5)
	sub := doorbelltest.SubscribeTo(t, far.URL())
	sub.Request(t, s.Ring(t, "A100"))
	if k := doorbelltest.Kinds(doorbelltest.MustBeWhole(t, far.URL()), "A100"); doorbelltest.Count(k, "access.halted") > 0 {
		t.Errorf("the stream says %v", k)
	}
	d.Stop(t)
}
