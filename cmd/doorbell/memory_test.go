package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/events"
)

// life runs a daemon on the scene's data directory while a test does something with its stream.
func (s scene) life(t *testing.T, test func(a *daemon.Daemon, sub *subscriber), change ...func(*daemon.Options)) {
	t.Helper()
	a := s.open(t, "127.0.0.1:0", change...)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	test(a, subscribeTo(t, a.Server().ClientURL()))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	a.Close()
}

// wantWhole reads the stream and fails if an event stands twice or a sequence is missing.
func wantWhole(t *testing.T, a *daemon.Daemon, requests ...string) {
	t.Helper()
	all, err := readStream(t.Context(), a.Server().ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	ids, last, times := map[string]bool{}, uint64(0), map[string]int{}
	for _, m := range all {
		e, err := events.Decode(m.header, m.data)
		if err != nil {
			t.Fatal(err)
		}
		if ids[e.ID] {
			t.Errorf("%s %d stands twice", e.Type, e.Sequence)
		}
		if last != 0 && e.Sequence != last+1 {
			t.Errorf("%d follows %d", e.Sequence, last)
		}
		ids[e.ID], last = true, e.Sequence
		if m.kind() == "contact_request.created" {
			times[m.body.ContactRequestID]++
		}
	}
	for _, id := range requests {
		if times[id] != 1 {
			t.Errorf("contact request %s stands %d times", id, times[id])
		}
	}
}

func TestALostStoreLosesNoContactRequestWhileTheStreamIsThere(t *testing.T) {
	s := newScene(t, "A100")
	var before, away, after string
	s.life(t, func(a *daemon.Daemon, sub *subscriber) {
		sub.baselined(t, "A100")
		before = s.ring(t, "A100")
		sub.request(t, before)
	})
	for _, name := range []string{daemon.StoreFile, "store-id"} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	away = s.ring(t, "A100") // nobody watches
	time.Sleep(1100 * time.Millisecond)
	s.life(t, func(a *daemon.Daemon, sub *subscriber) {
		sub.request(t, away)
		after = s.ring(t, "A100")
		sub.request(t, after)
		wantWhole(t, a, before, away, after)
	})
}

func TestARestoredBackupRepeatsNothing(t *testing.T) {
	s := newScene(t, "A100")
	file := filepath.Join(s.dir, daemon.StoreFile)
	var first, second, third string
	s.life(t, func(a *daemon.Daemon, sub *subscriber) {
		sub.baselined(t, "A100")
		first = s.ring(t, "A100")
		sub.request(t, first)
	})
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.life(t, func(a *daemon.Daemon, sub *subscriber) {
		second = s.ring(t, "A100")
		sub.request(t, second)
	})
	if err := os.WriteFile(file, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	s.life(t, func(a *daemon.Daemon, sub *subscriber) {
		sub.event(t, "watch.stream_repaired", "A100")
		third = s.ring(t, "A100")
		sub.request(t, third)
		wantWhole(t, a, first, second, third)
	})
}
