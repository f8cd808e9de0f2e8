package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
	"doorbell/events/natsd"
	"doorbell/events/natsd/natsdtest"
	"doorbell/events/stream"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

var must, eventually = helptest.Must, helptest.Eventually

func TestMain(m *testing.M) {
	if file := os.Getenv(serverConfig); file != "" {
		serve(file)
		return
	}
	if folder := os.Getenv(startedFolder); folder != "" {
		startOnce(folder)
		return
	}
	natsdtest.Parallel(4, 8)
	helptest.KeepInMemory()
	// The server's clock goroutine must not be born in a synctest bubble.
	ats.Register()
	code := m.Run()
	ats.Unregister()
	if code == 0 {
		// nats-server keeps the store of a stream that is being made while it shuts down, and with it its clock.
		const server = "github.com/nats-io/nats-server/v2/server"
		abandoned := goleak.IgnoreTopFunction(server + ".(*fileStore).flushStreamStateLoop")
		clock := goleak.IgnoreTopFunction(server + "/ats.Register.func1")
		if err := goleak.Find(abandoned, clock); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// bell is a server, a connection of the relay user, a log and the options to relay it.
type bell struct {
	t      testing.TB
	server *natsd.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	log    *eventLog
	o      Options
}

func newBell(t testing.TB, change ...func(*natsd.Options)) *bell {
	t.Helper()
	o := natsd.Options{StoreDir: t.TempDir(), Listen: "off", Protected: []string{"listings.v1.>"}}
	for _, c := range change {
		c(&o)
	}
	s, err := natsd.Start(t.Context(), o)
	must(t, err)
	t.Cleanup(s.Shutdown)
	b := &bell{t: t, server: s, log: newLog(t)}
	b.nc = b.connect()
	b.js, err = jetstream.New(b.nc)
	must(t, err)
	b.o = Options{
		Log: b.log, Conn: stream.Conn{Conn: b.nc}, Prefix: "listings", Stream: "LISTINGS", Embedded: true, Manage: true,
		StoreID: b.log.ID(), Logger: slog.New(slog.NewTextHandler(logTo(t), nil)),
	}
	return b
}

// bellOn is a bell at a server that is not ours.
func bellOn(t testing.TB, nc *nats.Conn) *bell {
	t.Helper()
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	b := &bell{t: t, nc: nc, js: js, log: newLog(t)}
	b.o = Options{
		Log: b.log, Conn: stream.Conn{Conn: nc}, Prefix: "listings", Stream: "LISTINGS", Manage: true, StoreID: b.log.ID(),
		AckWait: 2 * time.Second,
	}
	return b
}

func logTo(t testing.TB) io.Writer {
	if testing.Verbose() {
		return t.Output()
	}
	return io.Discard
}

func (b *bell) connect(opts ...nats.Option) *nats.Conn {
	b.t.Helper()
	nc, err := b.server.Connect("test", opts...)
	must(b.t, err)
	b.t.Cleanup(nc.Close)
	return nc
}

func (b *bell) relay() *Relay {
	b.t.Helper()
	r, err := New(b.o)
	must(b.t, err)
	return r
}

// deliver runs a new relay, as after a restart, until all is published.
func (b *bell) deliver() {
	b.t.Helper()
	must(b.t, b.relay().RunOnce(b.t.Context()))
}

// stream is the stream as it is.
func (b *bell) stream() jetstream.Stream {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), "LISTINGS")
	must(b.t, err)
	return s
}

// stray publishes what no relay of ours would.
func (b *bell) stray(subject string) {
	b.t.Helper()
	if _, err := b.js.Publish(b.t.Context(), subject, []byte("hello")); err != nil {
		b.t.Fatal(err)
	}
}

// resent counts the messages that are marked as offered again.
func (b *bell) resent() (n int) {
	b.t.Helper()
	for _, m := range held(b.t, b.js, "listings.v1.>") {
		if m.Header.Get(events.ResentHeader) != "" {
			n++
		}
	}
	return n
}

// held is what the stream holds below a filter, in its order.
func held(t testing.TB, js jetstream.JetStream, filter string) []*jetstream.RawStreamMsg {
	t.Helper()
	all, err := read(t.Context(), js, filter)
	must(t, err)
	return all
}

func read(ctx context.Context, js jetstream.JetStream, filter string) (all []*jetstream.RawStreamMsg, err error) {
	s, err := js.Stream(ctx, "LISTINGS")
	for next := uint64(1); err == nil; {
		var m *jetstream.RawStreamMsg
		if m, err = s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(filter)); err == nil {
			all, next = append(all, m), m.Sequence+1
		}
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = nil
	}
	return all, err
}

