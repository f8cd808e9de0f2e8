package forward

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/schemas/skiptest"

	"github.com/nats-io/nats.go"
)

// oldServer names the binary of Debian's nats-server, version 2.9.10; .ci/run installs it.
const oldServer = "DOORBELL_TEST_OLD_SERVER"

// debian runs Debian's server, and returns a connection to it.
func debian(t *testing.T) *nats.Conn {
	t.Helper()
	path := os.Getenv(oldServer)
	if path == "" {
		path = "/usr/sbin/nats-server"
	}
	out, err := exec.Command(path, "-v").Output()
	if err != nil || !strings.Contains(string(out), "v2.9.") {
		skiptest.Skipf(t, "there is no nats-server 2.9 of Debian: apt-get install nats-server, or name it by %s", oldServer)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir := tempDir(t)
	config := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: 127.0.0.1:%d\njetstream { store_dir: %q }\n", port, filepath.Join(dir, "js"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	nc, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", port), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	eventually(t, "connected", nc.IsConnected)
	return nc
}

func TestTheOldServerForwardsTooWithOneFilterOnly(t *testing.T) {
	nc := debian(t)
	s := newScript("a", 20)
	s.traits.Pace = 0
	w := worldWith(t, nc)
	w.o.Routes = []Route{{Receiver: s, Filter: Filter{Types: []string{"contact_request.created", "insertion.appeared", "access.>", "watch.stale"}}}}
	w.o.AckWait, w.o.Settle = 2*time.Second, 100*time.Millisecond
	before := w.lead("A100")
	_, stop := w.start()
	eventually(t, "the consumers are there", func() bool { return len(consumerNames(t, w)) == 2 })
	w.lead("A100")
	w.halt("A100", "k")
	if _, err := w.js.Publish(t.Context(), "listings.v1.A100.contact_request.created", []byte("foreign")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "forwarded", func() bool { return len(s.ids()) == 2 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		w.lead("A100")
	}
	bad := w.history[40-8].ID
	s.will(func(d Delivery) error {
		for _, e := range d.Events {
			if e.ID == bad {
				return &Permanent{Reason: "no"}
			}
		}
		return nil
	})
	_, stop = w.start()
	eventually(t, "the backlog is forwarded", func() bool { return len(s.ids()) == 31 && len(w.letters()) == 1 })
	eventually(t, "all that is for others is passed over", func() bool {
		for _, name := range consumerNames(t, w) {
			if c, err := w.js.Consumer(t.Context(), "LISTINGS", name); err != nil || c.CachedInfo().NumPending+uint64(c.CachedInfo().NumAckPending) > 0 {
				return false
			}
		}
		return true
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, id := range s.ids() {
		if id == before.ID {
			t.Error("an old one is forwarded")
		}
	}
	for _, name := range consumerNames(t, w) {
		c, err := w.js.Consumer(t.Context(), "LISTINGS", name)
		if err != nil {
			t.Fatal(err)
		}
		if i := c.CachedInfo(); len(i.Config.FilterSubjects) != 0 || i.NumAckPending != 0 {
			t.Errorf("%+v", i)
		}
	}
	w.rebuild()
	s.up()
	w.lead("A100")
	_, stop = w.start()
	eventually(t, "only what is new is forwarded", func() bool { return len(s.ids()) == 32 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
