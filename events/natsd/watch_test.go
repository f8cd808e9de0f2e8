package natsd

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/events/helptest"

	"github.com/nats-io/nats.go/jetstream"
)

// publish waits for the acknowledgement for a second.
func publish(t *testing.T, js jetstream.JetStream) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := js.Publish(ctx, "listings.v1.A100.test", make([]byte, 2000))
	return err
}

func messages(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), "LISTINGS")
	must(t, err)
	return stream.CachedInfo().State.Msgs
}

func TestAServerThatMetAFullDiskIsRestartedWhenThereIsSpaceAndNotBefore(t *testing.T) {
	t.Parallel()
	dir, fill, free := helptest.SmallDisk(t, "8m", syscall.MNT_DETACH)
	var out helptest.Lines
	s := start(t, func(o *Options) {
		o.StoreDir, o.Logger = filepath.Join(dir, "jetstream"), slog.New(slog.NewTextHandler(&out, nil))
		o.CheckEvery = time.Millisecond
	})
	_, js := connect(t, s)
	makeStream(t, js, 3)
	crm, _ := guest(t, s)
	must(t, s.RunOnce(t.Context()))
	fill(0)
	acknowledged := 3
	for publish(t, js) == nil {
		acknowledged++
	}
	for range 3 {
		if err := s.RunOnce(t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("on a full disk: %v", err)
		}
	}
	if h := s.Status(); h.Restarts != 0 || !strings.Contains(h.Problem, "no space left") || h.Since.IsZero() {
		t.Fatalf("%+v", h)
	}
	free()
	if err := publish(t, js); err == nil {
		t.Fatal("the stock server recovers by itself: the restart is no longer needed")
	}
	must(t, s.RunOnce(t.Context()))
	if h := s.Status(); h.Restarts != 1 || h.Problem != "" {
		t.Fatalf("%+v", h)
	}
	eventually(t, "the relay's connection publishes again", func() bool { return publish(t, js) == nil })
	eventually(t, "the guest is back", crm.IsConnected)
	// A write that was never acknowledged may have landed.
	if n := messages(t, js); n < uint64(acknowledged)+1 {
		t.Fatalf("%d messages, %d were acknowledged", n, acknowledged+1)
	}
	for _, line := range []string{"accepts no events", "is restarted", "works again"} {
		if n := strings.Count(out.String(), line); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", line, n, out.String())
		}
	}
}

func TestAServerWhoseJetStreamIsOffIsRestarted(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *Options) { o.CheckEvery = 50 * time.Millisecond })
	_, js := connect(t, s)
	makeStream(t, js, 3)
	if err := s.running.ShutdownJetStream(); err != nil { // what it does to itself when it believes that the disk is full
		t.Fatal(err)
	}
	if err := s.RunOnce(t.Context()); err == nil || s.Status().Restarts > 0 {
		t.Fatalf("%v, %d restarts: it may recover by itself", err, s.Status().Restarts)
	}
	eventually(t, "restarted", func() bool { return s.RunOnce(t.Context()) == nil })
	eventually(t, "published", func() bool { return publish(t, js) == nil })
	if n := messages(t, js); n != 4 || s.Status().Restarts != 1 {
		t.Fatalf("%d messages, %d restarts", n, s.Status().Restarts)
	}
	must(t, s.running.ShutdownJetStream())
	for range 2 {
		if err := s.RunOnce(t.Context()); err == nil || s.Status().Restarts != 1 {
			t.Fatalf("%v, %d restarts: the next one waits", err, s.Status().Restarts)
		}
		s.status.Since = time.Now().Add(-time.Minute) // ill for as long as it takes
	}
}
