package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
)

// TestANearlyFullStoreIsAnAlarmEverywhereAndAFullOneIsNotReady fills the store with what can be
// removed later, and then with what cannot.
func TestANearlyFullStoreIsAnAlarmEverywhereAndAFullOneIsNotReady(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	environ := s.With("DOORBELL_STORE_MAX=1MiB")
	d := doorbelltest.Launch(t, environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
	url := pageURL(t, s.Dir)
	doorbelltest.Eventually(t, "readiness", func() bool {
		code, _ := get(t, url+"/readyz")
		return code == http.StatusOK
	})
	reference := s.Model.Truth().Insertions[0].Reference
	for range 80 { // 80 × 20 kB and more
		_, err := s.Model.AddContactRequest("A100", reference, sandbox.ContactRequest{
			CreatedAt: time.Now(), LastName: "Muster" + sandbox.Marker, Message: strings.Repeat("Guten Tag ", 1000),
		})
		must(t, err)
	}
	client := ops.NewClient(filepath.Join(s.Dir, daemon.SocketFile))
	doorbelltest.Eventually(t, "an alarm", func() bool {
		is, err := client.Status(t.Context())
		return err == nil && is.Store.Alarm && is.Store.Max == 1<<20 && is.Store.InUse > 1<<19
	})
	d.Stderr.Await(t, `the store is nearly full`)
	got := doorbelltest.Run(t, environ, "status", "--check")
	if got.Code != exit.CodeFailed {
		t.Errorf("exit code %d", got.Code)
	}
	doorbelltest.Has(t, got.Stdout, "The store is nearly full", "of 1 MiB (DOORBELL_STORE_MAX)", "raise DOORBELL_STORE_MAX")
	for n := range 500 { // what is remembered of insertions makes no room
		err := s.Model.Publish("A100", sandbox.Insertion{Reference: fmt.Sprintf("full#%d##", n), Extra: map[string]json.RawMessage{"text": json.RawMessage(`"` + strings.Repeat("a", 2000) + `"`)}})
		must(t, err)
	}
	doorbelltest.Eventually(t, "a full store", func() bool { return !checks(t, url)["space"].OK })
	if code, text := get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "space: the store holds") {
		t.Errorf("readyz: %d %s", code, text)
	}
	if code, text := get(t, url+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %s", code, text)
	}
	doorbelltest.Has(t, doorbelltest.Run(t, environ, "status").Stdout, "The store is full: polling stopped until there is room")
	d.Stop(t)
	doorbelltest.HoldsNobody(t, d.Stderr.String()+got.Stdout)
}
