package relay

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go"
)

func newPublishedBell(t *testing.T) (*bell, *scissors) {
	b, s := newCutBell(t)
	b.log.ring(t, "A100", 1)
	t.Cleanup(b.start(b.relay()))
	within(t, time.Second, "published", func() bool { return b.published("A100") })
	return b, s
}

// ringUnheard appends an event that the server never gets.
func (b *bell) ringUnheard(t *testing.T, s *scissors) {
	t.Helper()
	s.mu.Lock()
	s.at, s.hole = "Nats-Expected-Stream", true
	s.mu.Unlock()
	b.log.ring(t, "A100", 1)
	synctest.Wait()
}

// A message that the stream held and has lost is sent again with the header that says so: its acknowledgement must not be
// forgotten because the next event fails.
func TestWhatWasAcknowledgedIsStoredWhereTheNextEventFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, s := newPublishedBell(t)
		b.log.ring(t, "A100", 1)
		synctest.Wait()
		b.ringUnheard(t, s)
		if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
			t.Fatal(err)
		}
		within(t, time.Minute, "published", func() bool { return len(b.repairs("A100")) == 1 && b.published("A100") })
		b.wantRepairs("A100", "recreated 1-2 sent 2")
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}

// An answer that does not come ends with the error of a context, which at the end of a relay means nothing. That of the log does.
func TestACommitThatFailsEndsTheRelayAlsoWhereTheNextEventGetsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, s := newCutBell(t)
		b.log.ring(t, "A100", 1)
		ended := make(chan error, 1)
		r := b.relay()
		go func() { ended <- r.Run(t.Context()) }()
		within(t, time.Second, "published", func() bool { return b.published("A100") })
		b.log.ring(t, "A100", 1)
		synctest.Wait()
		b.ringUnheard(t, s)
		b.log.breakCommits()
		if err := <-ended; !errors.Is(err, ErrLog) {
			t.Errorf("Run: %v", err)
		}
	})
}

// failing is a log whose next commit fails, and counts what is committed after it.
type failing struct {
	*memLog
	next bool
	then int
}

func (f *failing) commit(do func() error) error {
	f.mu.Lock()
	fails := f.next
	if f.next = false; !fails {
		f.then++
	}
	f.mu.Unlock()
	if fails {
		return errors.New("commit: input/output error")
	}
	return do()
}

func (f *failing) SetCursor(agency string, to events.Cursor) error {
	return f.commit(func() error { return f.memLog.SetCursor(agency, to) })
}

func (f *failing) Publish(agency string, list []events.Event, to events.Cursor) error {
	return f.commit(func() error { return f.memLog.Publish(agency, list, to) })
}

func (f *failing) Append(e events.Event) error {
	return f.commit(func() error { return f.memLog.Append(e) })
}

func (f *failing) failNext() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.then = true, 0
}

func TestAfterACommitThatFailedNothingIsCommittedAnyMore(t *testing.T) {
	b := newBell(t)
	b.o.BatchEvents = 2
	b.log.ring(t, "A100", 5)
	log := &failing{memLog: b.log}
	b.o.Log = log
	log.failNext()
	if err := b.relay().Run(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("Run: %v", err)
	}
	if log.then != 0 {
		t.Errorf("%d commits followed", log.then)
	}
}

// TestARelayThatEndedForWantOfSpaceRunsAgain: of a full disk it is known that nothing was committed.
func TestARelayThatEndedForWantOfSpaceRunsAgain(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 3)
	log := &failing{memLog: b.log}
	b.o.Log = log
	r := b.relay()
	log.failNext()
	if err := r.Run(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("Run: %v", err)
	}
	defer b.start(r)()
	eventually(t, "published", func() bool { return b.published("A100") })
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

func TestARepairWhoseReportCannotBeWrittenIsReportedLater(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 5)
	b.deliver()
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	log := &failing{memLog: b.log}
	b.o.Log = log
	log.failNext()
	if err := b.relay().Run(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("Run: %v", err)
	}
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	if len(b.repairs("A100")) != 1 {
		t.Errorf("reported %q", b.repairs("A100"))
	}
}

// started runs a relay until its agencies are published and their workers rest no more.
func (b *bell) started(t *testing.T, agencies ...string) (r *Relay, stop func()) {
	t.Helper()
	for _, a := range agencies {
		b.log.ring(t, a, 1)
	}
	r = b.relay()
	stop = b.start(r)
	for _, a := range agencies {
		eventually(t, "published", func() bool { return b.published(a) })
	}
	return r, stop
}

func TestManyWhoCommitAtOnceDoubleNothingAndLoseNothing(t *testing.T) {
	b := newBell(t)
	_, stop := b.started(t, "A100")
	const each = 50
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range each {
				b.log.ring(t, "A100", 1)
			}
		}()
	}
	for range 4 {
		<-done
	}
	eventually(t, "published", func() bool { return b.published("A100") })
	stop()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100")
}

// deafWay leads to a server that reads nothing any more once it is deaf.
type deafWay struct {
	nats.InProcessConnProvider
	deaf atomic.Bool
	over chan struct{}
}

type deafConn struct {
	net.Conn
	way *deafWay
}

func (w *deafWay) InProcessConn() (net.Conn, error) {
	c, err := w.InProcessConnProvider.InProcessConn()
	return deafConn{c, w}, err
}

func (c deafConn) Write(b []byte) (int, error) {
	if c.way.deaf.Load() {
		<-c.way.over
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func TestWhoCommitsIsNotHeldUpByAServerThatReadsNothingAnyMore(t *testing.T) {
	b := newBell(t)
	w := &deafWay{InProcessConnProvider: b.server, over: make(chan struct{})}
	b.o.Conn, b.o.AckWait = b.connect(nats.InProcessServer(w)), 200*time.Millisecond
	_, stop := b.started(t, "A100", "B200")
	defer stop()
	defer close(w.over)
	w.deaf.Store(true)
	for _, a := range []string{"A100", "B200", "A100"} {
		committed := make(chan struct{})
		go func() { b.log.ring(t, a, 1); close(committed) }()
		select {
		case <-committed:
		case <-time.After(time.Minute):
			t.Fatalf("%s: who commits is held up", a)
		}
	}
}
