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

// run calls beat twice per watchdog period until ctx ends.
func (n Notifier) run(ctx context.Context, beat func()) {
	if n.socket != "" && n.watchdog > 0 {
		every(ctx, n.watchdog/2, beat)
	}
	<-ctx.Done()
}

// watchdog reports to systemd that the process is alive as long as /livez does.
func (a *Daemon) watchdog(ctx context.Context) error {
	a.o.Notify.run(ctx, func() {
		if a.Health().Live {
			a.notify("WATCHDOG=1")
		}
	})
	return nil
}

// notify tells systemd how the program is.
func (a *Daemon) notify(state string) {
	if err := a.o.Notify.send(state); err != nil {
		a.o.Log.Warn("sd_notify failed", "err", err)
	}
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
