package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
)

// TestAStoreThatIsNearlyFullIsAnAlarmEverywhereAndOneThatIsFullIsNotReady fills it with what makes room later, and then with what does not.
func TestAStoreThatIsNearlyFullIsAnAlarmEverywhereAndOneThatIsFullIsNotReady(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	environ := s.with("DOORBELL_STORE_MAX=1MiB")
	d := launch(t, environ, "run")
	subscribeTo(t, natsURL(t, s.dir)).baselined(t, "A100")
	url := pageURL(t, s.dir)
	eventually(t, "readiness", func() bool {
		code, _ := get(t, url+"/readyz")
		return code == http.StatusOK
	})
	reference := s.model.Truth().Insertions[0].Reference
	for range 80 { // 80 × 20 kB and more
		_, err := s.model.AddContactRequest("A100", reference, sandbox.ContactRequest{
			CreatedAt: time.Now(), LastName: "Muster" + sandbox.Marker, Message: strings.Repeat("Guten Tag ", 1000),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	client := ops.NewClient(filepath.Join(s.dir, daemon.SocketFile))
	eventually(t, "an alarm", func() bool {
		is, err := client.Status(t.Context())
		return err == nil && is.Store.Alarm && is.Store.Max == 1<<20 && is.Store.InUse > 1<<19
	})
	d.stderr.await(t, `the store is nearly full`)
	got := run(t, environ, "status", "--check")
	if got.code != exit.CodeFailed {
		t.Errorf("exit code %d", got.code)
	}
	has(t, got.stdout, "The store is nearly full", "of 1 MiB (DOORBELL_STORE_MAX)", "raise DOORBELL_STORE_MAX")
	for n := range 500 { // what is remembered of insertions makes no room
		err := s.model.Publish("A100", sandbox.Insertion{Reference: fmt.Sprintf("full#%d##", n), Extra: map[string]json.RawMessage{"text": json.RawMessage(`"` + strings.Repeat("a", 2000) + `"`)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a full store", func() bool { return !checks(t, url)["space"].OK })
	if code, text := get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "space: the store holds") {
		t.Errorf("readyz: %d %s", code, text)
	}
	if code, text := get(t, url+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %s", code, text)
	}
	d.stop(t)
	has(t, run(t, environ, "status").stdout, "The store is full: polling stopped until there is room") // with nobody to ask
	holdsNobody(t, d.stderr.String()+got.stdout)
}
