package natsd_test

import (
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"doorbell/events/natsd/natsdtest"
)

// TestAPortIsFreeAgainWhileProcessesAreStarted listens where a listener was just closed. Without AwaitPort one in fifty fails.
func TestAPortIsFreeAgainWhileProcessesAreStarted(t *testing.T) {
	start := func() error { return exec.Command(os.Args[0], "-test.run", "^$").Run() }
	if err := start(); err != nil { // before the first one os looks for pidfd by a fork without the lock
		t.Fatal(err)
	}
	var starting sync.WaitGroup
	ended := make(chan struct{})
	for range 6 {
		starting.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					_ = start()
				}
			}
		})
	}
	defer starting.Wait()
	defer close(ended)
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	for range 300 {
		l, err := net.ListenTCP("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		*address = *l.Addr().(*net.TCPAddr)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := natsdtest.AwaitPort("127.0.0.1", address.Port); err != nil {
			t.Fatal(err)
		}
	}
}
