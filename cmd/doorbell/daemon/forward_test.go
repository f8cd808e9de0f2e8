package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"doorbell/events/forward"
	"doorbell/events/natsd"
	"doorbell/events/stream"
)

// named is a receiver that is never sent anything.
type named string

func (named) Send(context.Context, forward.Delivery) error { return nil }
func (n named) Traits() forward.Traits                     { return forward.Traits{Destination: string(n)} }

// TestRoutesThatChangeWhileAForwarderBeginsComeIntoForce changes them while it reads its file.
func TestRoutesThatChangeWhileAForwarderBeginsComeIntoForce(t *testing.T) {
	server, err := natsd.Start(t.Context(), natsd.Options{StoreDir: t.TempDir(), Listen: "off", ProtectedSubjects: "listings.v1.>"})
	must(t, err)
	t.Cleanup(server.Shutdown)
	conn, err := server.Connect("test")
	must(t, err)
	t.Cleanup(conn.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "forward", "run.json")
	must(t, os.Mkdir(filepath.Dir(file), 0o700))
	must(t, syscall.Mkfifo(file, 0o600))

	to := func(n named) []forward.Route { return []forward.Route{{Receiver: n, Forwarder: "slack"}} }
	f := &forwarding{routes: to("a"), read: time.Now()}
	began := make(chan *forward.Forwarder, 1)
	go func() {
		now, err := f.open(forward.Options{
			Conn: stream.Conn{Conn: conn}, Prefix: "listings", Stream: "LISTINGS", Dir: dir, Name: "run", Forwarders: []string{"slack"},
		})
		if err != nil {
			t.Error(err)
		}
		began <- now
	}()
	reading, err := os.OpenFile(file, os.O_WRONLY, 0) // waits until it is read
	must(t, err)
	change := func() { f.change(slog.New(slog.DiscardHandler), to("b"), "") }
	changed := make(chan struct{})
	if f.mu.TryLock() {
		f.mu.Unlock()
		change()
		close(changed)
	} else {
		go func() {
			change()
			close(changed)
		}()
	}
	_, err = reading.WriteString(`{"version":3,"name":"run","tables":[{"rules":null}]}`)
	must(t, err)
	must(t, reading.Close())
	now := <-began
	<-changed

	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- now.Run(ctx) }()
	inForce := func() bool {
		return slices.ContainsFunc(now.Status(), func(w forward.WorkerStatus) bool { return w.Destination == "b" })
	}
	for !inForce() && ctx.Err() == nil {
		<-time.After(10 * time.Millisecond)
	}
	if !inForce() {
		t.Error("the changed routes are not in force")
	}
	stop()
	must(t, <-ended)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
