package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
)

// TestADamagedStreamIsBuiltAnewFromTheEventLog flips one bit in a message that the stream has acknowledged.
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
	blocks, err := filepath.Glob(filepath.Join(s.dir, daemon.StreamFolder, "jetstream/*/streams/LISTINGS/msgs/*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(blocks[0], b, 0o600); err != nil {
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
	has(t, d.stderr.String(), "are set aside", "checksum of a record", "built anew")
	holdsNobody(t, d.stderr.String())
	asides, err := filepath.Glob(filepath.Join(s.dir, "jetstream.corrupt-*", "DOORBELL/streams/LISTINGS/msgs/1.blk"))
	if err != nil || len(asides) != 1 {
		t.Fatal(asides, err)
	}
	if kept, err := os.ReadFile(asides[0]); err != nil || string(kept) != string(b) {
		t.Error("what was set aside is not what was there")
	}
}
