package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/natsd/natsdtest"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(serverFolder); folder != "" {
		serve(folder)
		return
	}
	if folder := os.Getenv(startedFolder); folder != "" {
		startOnce(folder)
		return
	}
	if file := os.Getenv(serverConfig); file != "" {
		serveConfigured(file)
		return
	}
	natsdtest.Parallel(4, 8)
	// The server's clock goroutine must not be born in a synctest bubble.
	ats.Register()
	code := m.Run()
	ats.Unregister()
	if code == 0 {
		if err := goleak.Find(); err != nil {
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
	log    *memLog
	o      Options
}

func newBell(t testing.TB, change ...func(*natsd.Options)) *bell {
	t.Helper()
	o := natsd.Options{StoreDir: t.TempDir(), Listen: "off", ProtectedSubjects: "listings.v1.>"}
	for _, c := range change {
		c(&o)
	}
	s, err := natsd.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	b := &bell{t: t, server: s, log: newMemLog()}
	b.nc = b.connect()
	b.js, err = jetstream.New(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	b.o = Options{
		Log: b.log, Conn: b.nc, Prefix: "listings", Stream: "LISTINGS", Embedded: true, Manage: true,
		StoreID: "s1", Logger: slog.New(slog.NewTextHandler(logTo(t), nil)),
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
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

func (b *bell) relay() *Relay {
	b.t.Helper()
	r, err := New(b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// deliver runs a new relay, as after a restart, until all is published.
func (b *bell) deliver() {
	b.t.Helper()
	if err := b.relay().RunOnce(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.settled()
}

// settled publishes also what the relay itself appended on the way.
func (b *bell) settled() {
	b.t.Helper()
	for range 3 {
		r := b.relay()
		if more, err := r.pending(); err != nil || !more {
			return
		}
		if err := r.RunOnce(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	}
	b.t.Fatal("the relay keeps itself busy")
}

// held is what the stream holds below a filter, in its order.
func held(t testing.TB, js jetstream.JetStream, filter string) []*jetstream.RawStreamMsg {
	t.Helper()
	s, err := js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		t.Fatal(err)
	}
	var all []*jetstream.RawStreamMsg
	for next := uint64(1); ; {
		m, err := s.GetMsg(t.Context(), next, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
		next = m.Sequence + 1
	}
}

// exactlyOnce fails unless the stream holds the agency's log, from an event on, in order, each once, and nothing else of
// ours.
func exactlyOnce(t testing.TB, js jetstream.JetStream, log *memLog, agency string, from int) {
	t.Helper()
	want := log.list(agency)[from:]
	var got []*jetstream.RawStreamMsg
	for _, m := range held(t, js, events.AgencyFilter("listings", agency)) {
		if m.Header.Get("ce-id") != "" {
			got = append(got, m)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("agency %s: the stream holds %d events, the log %d", agency, len(got), len(want))
	}
	for i, m := range got {
		e := want[i]
		if m.Header.Get("ce-id") != e.ID || m.Header.Get("ce-sequence") != fmt.Sprintf("%020d", e.Sequence) {
			t.Fatalf("agency %s: message %d is event %s, want sequence %d", agency, i, m.Header.Get("ce-sequence"), e.Sequence)
		}
	}
	c, _ := log.Cursor(agency)
	if last := want[len(want)-1]; c.Sequence != last.Sequence || c.ID != last.ID {
		t.Fatalf("agency %s: cursor at %d, want %d", agency, c.Sequence, last.Sequence)
	}
}

// repairs are the reasons of watch.stream_repaired in the log of an agency.
func (b *bell) repairs(agency string) []string {
	b.t.Helper()
	var reasons []string
	for _, e := range b.log.list(agency) {
		p, err := e.Payload()
		if err != nil {
			b.t.Fatal(err)
		}
		if w, ok := p.(*events.WatchStreamRepaired); ok {
			reasons = append(reasons, fmt.Sprintf("%s %d-%d sent %d", w.Reason, w.FromSequence, w.ToSequence, w.SentAgain))
		}
	}
	return reasons
}

func (b *bell) wantRepairs(agency string, want ...string) {
	b.t.Helper()
	if got := b.repairs(agency); strings.Join(got, ", ") != strings.Join(want, ", ") {
		b.t.Fatalf("reported %q, want %q", got, want)
	}
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

// eventually polls a condition that a goroutine outside any bubble brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (b *bell) published(agency string) bool {
	c, _ := b.log.Cursor(agency)
	return int(c.Sequence) == b.log.length(agency)
}

func TestEventsOfThreeAgenciesArriveOnceAndInOrder(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	stop := b.start(b.relay())
	agencies := []string{"A100", "B 200", "C#300"}
	for i := range 5000 {
		b.log.ring(t, agencies[i%3], 1)
	}
	for _, a := range agencies {
		eventually(t, "all published", func() bool { return b.published(a) })
	}
	stop()
	for _, a := range agencies {
		exactlyOnce(t, b.js, b.log, a, 0)
		if c, _ := b.log.Cursor(a); c.StreamSequence == 0 || c.StreamCreated.IsZero() {
			t.Fatalf("cursor without a place: %+v", c)
		}
	}
	info, err := b.js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		t.Fatal(err)
	}
	if n := info.CachedInfo().State.Msgs; n != 5000 {
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
	b.log.breakCommits()
	if err := b.relay().Run(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("Run: %v", err)
	}
	b.log.broken = nil // what landed in the meantime is recognised by the next process
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

func TestDrainPublishesWhatIsThere(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	b.log.ring(t, "A100", 2500)
	r := b.relay()
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

func TestDrainOfAnEmptyLogNeedsNoServer(t *testing.T) {
	b := newBell(t)
	b.server.Shutdown()
	if err := b.relay().Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDrainGivesUpWithItsContext(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 1)
	b.server.Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.relay().Drain(ctx); err == nil {
		t.Fatal("Drain says that an event was published without a server")
	}
}

func TestTheStatusCountsWhatWasPublishedAndWhatFailed(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 7)
	r := b.relay()
	if err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := r.Status()
	if len(s.Published) != 1 || s.Published[events.TypeContactRequestCreated] != 7 || len(s.Failures) != 0 {
		t.Errorf("%v, failed %v", s.Published, s.Failures)
	}
	b.log.ring(t, "A100", 1)
	b.nc.Close()
	l := r.worker("A100")
	_ = l.finish(t.Context(), session{connected: t.Context(), number: 1, usable: usable{maxMessage: 1 << 20}})
	if s := r.Status(); s.Failures["gone"] != 1 || s.Published[events.TypeContactRequestCreated] != 7 {
		t.Errorf("failed %v, published %v", s.Failures, s.Published)
	}
}
