package main

import (
	"path/filepath"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
)

func TestStatusCountsOnlyWhatWaitsWhenTheDaemonStartsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	far := startFar(t)
	s := newScene(t, "A100")
	environ := s.with("NATS_URL=" + far.url())
	d := launch(t, environ, "run")
	natsURL(t, s.dir)
	sub := subscribeTo(t, far.url())
	sub.baselined(t, "A100")
	sub.request(t, s.ring(t, "A100"))
	d.stop(t)
	far.stop()
	launch(t, environ, "run")
	natsURL(t, s.dir)
	s.ring(t, "A100")
	client := ops.NewClient(filepath.Join(s.dir, daemon.SocketFile))
	var relayed ops.RelayStatus
	eventually(t, "what waits", func() bool {
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
