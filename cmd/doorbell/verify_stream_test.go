package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events/relay"
)

// verifyIt runs the stream's half of verify.
func (s scene) verifyIt(t *testing.T, o streamVerify, asJSON bool) result {
	t.Helper()
	cfg, err := config.Read(s.environ)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	p := &program{stdin: strings.NewReader("y\n"), stdout: &stdout, stderr: &stderr, environ: s.environ}
	found, err := verifyStream(t.Context(), p, cfg, o, asJSON)
	if asJSON {
		err = firstError(p.printJSON(found), err)
	}
	code := report(&stderr, terminal{}, err)
	return result{code, stdout.String(), stderr.String()}
}

func TestVerifyFindsWhatTheStreamLacksAndSendsItAgainWhenTold(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	s.life(t, func(a *daemon.Daemon, sub *subscriber) {
		sub.baselined(t, "A100")
		for range 3 {
			sub.request(t, s.ring(t, "A100"))
		}
		if got := s.verifyIt(t, streamVerify{}, false); got.code != exit.Done || got.stderr != "" {
			t.Errorf("nothing is wrong: %+v", got)
		}
		hand, err := a.Server().Connect("hand")
		if err != nil {
			t.Fatal(err)
		}
		defer hand.Close()
		js, err := jetstream.New(hand)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), "LISTINGS")
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.DeleteMsg(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		got := s.verifyIt(t, streamVerify{}, false)
		if got.code != exit.CodeFailed {
			t.Errorf("one is missing: exit code %d", got.code)
		}
		has(t, got.stdout+got.stderr, "A100: published, and missing in the stream: 3", "doorbell verify --repair")
		var found []relay.Comparison
		got = s.verifyIt(t, streamVerify{}, true)
		if err := json.Unmarshal([]byte(got.stdout), &found); err != nil || len(found) != 1 || found[0].CountMissing() != 1 {
			t.Errorf("%v: %s", err, got.stdout)
		}
		if got = s.verifyIt(t, streamVerify{Repair: true}, false); got.code != exit.CodeUsage {
			t.Errorf("nobody sits here, and nobody said yes: %+v", got)
		}
		// A server that runs remembers the id for two minutes, and says so.
		if got = s.verifyIt(t, streamVerify{Repair: true, Yes: true}, false); got.code != exit.CodeFailed {
			t.Errorf("within the duplicate window: %+v", got)
		}
		has(t, got.stderr, "within two minutes")
	})
	got := s.verifyIt(t, streamVerify{Repair: true, Yes: true}, false)
	if got.code != exit.Done {
		t.Errorf("repair without a daemon: %+v", got)
	}
	has(t, got.stderr, "A100: 1 event sent again")
	if strings.Contains(got.stdout+got.stderr, "Muster") {
		t.Error("a person is in the output")
	}
	if got = s.verifyIt(t, streamVerify{}, false); got.code != exit.Done {
		t.Errorf("after the repair: %+v", got)
	}
	s.life(t, func(a *daemon.Daemon, sub *subscriber) {
		again := sub.await(t, "what was sent again", func(a arrival) bool { return a.header.Get("doorbell-resent") != "" })
		if again.kind() != "contact_request.created" {
			t.Errorf("%s was sent again", again.kind())
		}
		sub.event(t, "watch.stream_repaired", "A100")
		if got := s.verifyIt(t, streamVerify{}, false); got.code != exit.Done {
			t.Errorf("in the next life: %+v", got)
		}
	})
}

func TestVerifySaysWhoMakesAStreamThatIsMissing(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	s.life(t, func(_ *daemon.Daemon, sub *subscriber) { sub.baselined(t, "A100") })
	if err := os.RemoveAll(filepath.Join(s.dir, daemon.StreamFolder)); err != nil {
		t.Fatal(err)
	}
	got := s.verifyIt(t, streamVerify{Repair: true, Yes: true}, false)
	if got.code != exit.CodeFailed {
		t.Errorf("%+v", got)
	}
	has(t, got.stderr, "there is no stream LISTINGS", "start doorbell run: it makes the stream")
}
