package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
)

// life runs a daemon on the scene's data directory while a test does something with its stream.
func life(s doorbelltest.Scene, t *testing.T, test func(a *daemon.Daemon, sub *doorbelltest.Subscriber), change ...func(*daemon.Options)) {
	t.Helper()
	lifeOf(s, t, s.Open(t, "127.0.0.1:0", change...), func(a *daemon.Daemon) { test(a, doorbelltest.SubscribeTo(t, a.Server().ClientURL())) })
}

// lifeOf runs a daemon while a test does something.
func lifeOf(s doorbelltest.Scene, t *testing.T, a *daemon.Daemon, test func(*daemon.Daemon)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	test(a)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	a.Close()
}

func TestALostStoreLosesNoContactRequestWhileTheStreamIsThere(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	var before, away, after string
	life(s, t, func(a *daemon.Daemon, sub *doorbelltest.Subscriber) {
		sub.Baselined(t, "A100")
		before = s.Ring(t, "A100")
		sub.Request(t, before)
	})
	if err := os.Remove(filepath.Join(s.Dir, daemon.StoreFile)); err != nil {
		t.Fatal(err)
	}
	away = s.Ring(t, "A100") // nobody watches
	time.Sleep(1100 * time.Millisecond)
	life(s, t, func(a *daemon.Daemon, sub *doorbelltest.Subscriber) {
		sub.Request(t, away)
		after = s.Ring(t, "A100")
		sub.Request(t, after)
		doorbelltest.MustBeWhole(t, a.Server().ClientURL(), before, away, after)
	})
}
