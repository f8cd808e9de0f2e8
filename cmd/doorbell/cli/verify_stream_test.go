package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events/relay"

	"github.com/nats-io/nats.go/jetstream"
)

// verifyIt runs the stream's half of verify.
func verifyIt(s doorbelltest.Scene, t *testing.T, o streamVerify, asJSON bool) doorbelltest.Result {
	t.Helper()
	cfg, err := config.Read(s.Environ)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	p := &program{stdin: strings.NewReader("y\n"), stdout: &stdout, stderr: &stderr, environ: s.Environ}
	found, err := verifyStream(t.Context(), p, cfg, o, asJSON)
	if asJSON {
		err = firstError(p.printJSON(found), err)
	}
	code := report(&stderr, Terminal{}, err)
	return doorbelltest.Result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

func TestVerifyFindsWhatTheStreamLacksAndSendsItAgainWhenTold(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	life(s, t, func(a *daemon.Daemon, sub *doorbelltest.Subscriber) {
		sub.Baselined(t, "A100")
		for range 3 {
			sub.Request(t, s.Ring(t, "A100"))
		}
		if got := verifyIt(s, t, streamVerify{}, false); got.Code != exit.Done || got.Stderr != "" {
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
		got := verifyIt(s, t, streamVerify{}, false)
		if got.Code != exit.CodeFailed {
			t.Errorf("one is missing: exit code %d", got.Code)
		}
		doorbelltest.Has(t, got.Stdout+got.Stderr, "A100: published, and missing in the stream: 3", "doorbell verify --repair")
		var found []relay.Comparison
		got = verifyIt(s, t, streamVerify{}, true)
		if err := json.Unmarshal([]byte(got.Stdout), &found); err != nil || len(found) != 1 || found[0].CountMissing() != 1 {
			t.Errorf("%v: %s", err, got.Stdout)
		}
		if got = verifyIt(s, t, streamVerify{Repair: true}, false); got.Code != exit.CodeUsage {
			t.Errorf("nobody sits here, and nobody said yes: %+v", got)
		}
		// A server that runs remembers the id for two minutes, and says so.
		if got = verifyIt(s, t, streamVerify{Repair: true, Yes: true}, false); got.Code != exit.CodeFailed {
			t.Errorf("within the duplicate window: %+v", got)
		}
		doorbelltest.Has(t, got.Stderr, "within two minutes")
	})
	got := verifyIt(s, t, streamVerify{Repair: true, Yes: true}, false)
	if got.Code != exit.Done {
		t.Errorf("repair without a daemon: %+v", got)
	}
	doorbelltest.Has(t, got.Stderr, "A100: 1 event sent again")
	if strings.Contains(got.Stdout+got.Stderr, "Muster") {
		t.Error("a person is in the output")
	}
	if got = verifyIt(s, t, streamVerify{}, false); got.Code != exit.Done {
		t.Errorf("after the repair: %+v", got)
	}
	life(s, t, func(a *daemon.Daemon, sub *doorbelltest.Subscriber) {
		again := sub.Await(t, "what was sent again", func(a doorbelltest.Arrival) bool { return a.Header.Get("doorbell-resent") != "" })
		if again.Kind() != "contact_request.created" {
			t.Errorf("%s was sent again", again.Kind())
		}
		sub.Event(t, "watch.stream_repaired", "A100")
		if got := verifyIt(s, t, streamVerify{}, false); got.Code != exit.Done {
			t.Errorf("in the next life: %+v", got)
		}
	})
}

func TestVerifySaysWhoMakesAStreamThatIsMissing(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	life(s, t, func(_ *daemon.Daemon, sub *doorbelltest.Subscriber) { sub.Baselined(t, "A100") })
	if err := os.RemoveAll(filepath.Join(s.Dir, daemon.StreamFolder)); err != nil {
		t.Fatal(err)
	}
	got := verifyIt(s, t, streamVerify{Repair: true, Yes: true}, false)
	if got.Code != exit.CodeFailed {
		t.Errorf("%+v", got)
	}
	doorbelltest.Has(t, got.Stderr, "there is no stream LISTINGS", "start doorbell run: it makes the stream")
}
