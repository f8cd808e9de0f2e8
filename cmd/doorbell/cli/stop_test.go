package cli

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
)

// hanging is a NATS that accepts connections and, once it hangs, neither reads nor answers nor ends
// them.
type hanging struct {
	url   string
	hangs atomic.Bool
}

// hang is a proxy between the daemon and a server. Without a server it hangs from the start.
func hang(t *testing.T, server string) *hanging {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	h := &hanging{url: "nats://" + l.Addr().String()}
	h.hangs.Store(server == "")
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { client.Close() })
			_ = client.(*net.TCPConn).SetReadBuffer(4 << 10)
			if h.hangs.Load() {
				continue
			}
			behind, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				return
			}
			t.Cleanup(func() { behind.Close() })
			go h.pass(behind, client)
			go h.pass(client, behind)
		}
	}()
	return h
}

func (h *hanging) pass(from io.Reader, to io.Writer) {
	for b := make([]byte, 4<<10); ; {
		n, err := from.Read(b)
		if err != nil || h.hangs.Load() {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestADaemonStopsInTimeWhileNATSHangs has a server that hangs in the middle of a large batch. The
// daemon must exit although a write of the NATS client still hangs.
func TestADaemonStopsInTimeWhileNATSHangs(t *testing.T) {
	t.Parallel()
	s, server := doorbelltest.NewScene(t, "A100"), doorbelltest.StartNATS(t, -1)
	h := hang(t, server)
	a := s.Open(t, "off", func(o *daemon.Options) { o.NATS.URL, o.Drain = h.url, 300*time.Millisecond })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := a.Run(ctx)
		a.Close()
		ended <- err
	}()
	doorbelltest.SubscribeTo(t, server).Baselined(t, "A100")
	h.hangs.Store(true)
	i := s.Model.Truth().Insertions[0]
	for range 60 {
		c := sandbox.ContactRequest{Message: strings.Repeat("Guten Tag. ", 9000)}
		if _, err := s.Model.AddContactRequest(i.AgencyID, i.Reference, c); err != nil {
			t.Fatal(err)
		}
	}
	// The store closes after the commit that is under way: this one is of 6 MB, and takes seconds on
	// a busy machine.
	doorbelltest.Eventually(t, "all are in the log", func() bool {
		progress, err := a.Store().Progress()
		return err == nil && progress["A100"].Pending >= 60
	})
	s.GoesOn(t, "A100", 30)
	stop()
	begin := time.Now()
	select {
	case err := <-ended:
		if took := time.Since(begin); err != nil || took > 9*time.Second { // the client itself waits ten
			t.Errorf("it took %s to end: %v", took, err)
		}
	case <-time.After(doorbelltest.Patience):
		t.Error("it does not end")
	}
}

func TestASecondSignalEndsTheDaemonImmediately(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	s.Watched(t, "A100")
	d := doorbelltest.Launch(t, s.With("NATS_URL="+hang(t, "").url), "run")
	s.GoesOn(t, "A100", 30)
	must(t, d.Cmd.Process.Signal(syscall.SIGTERM))
	d.Stderr.Await(t, "for at most 10 s; a second signal stops immediately")
	begin := time.Now()
	if code := d.End(t, syscall.SIGTERM); code != exit.CodeFailed {
		t.Errorf("exit code %d:\n%s", code, d.Stderr.String())
	}
	if took := time.Since(begin); took > 5*time.Second { // the first one waits for ten
		t.Errorf("it took %s", took)
	}
}
