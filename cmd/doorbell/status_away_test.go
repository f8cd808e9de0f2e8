package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
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

func TestStatusAndLogSayWhoWaitsForNATS(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	environ := s.with("DOORBELL_AGENCIES=A100,B200", fmt.Sprintf("NATS_URL=nats://127.0.0.1:%d", freePort(t)))
	d := launch(t, environ, "run")
	natsURL(t, s.dir)
	d.stderr.await(t, `"msg":"watching","waiting":2,"agencies":0,`)
	got := run(t, environ, "status", "--check")
	if got.code != exit.CodeFailed {
		t.Errorf("exit code %d", got.code)
	}
	has(t, got.stderr, "doorbell: NATS is not connected\n")
	has(t, run(t, environ, "events", "ls").stderr, "the event log is empty")
	has(t, got.stdout, "2 agencies wait for the stream, since ", "A100, B200", "doorbell run --alone")
}
