package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// Two daemons watch one agency and publish it to one NATS. One of them leaves it to the other, says so wherever people look, and publishes
// it again when it is told to; nothing is lost or doubled.
func TestTwoDaemonsOfOneAgencyAreSaidAndOneTakesItOver(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	url := startNATS(t, freePort(t))
	fast := []string{"NATS_URL=" + url, "DOORBELL_POLL_INTERVAL=1s", "DOORBELL_WALK_INTERVAL=2s", "DOORBELL_HTTP_LISTEN=off"}
	environs := [][]string{s.with(fast...), s.with(append(fast, "DOORBELL_DATA_DIR="+shortDir(t))...)}
	daemons := []*child{launch(t, environs[0], "run")}
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100")
	daemons = append(daemons, launch(t, environs[1], "run"))

	contested := func(n int) bool {
		var status ops.Status
		got := run(t, environs[n], "status", "--json")
		if json.Unmarshal([]byte(got.stdout), &status) != nil {
			return false
		}
		return len(status.Relay) == 1 && status.Relay[0].Contested
	}
	var written []string
	ring := func() {
		id := s.ring(t, "A100")
		written = append(written, id)
		sub.request(t, id)
	}
	loser := -1
	for end := time.Now().Add(2 * time.Minute); loser < 0; {
		if time.Now().After(end) {
			t.Fatal("both publish")
		}
		ring()
		for n := range daemons {
			if contested(n) {
				loser = n
			}
		}
	}
	status := run(t, environs[loser], "status", "--check")
	if status.code != exit.CodeFailed {
		t.Errorf("%+v", status)
	}
	has(t, status.stdout, "contested", "Another doorbell publishes A100", "doorbell takeover A100")
	has(t, daemons[loser].stderr.String(), "another doorbell publishes this agency: nothing more is published here")
	ring() // the other one publishes on

	daemons[1-loser].stop(t)
	id := s.ring(t, "A100")
	written = append(written, id)
	got := run(t, environs[loser], "takeover", "A100")
	if got.code != exit.Done || got.stdout != "A100 is published here again\n" {
		t.Fatalf("%+v", got)
	}
	sub.request(t, id)
	ring()
	if got := run(t, environs[loser], "takeover", "A100"); got.code != exit.Done || !strings.Contains(got.stdout, "was not left to another") {
		t.Errorf("%+v", got)
	}
	if got := run(t, environs[loser], "takeover", "B200"); got.code != exit.CodeFailed || !strings.Contains(got.stderr, "not watched") {
		t.Errorf("%+v", got)
	}
	mustBeWhole(t, url, written...)
}
