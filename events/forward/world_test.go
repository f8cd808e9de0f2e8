package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
	"doorbell/events/natsd"
	"doorbell/events/stream"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

var must = helptest.Must

func TestMain(m *testing.M) {
	helptest.KeepInMemory()
	ats.Register() // the server's clock goroutine must not be born in a synctest bubble
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

// bubble is a test in virtual time. Goroutines of the server may look again whether it is down after it is.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		test(t)
	})
	runtime.GC() // twice: nats.go keeps timers for others, who cannot use those of a bubble
	runtime.GC()
}

// scene is a test in virtual time, of a receiver for all leads.
func scene(t *testing.T, digest int, test func(t *testing.T, w *world, s *script)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		s := newScript("a", digest)
		test(t, newWorld(t, leadsTo(s)), s)
	})
}

// script is a receiver that does what a test says.
type script struct {
	mu     sync.Mutex
	traits Traits
	answer func(Delivery) error // nil: takes all
	took   []Delivery
	calls  int
	begun  []time.Time
	sizes  []int // of what it was sent
	inside int
	wait   func(ctx context.Context)
}

func newScript(name string, digest int) *script {
	return &script{traits: Traits{Destination: name, Pace: time.Second, Digest: digest}}
}

func (s *script) Traits() Traits { return s.traits }

func (s *script) Send(ctx context.Context, d Delivery) error {
	s.mu.Lock()
	s.inside++
	if s.inside > 1 {
		panic("two at a time")
	}
	s.calls++
	s.begun, s.sizes = append(s.begun, time.Now()), append(s.sizes, len(d.Events))
	answer, wait := s.answer, s.wait
	s.mu.Unlock()
	if wait != nil {
		wait(ctx)
	}
	var err error
	if answer != nil {
		err = answer(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	if err == nil {
		s.took = append(s.took, d)
	}
	return err
}

// will changes what the receiver answers.
func (s *script) will(answer func(Delivery) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *script) down() { s.will(func(Delivery) error { return &Retry{Reason: "down"} }) }
func (s *script) up()   { s.will(nil) }

func (s *script) deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.took)
}

func (s *script) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// tries are when the receiver was sent something, and how many events each time.
func (s *script) tries() (begun []time.Time, sizes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.begun), slices.Clone(s.sizes)
}

