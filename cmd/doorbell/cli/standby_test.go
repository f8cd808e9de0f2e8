package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/standby"
	"doorbell/events/relay"
)

func TestADoorbellThatWaitsNamesTheOneThatWorks(t *testing.T) {
	t.Parallel()
	far := doorbelltest.StartFar(t)
	_, js := doorbelltest.Connected(t, far.URL())
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: standby.Bucket, TTL: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), relay.Options{Prefix: "listings", Stream: "LISTINGS"}.StreamConfig()); err != nil {
		t.Fatal(err)
	}
	other, err := json.Marshal(standby.Holder{Name: "machine-one", ID: "1", Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "pair", other); err != nil {
		t.Fatal(err)
	}
	s := doorbelltest.NewScene(t, "A100")
	environ := s.With("NATS_URL="+far.URL(), "DOORBELL_STANDBY=pair", "DOORBELL_FEED_TOKEN=a-token-of-the-feed")
	p := doorbelltest.Launch(t, environ, "run")
	p.Stderr.Await(t, "another doorbell works")

	got := doorbelltest.Run(t, environ, "status", "--check")
	doorbelltest.Has(t, got.Stdout, "All is well", "machine-one works for pair")
	if got.Code != exit.Done {
		t.Errorf("status --check of a doorbell that waits: exit %d\n%s", got.Code, got.Stderr)
	}
	for _, command := range []string{"poll A100", "resume A100", "approve A100", "events ls", "replay --to nats --since 1h"} {
		got := doorbelltest.Run(t, environ, strings.Fields(command)...)
		if got.Code != exit.CodeFailed || !strings.Contains(got.Stderr, "machine-one works for pair") {
			t.Errorf("%s: exit %d\n%s", command, got.Code, got.Stderr)
		}
	}
	var status struct{ Page string }
	if err := json.Unmarshal([]byte(doorbelltest.Run(t, environ, "status", "--json").Stdout), &status); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "machine-one works for pair", "readyz": "ok", "livez": "ok", "v1/status": `"works":false`} {
		response, err := http.Get(status.Page + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("/%s: %s\n%s", path, response.Status, body)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, status.Page+"v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer a-token-of-the-feed")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("doorbell-feed-cursor") == "" {
		t.Errorf("a reader of the feed gets %s", response.Status)
	}
	if n := s.Asked("A100"); n > 0 {
		t.Errorf("it has sent %d requests", n)
	}
	if got := doorbelltest.Launch(t, environ, "run").Exit(t); got != exit.CodeConfig {
		t.Errorf("a second doorbell with the same data directory: exit %d", got)
	}

	if err := kv.Delete(t.Context(), "pair"); err != nil {
		t.Fatal(err)
	}
	s.GoesOn(t, "A100", 5)
	doorbelltest.Eventually(t, "the status says that it works", func() bool {
		return strings.Contains(doorbelltest.Run(t, environ, "status", "--json").Stdout, `"works": true`)
	})
	p.Stop(t)
	if _, err := kv.Get(t.Context(), "pair"); err == nil {
		t.Error("the lease was not given back")
	}
}
