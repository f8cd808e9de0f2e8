package daemon

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"
)

// Notifier tells systemd (Type=notify) how the program is. The zero value, for everywhere else,
// says nothing.
type Notifier struct {
	socket   string        // path, or @name for an abstract socket
	watchdog time.Duration // a heartbeat is due within; 0 for never
}

// NewNotifier reads the variables of systemd through a lookup. A watchdog for another process is
// not ours.
func NewNotifier(getenv func(string) string) Notifier {
	n := Notifier{socket: getenv("NOTIFY_SOCKET")}
	pid := getenv("WATCHDOG_PID")
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n
}

// ready says that the start is over.
func (n Notifier) ready() error { return n.send("READY=1") }

// stopping says that the drain has begun.
func (n Notifier) stopping() error { return n.send("STOPPING=1") }

// run sends a heartbeat twice per watchdog period while alive returns true, until ctx ends. failed
// is called for one that could not be sent, which ends nothing.
func (n Notifier) run(ctx context.Context, alive func() bool, failed func(error)) error {
	if n.socket == "" || n.watchdog == 0 {
		<-ctx.Done()
		return nil
	}
	every(ctx, n.watchdog/2, func() {
		if alive() {
			if err := n.send("WATCHDOG=1"); err != nil {
				failed(err)
			}
		}
	})
	return nil
}

// send writes one datagram. net turns a leading @ into an abstract address.
func (n Notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(state))
	return err
}