// ids are all events that the receiver took, in their order.
func (s *script) ids() (ids []string) {
	for _, d := range s.deliveries() {
		for _, e := range d.Events {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// world is a server with a stream, what was published, and forwarders.
type world struct {
	t        *testing.T
	server   *natsd.Server
	nc       *nats.Conn
	js       jetstream.JetStream
	o        Options
	log      helptest.Lines
	sequence uint64 // of the last event: its position in the log of the store
	store    string
	history  []events.Event
	clock    time.Duration // how far the daemon's is ahead
}

func newWorld(t *testing.T, routes ...Route) *world {
	t.Helper()
	s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: t.TempDir(), Listen: "off", Protected: []string{"listings.v1.>"}})
	must(t, err)
	t.Cleanup(s.Shutdown)
	w := worldOn(t, s)
	w.o.Routes = routes
	return w
}

// worldOn is a world on an existing server.
func worldOn(t *testing.T, s *natsd.Server) *world {
	t.Helper()
	nc, err := s.Connect("test")
	must(t, err)
	t.Cleanup(nc.Close)
	w := &world{t: t, server: s, nc: nc, store: "store"}
	w.js, err = jetstream.New(nc)
	must(t, err)
	w.o = Options{
		Conn: stream.Conn{Conn: w.nc}, Prefix: "listings", Stream: "LISTINGS", Dir: t.TempDir(), Name: "slack",
		Retention: 720 * time.Hour, Manage: true, Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	w.makeStream()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
	return w
}

// consumer is the configuration of that of the receiver a.
func (w *world) consumer() jetstream.ConsumerConfig {
	w.t.Helper()
	c, err := w.js.Consumer(w.t.Context(), "LISTINGS", consumer("a"))
	w.must(err)
	return c.CachedInfo().Config
}

func consumerNames(t *testing.T, w *world) (names []string) {
	t.Helper()
	s, err := w.js.Stream(t.Context(), "LISTINGS")
	w.must(err)
	for name := range s.ConsumerNames(t.Context()).Name() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// erase erases the n last messages of the stream.
func (w *world) erase(last int) {
	w.t.Helper()
	s, err := w.js.Stream(w.t.Context(), "LISTINGS")
	w.must(err)
	for n := range uint64(last) {
		w.must(s.SecureDeleteMsg(w.t.Context(), s.CachedInfo().State.LastSeq-n))
	}
}

// consumer is the name of a receiver's consumer.
func consumer(receiver string) string { return "doorbell-slack-" + receiver }

func (w *world) must(err error) {
	w.t.Helper()
	must(w.t, err)
}

func (w *world) makeStream() {
	w.t.Helper()
	config := jetstream.StreamConfig{
		Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, AllowDirect: true, Storage: jetstream.FileStorage,
	}
	_, err := w.js.CreateStream(w.t.Context(), config)
	if answer := (*jetstream.APIError)(nil); errors.As(err, &answer) && answer.ErrorCode == 10049 { // the former one's folder is still being removed
		time.Sleep(time.Second)
		_, err = w.js.CreateStream(w.t.Context(), config)
	}
	w.must(err)
}

// stamp makes the next event of the log.
func (w *world) stamp(p events.Payload) events.Event {
	w.t.Helper()
	e, err := events.New(p)
	w.must(err)
	w.sequence++
	return e.Stamp(w.sequence, time.Now().Add(w.clock), w.store)
}

// lead publishes a new contact request of an agency.
func (w *world) lead(agency string) events.Event {
	w.t.Helper()
	e := w.stampLead(agency)
	w.publish(e)
	return e
}

func (w *world) stampLead(agency string) events.Event {
	w.t.Helper()
	return w.stamp(&events.ContactRequestCreated{
		Common: events.Common{AgencyID: agency, ObservedAt: time.Now()}, PropertyReferenceID: "see#1",
		ContactRequestID: fmt.Sprintf("%s-%d-%d", agency, w.sequence, len(w.history)), Identity: events.IdentityID,
		Contact: events.Contact{LastName: "Secretname", Email: "secret@example.org"},
	})
}

func (w *world) leads(n int, agency string) {
	w.t.Helper()
	for range n {
		w.lead(agency)
	}
}

// halt publishes a halt of an agency.
func (w *world) halt(agency, fingerprint string) events.Event {
	w.t.Helper()
	e := w.stamp(&events.AccessHalted{
		Common: events.Common{AgencyID: agency, ObservedAt: time.Now()}, Scope: events.ScopeAgency, ProbableReason: "key_rejected",
		Key: events.KeyRef{Fingerprint: fingerprint},
	})
	w.publish(e)
	return e
}

func (w *world) publish(e events.Event) {
	w.t.Helper()
	w.history = append(w.history, e)
	w.put(e, nil)
}

func (w *world) put(e events.Event, more map[string]string) {
	w.t.Helper()
	m := &nats.Msg{Subject: events.Subject("listings", e.AgencyID, e.Type), Header: nats.Header(e.Header()), Data: e.Data}
	for name, value := range more {
		m.Header.Set(name, value)
	}
	_, err := w.js.PublishMsg(w.t.Context(), m)
	w.must(err)
}

// rebuild makes the stream again, with everything that was published, as a relay does: agency by agency.
func (w *world) rebuild() {
	w.t.Helper()
	w.must(w.js.DeleteStream(w.t.Context(), "LISTINGS"))
	w.makeStream()
	all := slices.Clone(w.history)
	slices.SortStableFunc(all, func(a, b events.Event) int { return strings.Compare(a.AgencyID, b.AgencyID) })
	for _, e := range all {
		w.put(e, map[string]string{events.ResentHeader: "1"})
	}
}

func (w *world) forwarder() *Forwarder {
	w.t.Helper()
	f, err := New(w.o)
	w.must(err)
	return f
}

// start runs a forwarder in virtual time until its consumers exist; see launch.
func (w *world) start(change ...func(*Forwarder)) (f *Forwarder, stop func() error) {
	w.t.Helper()
	defer time.Sleep(2 * time.Second)
	return w.launch(change...)
}

// launch runs a forwarder. The returned function ends it, if it has not ended by itself, and returns
// why it did.
func (w *world) launch(change ...func(*Forwarder)) (f *Forwarder, stop func() error) {
	w.t.Helper()
	time.Sleep(time.Millisecond) // no clock stands still
	f = w.forwarder()
	for _, c := range change {
		c(f)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	w.t.Cleanup(func() { _ = stop() })
	return f, stop
}

// run has a forwarder at work for so long.
func (w *world) run(d time.Duration, meanwhile ...func()) {
	w.t.Helper()
	_, stop := w.start()
	for _, m := range meanwhile {
		m()
	}
	time.Sleep(d)
	w.must(stop())
	time.Sleep(100 * time.Millisecond) // the server has forgotten the pull: what is published now is for the next start
}

// wantIDs wants exactly these events, in this order.
func wantIDs(t *testing.T, s *script, want []events.Event) {
	t.Helper()
	var ids []string
	for _, e := range want {
		ids = append(ids, e.ID)
	}
	if got := s.ids(); !slices.Equal(got, ids) {
		n := 0
		for n < min(len(got), len(ids)) && got[n] == ids[n] {
			n++
		}
		t.Errorf("%s took %d events, want %d; from number %d on they differ", s.traits.Destination, len(got), len(ids), n)
	}
}

func leadsTo(o Receiver, agencies ...string) Route {
	return Route{Receiver: o, Filter: Filter{Types: []string{"contact_request.created"}, Agencies: agencies}}
}