// compared is how messages of an agency differ from its log, from one event on: the events that they lack, those that are
// duplicate or unknown, and those in another order that were not offered again.
func compared(all []*jetstream.RawStreamMsg, log *eventLog, agency string, from int) (missing, wrong, disordered []string) {
	want, last := map[string]bool{}, ""
	for _, e := range log.list(agency)[from:] {
		want[e.ID] = true
	}
	for _, m := range all {
		id, sequence := m.Header.Get("ce-id"), m.Header.Get("ce-sequence")
		if id == "" {
			continue // a stray
		}
		if !want[id] {
			wrong = append(wrong, sequence)
		}
		delete(want, id)
		if m.Header.Get(events.ResentHeader) == "" {
			if sequence <= last {
				disordered = append(disordered, sequence)
			}
			last = sequence
		}
	}
	return slices.Collect(maps.Keys(want)), wrong, disordered
}

func exactlyOnce(t testing.TB, js jetstream.JetStream, log *eventLog, agency string, from int) {
	t.Helper()
	all := held(t, js, events.AgencyFilter("listings", agency))
	if missing, wrong, disordered := compared(all, log, agency, from); len(missing)+len(wrong)+len(disordered) > 0 {
		t.Fatalf("agency %s: missing %v, duplicate or unknown %v, out of order %v", agency, missing, wrong, disordered)
	}
}

// holdsAll reports whether the stream holds every event of an agency.
func (b *bell) holdsAll(agency string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	all, err := read(ctx, b.js, events.AgencyFilter("listings", agency))
	missing, _, _ := compared(all, b.log, agency, 0)
	return err == nil && len(missing) == 0
}

// start runs a relay until the returned function is called; that fails the test if Run ended with an error.
func (b *bell) start(r *Relay) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() {
		b.t.Helper()
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("Run ended with %v", err)
		}
	}
}

// published reports whether the last event of an agency is the last one in the stream.
func (b *bell) published(agency string) bool {
	all := b.log.list(agency)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := b.js.Stream(ctx, "LISTINGS")
	if err != nil {
		return false
	}
	for _, e := range slices.Backward(all) {
		m, err := s.GetLastMsgForSubject(ctx, events.Subject("listings", agency, e.Type))
		return err == nil && m.Header.Get("ce-id") == e.ID
	}
	return true
}

func TestEventsOfThreeAgenciesArriveOnceAndInOrder(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	stop := b.start(b.relay())
	agencies := []string{"A100", "B 200", "C#300"}
	for i := range 500 { // five reads of the log, as many writes of the cursor
		b.log.ring(t, agencies[i%3], 1)
	}
	for _, a := range agencies {
		eventually(t, "all published", func() bool { return b.published(a) })
	}
	stop()
	for _, a := range agencies {
		exactlyOnce(t, b.js, b.log, a, 0)
	}
	if c, _ := b.log.Cursor(); c.Position != 500 || c.Highest != 500 || c.StreamSequence != 500 || c.Read != 500 || c.StreamCreated.IsZero() {
		t.Fatalf("cursor %+v", c)
	}
	info, err := b.js.Stream(t.Context(), "LISTINGS")
	must(t, err)
	if n := info.CachedInfo().State.Msgs; n != 500 {
		t.Fatalf("the stream holds %d messages", n)
	}
}

func TestAMessageHasTheHeadersOfTheContract(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "C#300", 3)
	b.deliver()
	for i, m := range held(t, b.js, "listings.v1.>") {
		e := b.log.list("C#300")[i]
		if m.Subject != "listings.v1.C=23300.contact_request.created" {
			t.Fatalf("subject %s", m.Subject)
		}
		for name, value := range e.Header() {
			if got := m.Header[name]; len(got) != 1 || got[0] != value[0] {
				t.Errorf("header %s is %q, want %q", name, got, value)
			}
		}
		if m.Header.Get(events.ResentHeader) != "" {
			t.Error("a first copy is marked as sent again")
		}
		if got, err := events.Decode(m.Header, m.Data); err != nil || got.ID != e.ID || string(got.Data) != string(e.Data) {
			t.Errorf("decoded %v %v", got.ID, err)
		}
	}
}

func TestACommitOfTheCursorThatFailsEndsTheRelay(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 2)
	b.log.broken = errors.New("commit: input/output error")
	if err := b.relay().Run(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("Run: %v", err)
	}
	b.log.broken = nil // what landed in the meantime is recognised by the next process
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

func TestDrainPublishesWhatIsThereOrGivesUpWithItsContext(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 250) // three reads of the log
	r := b.relay()
	must(t, r.Drain(t.Context()))
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.server.Shutdown()
	if err := r.Drain(t.Context()); err != nil {
		t.Errorf("an empty log needs no server: %v", err)
	}
	eventually(t, "the end noticed", func() bool { return !b.nc.IsConnected() })
	b.log.ring(t, "A100", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Drain(ctx); err == nil {
		t.Error("Drain reports an event as published without a server")
	}
	s := r.Status()
	if n := s.Published[events.TypeContactRequestCreated]; n != 250 || s.Failures[reasonGone] == 0 || s.Open {
		t.Errorf("status %+v", s)
	}
}
