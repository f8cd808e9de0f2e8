package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// manager listens as systemd does and returns the environment that it hands over.
func manager(t *testing.T, address string) (*net.UnixConn, func(string) string) {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	environ := map[string]string{"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": strconv.Itoa(os.Getpid())}
	return c, func(name string) string { return environ[name] }
}

func next(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil { // only ends a hang
		t.Fatal(err)
	}
	datagram := make([]byte, 100)
	n, err := c.Read(datagram)
	if err != nil {
		t.Fatal(err)
	}
	return string(datagram[:n])
}

func TestSystemdHearsWhenWeAreReadyAliveAndStopping(t *testing.T) {
	for _, address := range []string{filepath.Join(t.TempDir(), "notify"), "@doorbell-test-" + strconv.Itoa(os.Getpid())} {
		socket, getenv := manager(t, address)
		n := NewNotifier(getenv)
		if err := n.ready(); err != nil {
			t.Fatal(err)
		}
		if got := next(t, socket); got != "READY=1" {
			t.Errorf("heard %q", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- n.run(ctx, func() bool { return true }, func(err error) { t.Error(err) }) }()
		for range 3 {
			if got := next(t, socket); got != "WATCHDOG=1" {
				t.Errorf("heard %q", got)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := n.stopping(); err != nil {
			t.Fatal(err)
		}
		for got := next(t, socket); got != "STOPPING=1"; got = next(t, socket) {
			if got != "WATCHDOG=1" {
				t.Errorf("heard %q", got)
			}
		}
	}
}

func TestAProgramThatHangsGivesNoSignOfLife(t *testing.T) {
	socket, getenv := manager(t, filepath.Join(t.TempDir(), "notify"))
	n := NewNotifier(getenv)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{}, 1)
	done := make(chan error)
	go func() {
		done <- n.run(ctx, func() bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return false
		}, nil)
	}()
	<-asked
	<-asked
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := n.stopping(); err != nil {
		t.Fatal(err)
	}
	if got := next(t, socket); got != "STOPPING=1" {
		t.Errorf("heard %q", got)
	}
}

func TestASignOfLifeThatCannotBeSentEndsNothing(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	socket, getenv := manager(t, address)
	if err := errors.Join(socket.Close(), os.RemoveAll(address)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	unheard, done := make(chan error, 3), make(chan error, 1)
	go func() {
		done <- NewNotifier(getenv).run(ctx, func() bool { return true }, func(err error) {
			select {
			case unheard <- err:
			default:
			}
		})
	}()
	for range 3 {
		select {
		case <-unheard:
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		}
	}
	again, _ := manager(t, address)
	if got := next(t, again); got != "WATCHDOG=1" {
		t.Errorf("heard %q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWithoutSystemdNothingIsSent(t *testing.T) {
	n := NewNotifier(func(string) string { return "" })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.ready(); err != nil {
		t.Error(err)
	}
	if err := n.run(ctx, func() bool { t.Error("asked whether it is alive"); return true }, nil); err != nil {
		t.Error(err)
	}
}

func TestAWatchdogForAnotherProcessIsNotOurs(t *testing.T) {
	environ := map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
	if n := NewNotifier(func(name string) string { return environ[name] }); n.watchdog != 0 {
		t.Errorf("watchdog of %v", n.watchdog)
	}
}
