package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
)

// TestADamagedStreamIsBuiltAnewFromTheEventLog flips one bit in the file without which the server cannot recover a stream.
func TestADamagedStreamIsBuiltAnewFromTheEventLog(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	d := launch(t, s.environ, "run")
	from := time.Now()
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100", "B200")
	for range 5 {
		sub.request(t, s.ring(t, "A100"))
		sub.request(t, s.ring(t, "B200"))
	}
	d.stop(t)
	metas, err := filepath.Glob(filepath.Join(s.dir, daemon.StreamFolder, "jetstream/*/streams/LISTINGS/meta.inf"))
	if err != nil || len(metas) != 1 {
		t.Fatal(metas, err)
	}
	b, err := os.ReadFile(metas[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(metas[0], b, 0o600); err != nil {
		t.Fatal(err)
	}

	d = launch(t, s.environ, "run")
	url := natsURL(t, s.dir)
	sub = subscribeTo(t, url)
	repaired := map[string]bool{}
	sub.await(t, "the repair of both", func(e arrival) bool {
		if e.kind() == "watch.stream_repaired" {
			repaired[e.body.AgencyID] = e.member(t, "reason") == "recreated" && e.member(t, "sentAgain").(float64) >= 6
		}
		return repaired["A100"] && repaired["B200"]
	})
	sub.request(t, s.ring(t, "A100"))
	all := oracle{model: s.model, from: from, until: from}.mustKeepItsPromises(t, url, patience)
	if n := count(kinds(all, "A100"), "contact_request.created"); n != 6 {
		t.Errorf("%d contact requests", n)
	}
	d.stop(t)
	has(t, d.stderr.String(), "was moved aside", "stream not found", "stream LISTINGS")
	holdsNobody(t, d.stderr.String())
	asides, err := filepath.Glob(filepath.Join(s.dir, "jetstream.damaged-*", "DOORBELL/streams/LISTINGS/meta.inf"))
	if err != nil || len(asides) != 1 {
		t.Fatal(asides, err)
	}
	if kept, err := os.ReadFile(asides[0]); err != nil || string(kept) != string(b) {
		t.Error("what was moved aside is not what was there")
	}
}
