package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
)

// TestADamagedStreamIsBuiltAnewFromTheEventLog flips one bit in the file without which the server cannot recover a stream.
func TestADamagedStreamIsBuiltAnewFromTheEventLog(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	d := doorbelltest.Launch(t, s.Environ, "run")
	from := time.Now()
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100", "B200")
	for range 5 {
		sub.Request(t, s.Ring(t, "A100"))
		sub.Request(t, s.Ring(t, "B200"))
	}
	d.Stop(t)
	metas, err := filepath.Glob(filepath.Join(s.Dir, daemon.StreamFolder, "jetstream/*/streams/LISTINGS/meta.inf"))
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

	d = doorbelltest.Launch(t, s.Environ, "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	sub = doorbelltest.SubscribeTo(t, url)
	sub.Request(t, s.Ring(t, "A100"))
	all := doorbelltest.Oracle{Model: s.Model, From: from, Until: from}.MustKeepItsPromises(t, url, doorbelltest.Patience)
	if n := doorbelltest.Count(doorbelltest.Kinds(all, "A100"), "contact_request.created"); n != 6 {
		t.Errorf("%d contact requests", n)
	}
	d.Stop(t)
	doorbelltest.Has(t, d.Stderr.String(), "was moved aside", "stream not found", "stream LISTINGS")
	doorbelltest.HoldsNobody(t, d.Stderr.String())
	asides, err := filepath.Glob(filepath.Join(s.Dir, "jetstream.damaged-*", "DOORBELL/streams/LISTINGS/meta.inf"))
	if err != nil || len(asides) != 1 {
		t.Fatal(asides, err)
	}
	if kept, err := os.ReadFile(asides[0]); err != nil || string(kept) != string(b) {
		t.Error("what was moved aside is not what was there")
	}
}
