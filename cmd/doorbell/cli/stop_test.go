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

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/poller/sandbox"
)

// hanging is a NATS that accepts connections and, once it hangs, neither reads nor answers nor ends them.
type hanging struct {
	url   string
	hangs atomic.Bool
}

// hang stands between the daemon and a server. Without a server it hangs from the beginning.
func hang(t *testing.T, server string) *hanging {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	b := make([]byte, 4<<10)
	for !h.hangs.Load() {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if h.hangs.Load() {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// drain is how long these daemons may publish when they are stopped.
const drain = 300 * time.Millisecond

// inProcess makes the daemon that `doorbell run` makes of an environment, in this process, and what it logs.
func inProcess(t *testing.T, environ []string, change ...func(*daemon.Options)) (*daemon.Daemon, *doorbelltest.Transcript) {
	t.Helper()
	c, err := config.Read(environ, config.GroupPoll, config.GroupForward)
	if err != nil {
		t.Fatal(err)
	}
	said := &doorbelltest.Transcript{Grown: make(chan struct{}, 1)}
	t.Cleanup(func() { doorbelltest.HoldsNobody(t, said.String()) })
	o := DaemonOptions(c, (&program{stderr: said, environ: environ}).logger(c.Base))
	o.Drain = drain
	set, err := receivers.Open(c, release)
	if err != nil {
		t.Fatal(err)
	}
	if !set.IsEmpty() {
		o.Receivers, o.ForwarderNames = set, receivers.Kinds
	}
	for _, f := range change {
		f(&o)
	}
	a, err := daemon.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, said
}

// runs begins the run of a daemon. What it returns stops the daemon, and fails if it does not end before a write of the NATS client
// that hangs.
func runs(t *testing.T, a *daemon.Daemon) (endsInTime func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		err := a.Run(ctx)
		a.Close()
		ended <- err
	}()
	t.Cleanup(func() { // of a test that fails: nothing is closed below what runs
		select {
		case <-over:
		case <-time.After(doorbelltest.Patience):
		}
	})
	return func() {
		t.Helper()
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
}

// TestADaemonWhoseNATSHangsEndsInTime is about a server that hangs in the middle of a large batch.
func TestADaemonWhoseNATSHangsEndsInTime(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	server := doorbelltest.StartNATS(t, -1)
	h := hang(t, server)
	a, said := inProcess(t, s.With("NATS_URL="+h.url))
	endsInTime := runs(t, a)
	doorbelltest.SubscribeTo(t, server).Baselined(t, "A100")
	h.hangs.Store(true)
	for range 60 {
		ringLoudly(t, s)
	}
	s.GoesOn(t, "A100", 30)
	endsInTime()
	doorbelltest.Has(t, said.String(), "event log")
}

// ringLoudly makes a contact request with much to say.
func ringLoudly(t *testing.T, s doorbelltest.Scene) {
	t.Helper()
	i := s.Model.Truth().Insertions[0]
	if _, err := s.Model.AddContactRequest(i.AgencyID, i.Reference, sandbox.ContactRequest{Message: strings.Repeat("Guten Tag. ", 9000)}); err != nil {
		t.Fatal(err)
	}
}

func TestASecondSignalEndsTheDaemonAtOnce(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	s.Watched(t, "A100")
	d := doorbelltest.Launch(t, s.With("NATS_URL="+hang(t, "").url), "run")
	s.GoesOn(t, "A100", 30)
	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.Stderr.Await(t, "for at most 10 s; a second signal ends at once")
	begin := time.Now()
	if code := d.End(t, syscall.SIGTERM); code != exit.CodeFailed {
		t.Errorf("exit code %d:\n%s", code, d.Stderr.String())
	}
	if took := time.Since(begin); took > 5*time.Second { // the first one waits for ten
		t.Errorf("it took %s", took)
	}
}
