package cli

import (
	"path/filepath"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
)

func TestStatusCountsOnlyWhatWaitsWhenTheDaemonStartsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	far := doorbelltest.StartFar(t)
	s := doorbelltest.NewScene(t, "A100")
	environ := s.With("NATS_URL=" + far.URL())
	d := doorbelltest.Launch(t, environ, "run")
	doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, far.URL())
	sub.Baselined(t, "A100")
	sub.Request(t, s.Ring(t, "A100"))
	d.Stop(t)
	far.Stop()
	doorbelltest.Launch(t, environ, "run")
	doorbelltest.NatsURL(t, s.Dir)
	s.Ring(t, "A100")
	client := ops.NewClient(filepath.Join(s.Dir, daemon.SocketFile))
	var relayed ops.RelayStatus
	doorbelltest.Eventually(t, "what waits", func() bool {
		status, err := client.Status(t.Context())
		if err != nil || len(status.Relay) != 1 {
			return false
		}
		relayed = status.Relay[0]
		return relayed.Pending > 0
	})
	if relayed.Pending != 1 || relayed.Acknowledged != 2 {
		t.Errorf("%+v", relayed)
	}
}
