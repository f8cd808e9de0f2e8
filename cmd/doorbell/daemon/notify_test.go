package daemon

import (
	"context"
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
	must(t, err)
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
	must(t, err)
	return string(datagram[:n])
}

func TestSystemdIsNotifiedOfReadyAliveAndStopping(t *testing.T) {
	for _, address := range []string{filepath.Join(t.TempDir(), "notify"), "@doorbell-test-" + strconv.Itoa(os.Getpid())} {
		socket, getenv := manager(t, address)
		a, _ := open(t, "A100")
		a.o.Notify = NewNotifier(getenv)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		heard := map[string]bool{}
		for _, want := range []string{"READY=1", "WATCHDOG=1", "STOPPING=1"} {
			for !heard[want] {
				heard[next(t, socket)] = true
			}
			if want == "WATCHDOG=1" {
				stop()
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestAHungDaemonSendsNoKeepAlive(t *testing.T) {
	socket, getenv := manager(t, filepath.Join(t.TempDir(), "notify"))
	a, _ := open(t, "A100")
	a.o.Notify = NewNotifier(getenv)
	a.watched.Load().made = time.Now().Add(-time.Hour)
	ctx, stop := context.WithTimeout(t.Context(), 5*a.o.Notify.watchdog)
	defer stop()
	must(t, a.watchdog(ctx))
	a.notify("STOPPING=1")
	if got := next(t, socket); got != "STOPPING=1" {
		t.Errorf("heard %q", got)
	}
}

func TestAWatchdogForAnotherProcessIsNotOurs(t *testing.T) {
	environ := map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
	if n := NewNotifier(func(name string) string { return environ[name] }); n.watchdog != 0 {
		t.Errorf("watchdog of %v", n.watchdog)
	}
}
