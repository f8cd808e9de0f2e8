package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
)

func TestAStoreThatIsNearlyFullIsAnAlarmEverywhere(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	environ := s.with("DOORBELL_STORE_MAX=1MiB")
	d := launch(t, environ, "run")
	subscribeTo(t, natsURL(t, s.dir)).baselined(t, "A100")
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
	d.stop(t)
	has(t, run(t, environ, "status").stdout, "The store is nearly full") // with nobody to ask
	holdsNobody(t, d.stderr.String()+got.stdout)
}
