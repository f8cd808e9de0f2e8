package doorbelltest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
	"doorbell/store"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// OtherKey is what the API knows testKey by after a rotation.
const OtherKey = "22222222-3333-4444-8555-sentinel0key"

// Scene is an API in this process, at rest but for what a test does to its model, and a data
// directory.
type Scene struct {
	Model   *sandbox.Model
	URL     string
	Dir     string
	Environ []string
}

func NewScene(t *testing.T, agencies ...string) Scene { return SceneOf(t, 4, agencies) }

// SceneOf is a scene in which each agency has n insertions.
func SceneOf(t *testing.T, insertions int, agencies []string) Scene {
	t.Helper()
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	sandbox.NewGenerator(model, sandbox.GeneratorOptions{Seed: 1, Agencies: agencies, Insertions: insertions, History: 1}).Seed()
	model.AddKey(TestKey, agencies...)
	server := httptest.NewServer(sandbox.New(model, sandbox.Flat()))
	t.Cleanup(server.Close)
	dir := ShortDir(t)
	return Scene{Model: model, URL: server.URL, Dir: dir, Environ: RunEnviron(dir, server.URL, TestKey, agencies...)}
}

// With is the environment with more, which wins.
func (s Scene) With(more ...string) []string {
	return append(s.Environ[:len(s.Environ):len(s.Environ)], more...)
}

// Ring makes a contact request and returns its id.
func (s Scene) Ring(t *testing.T, agency string) string {
	t.Helper()
	for _, i := range s.Model.Truth().Insertions {
		if i.AgencyID == agency && i.VisibleAt(time.Now()) {
			id, err := s.Model.AddContactRequest(agency, i.Reference, sandbox.ContactRequest{FirstName: "Nora", LastName: "Muster" + sandbox.Marker})
			must(t, err)
			return id
		}
	}
	t.Fatalf("%s has no insertion", agency)
	return ""
}

func (s Scene) Asked(agency string) int { return s.Model.Requests(sandbox.Filter{AgencyID: agency}) }

// GoesOn waits until the API has had n more requests for the agency.
func (s Scene) GoesOn(t *testing.T, agency string, times int) {
	t.Helper()
	from := s.Asked(agency)
	Eventually(t, agency+" is asked on", func() bool { return s.Asked(agency) >= from+times })
}

// Open makes a daemon in this process; the caller runs it.
func (s Scene) Open(t *testing.T, natsListen string, change ...func(*daemon.Options)) *daemon.Daemon {
	t.Helper()
	log := &Transcript{}
	t.Cleanup(func() { HoldsNobody(t, log.String()) })
	o := daemon.Options{
		Base: config.Base{
			DataDir: s.Dir, NATSListen: natsListen, SubjectPrefix: "listings",
			Retention: time.Hour, StreamMax: 1 << 30,
		},
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Poller: poller.Options{
			API: listings.Options{BaseURL: s.URL}, RequestsPerSecond: 1000, PollInterval: 100 * time.Millisecond,
			WalkInterval: 150 * time.Millisecond, Agencies: []poller.AgencyKeys{{ID: "A100", Key: listings.NewKey(TestKey)}},
		},
	}
	for _, c := range change {
		c(&o)
	}
	a, err := daemon.New(t.Context(), o)
	must(t, err)
	t.Cleanup(a.Close)
	return a
}

// StatusOf is the status that the daemon reports.
func StatusOf(t *testing.T, a *daemon.Daemon) ops.Status {
	t.Helper()
	s, err := a.Verbs().Status()
	must(t, err)
	return s
}

// RunUntilTheEnd runs a daemon until the test is over.
func RunUntilTheEnd(t *testing.T, a *daemon.Daemon) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Arrival is a message as it came to a subscriber.
type Arrival = Message

// Subscriber reads the stream from its beginning with a plain NATS client.
type Subscriber struct {
	JS       jetstream.JetStream
	Messages jetstream.MessagesContext
}

// Connected is a plain client of a NATS server until the end of the test.
func Connected(t testing.TB, url string, how ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url, append(how, nats.Timeout(Patience))...) // the library's 2 s are too short on a busy machine
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	return nc, js
}

func SubscribeTo(t *testing.T, url string) *Subscriber {
	t.Helper()
	_, js := Connected(t, url)
	var c jetstream.Consumer
	Eventually(t, "the stream is there", func() bool {
		got, err := js.OrderedConsumer(t.Context(), "LISTINGS", jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
		c = got
		return err == nil
	})
	messages, err := c.Messages()
	must(t, err)
	t.Cleanup(messages.Stop)
	return &Subscriber{JS: js, Messages: messages}
}

// Await reads on until a message fits.
func (s *Subscriber) Await(t *testing.T, what string, fits func(Arrival) bool) Arrival {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		m, err := s.Messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatalf("%s did not arrive: %v", what, err)
		}
		if a := Received(t, m); fits(a) {
			return a
		}
	}
}

func Received(t *testing.T, m jetstream.Msg) Arrival {
	t.Helper()
	a := Arrival{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}
	if a.Kind() != "" {
		if err := json.Unmarshal(a.Data, &a.Body); err != nil {
			t.Fatalf("%s is not a JSON object", a.Kind())
		}
	}
	return a
}

// Event waits for the next event of a type and agency.
func (s *Subscriber) Event(t *testing.T, kind, agency string) Arrival {
	t.Helper()
	return s.Await(t, kind+" of "+agency, func(a Arrival) bool { return a.Kind() == kind && a.Body.AgencyID == agency })
}

// Request waits for the announcement of a contact request.
func (s *Subscriber) Request(t *testing.T, id string) Arrival {
	t.Helper()
	return s.Await(t, "contact request "+id, func(a Arrival) bool {
		return a.Kind() == "contact_request.created" && a.Body.ContactRequestID == id
	})
}

// Baselined waits until the baseline of each agency is complete.
func (s *Subscriber) Baselined(t *testing.T, agencies ...string) {
	t.Helper()
	waiting := map[string]bool{}
	for _, id := range agencies {
		waiting[id] = true
	}
	s.Await(t, "the baseline", func(a Arrival) bool {
		if a.Kind() == "watch.baselined" {
			delete(waiting, a.Body.AgencyID)
		}
		return len(waiting) == 0
	})
}

// Member decodes one member of a payload.
func (a Arrival) Member(t *testing.T, name string) (value any) {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(a.Data, &all); err != nil {
		t.Fatal("not a JSON object")
	}
	return all[name]
}

// Kinds are the types of an agency's events in the order of the stream.
func Kinds(all []Message, agency string) (list []string) {
	for _, m := range all {
		if m.Body.AgencyID == agency {
			list = append(list, m.Kind())
		}
	}
	return list
}

func Count(list []string, kind string) (n int) {
	for _, k := range list {
		if k == kind {
			n++
		}
	}
	return n
}

// Lines are those of a text.
func Lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// Watched leaves a store behind that has watched agencies before: they are polled though NATS is
// away.
func (s Scene) Watched(t testing.TB, agencies ...string) {
	t.Helper()
	kept, err := store.Open(store.Options{Dir: s.Dir, BaseURL: s.URL})
	must(t, err)
	err = kept.Update(func(tx *store.Tx) (err error) {
		for _, id := range agencies {
			err = errors.Join(err, tx.PutAgency(id, store.Agency{WatchStart: time.Now().UTC()}))
		}
		return err
	})
	must(t, errors.Join(err, kept.Close()))
}
