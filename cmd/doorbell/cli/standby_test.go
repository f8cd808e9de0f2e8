package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/standby"
	"doorbell/events/relay"
)

// lease is that of a pair of doorbells, of which the test plays the other one, machine-one. It does
// not expire: the test does not renew it.
type lease struct {
	*testing.T
	jetstream.KeyValue
}

func leaseOf(t *testing.T, js jetstream.JetStream) lease {
	t.Helper()
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: standby.Bucket})
	must(t, err)
	return lease{t, kv}
}

func (l lease) take() {
	l.Helper()
	if _, err := l.PutString(l.Context(), "pair", `{"name":"machine-one","id":"1"}`); err != nil {
		l.Fatal(err)
	}
}

func (l lease) giveBack() {
	l.Helper()
	if err := l.Delete(l.Context(), "pair"); err != nil {
		l.Fatal(err)
	}
}

func TestAWaitingDoorbellNamesTheActiveOne(t *testing.T) {
	t.Parallel()
	s, far := doorbelltest.NewScene(t, "A100"), doorbelltest.StartFar(t)
	_, js := doorbelltest.Connected(t, far.URL())
	other := leaseOf(t, js)
	if _, err := js.CreateStream(t.Context(), relay.Options{Prefix: "listings", Stream: "LISTINGS"}.StreamConfig()); err != nil {
		t.Fatal(err)
	}
	other.take()
	environ := s.With("NATS_URL="+far.URL(), "DOORBELL_STANDBY=pair", "DOORBELL_FEED_TOKEN=a-token-of-the-feed")
	p := doorbelltest.Launch(t, environ, "run")
	p.Stderr.Await(t, "another doorbell is active")

	got := doorbelltest.Run(t, environ, "status", "--check")
	doorbelltest.Has(t, got.Stdout, "All is well", "machine-one has been the active doorbell of pair")
	if got.Code != exit.Done {
		t.Errorf("status --check of a doorbell that waits: exit %d\n%s", got.Code, got.Stderr)
	}
	for _, command := range []string{"poll A100", "resume A100", "approve A100", "events ls", "replay --to nats --since 1h"} {
		got := doorbelltest.Run(t, environ, strings.Fields(command)...)
		if got.Code != exit.CodeFailed || !strings.Contains(got.Stderr, "the active doorbell of pair is machine-one") {
			t.Errorf("%s: exit %d\n%s", command, got.Code, got.Stderr)
		}
	}
	page := pageURL(t, s.Dir)
	for path, want := range map[string]string{"/": "machine-one has been the active doorbell of pair", "/readyz": "ok", "/livez": "ok", "/v1/status": `"works":false`} {
		if code, text := get(t, page+path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d\n%s", path, code, text)
		}
	}
	if code, text := get(t, strings.Replace(page, "://", "://reader:a-token-of-the-feed@", 1)+"/v1/events"); code != http.StatusOK || strings.TrimSpace(text) != "[]" {
		t.Errorf("a reader of the feed gets %d %s", code, text)
	}
	if n := s.Asked("A100"); n > 0 {
		t.Errorf("it has sent %d requests", n)
	}
	if got := doorbelltest.Launch(t, environ, "run").Exit(t); got != exit.CodeConfig {
		t.Errorf("a second doorbell with the same data directory: exit %d", got)
	}
	other.giveBack()
	s.GoesOn(t, "A100", 5)
	doorbelltest.Eventually(t, "the status says that it works", func() bool {
		return strings.Contains(doorbelltest.Run(t, environ, "status", "--json").Stdout, `"works": true`)
	})
	p.Stop(t)
	if _, err := other.Get(t.Context(), "pair"); err == nil {
		t.Error("the lease was not given back")
	}
}

// TestEachTakeoverStartsWithTheCurrentKeys replaces the key while the doorbell waits. After no
// takeover may it send the key that its process started with.
func TestEachTakeoverStartsWithTheCurrentKeys(t *testing.T) {
	t.Parallel()
	s, file := rotation(t, "A100="+doorbelltest.TestKey+"\n")
	far := doorbelltest.StartFar(t)
	_, js := doorbelltest.Connected(t, far.URL())
	other := leaseOf(t, js)
	other.take()
	d := doorbelltest.Launch(t, s.With("NATS_URL="+far.URL(), "DOORBELL_STANDBY=pair"), "run")
	d.Stderr.Await(t, "another doorbell is active")
	s.Model.AddKey(doorbelltest.OtherKey, "A100", "B200")
	must(t, s.Model.DeactivateKey(doorbelltest.TestKey))
	rewrite(t, file, "A100="+doorbelltest.OtherKey+"\n")
	other.giveBack()
	s.GoesOn(t, "A100", 5)
	other.take()
	d.Stderr.Await(t, "the lease is lost")
	other.giveBack()
	s.GoesOn(t, "A100", 5)
	doorbelltest.SubscribeTo(t, far.URL()).Request(t, s.Ring(t, "A100"))
	if k := doorbelltest.Kinds(doorbelltest.MustBeWhole(t, far.URL()), "A100"); doorbelltest.Count(k, "access.halted") > 0 {
		t.Errorf("the stream has %v", k)
	}
	d.Stop(t)
}
