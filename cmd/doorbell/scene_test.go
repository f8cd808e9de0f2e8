package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
)

// otherKey is what the API knows testKey by after a rotation.
const otherKey = "22222222-3333-4444-8555-sentinel0key"

// scene is an API in this process, at rest but for what a test does to its model, and a data directory.
type scene struct {
	model   *sandbox.Model
	url     string
	dir     string
	environ []string
}

func newScene(t *testing.T, agencies ...string) scene { return sceneOf(t, 4, agencies) }

// sceneOf is a scene in which each agency has so many insertions.
func sceneOf(t *testing.T, insertions int, agencies []string) scene {
	t.Helper()
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	sandbox.NewGenerator(model, sandbox.GeneratorOptions{Seed: 1, Agencies: agencies, Insertions: insertions, History: 1}).Seed()
	model.AddKey(testKey, agencies...)
	server := httptest.NewServer(sandbox.New(model, sandbox.Flat()))
	t.Cleanup(server.Close)
	dir := shortDir(t)
	return scene{model: model, url: server.URL, dir: dir, environ: runEnviron(dir, server.URL, testKey, agencies...)}
}

// with is the environment with more, which wins.
func (s scene) with(more ...string) []string {
	return append(s.environ[:len(s.environ):len(s.environ)], more...)
}

// ring makes a contact request and returns its id.
func (s scene) ring(t *testing.T, agency string) string {
	t.Helper()
	for _, i := range s.model.Truth().Insertions {
		if i.AgencyID == agency && i.VisibleAt(time.Now()) {
			id, err := s.model.AddContactRequest(agency, i.Reference, sandbox.ContactRequest{FirstName: "Nora", LastName: "Muster" + sandbox.Marker})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
	}
	t.Fatalf("%s has no insertion", agency)
	return ""
}

func (s scene) asked(agency string) int { return s.model.Requests(sandbox.Filter{AgencyID: agency}) }

// goesOn waits until the agency was asked so many times more.
func (s scene) goesOn(t *testing.T, agency string, times int) {
	t.Helper()
	from := s.asked(agency)
	eventually(t, agency+" is asked on", func() bool { return s.asked(agency) >= from+times })
}

// staysSilent wants no request for one agency while the other is asked on.
func (s scene) staysSilent(t *testing.T, silent, busy string) {
	t.Helper()
	s.goesOn(t, busy, 15) // what was under way when the refusal came has been answered
	before := s.asked(silent)
	s.goesOn(t, busy, 30)
	if after := s.asked(silent); after != before {
		t.Errorf("%s was asked %d times after its halt", silent, after-before)
	}
}

// open makes a daemon in this process; its run is the caller's.
func (s scene) open(t *testing.T, natsListen string, change ...func(*daemon.Options)) *daemon.Daemon {
	t.Helper()
	log := &transcript{grown: make(chan struct{}, 1)}
	t.Cleanup(func() { holdsNobody(t, log.String()) })
	o := daemon.Options{
		DataDir: s.dir, NATSListen: natsListen, SubjectPrefix: "listings", Stream: "LISTINGS", ManageStream: true,
		Retention: time.Hour, StreamMax: 1 << 30,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Poller: poller.Options{
			API: listings.Options{BaseURL: s.url}, RequestsPerSecond: 1000, PollInterval: 100 * time.Millisecond,
			WalkInterval: 150 * time.Millisecond, Agencies: []poller.AgencyKeys{{ID: "A100", Key: listings.NewKey(testKey)}},
		},
	}
	for _, c := range change {
		c(&o)
	}
	a, err := daemon.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// statusOf is what the daemon says of itself.
func statusOf(t *testing.T, a *daemon.Daemon) ops.Status {
	t.Helper()
	s, err := a.Verbs().Status()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runUntilTheEnd runs a daemon until the test is over.
func runUntilTheEnd(t *testing.T, a *daemon.Daemon) {
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

// arrival is a message as it came to a subscriber.
type arrival struct {
	message
	subject string
}

// subscriber reads the stream from its beginning with a plain NATS client.
type subscriber struct {
	js       jetstream.JetStream
	messages jetstream.MessagesContext
}

// connected is a plain client of a NATS server until the end of the test.
func connected(t testing.TB, url string, how ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url, how...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func subscribeTo(t *testing.T, url string) *subscriber {
	t.Helper()
	_, js := connected(t, url)
	var c jetstream.Consumer
	eventually(t, "the stream is there", func() bool {
		got, err := js.OrderedConsumer(t.Context(), "LISTINGS", jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
		c = got
		return err == nil
	})
	messages, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(messages.Stop)
	return &subscriber{js: js, messages: messages}
}

// await reads on until a message fits.
func (s *subscriber) await(t *testing.T, what string, fits func(arrival) bool) arrival {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		m, err := s.messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatalf("%s did not arrive: %v", what, err)
		}
		if a := received(t, m); fits(a) {
			return a
		}
	}
}

func received(t *testing.T, m jetstream.Msg) arrival {
	t.Helper()
	a := arrival{message{subject: m.Subject(), header: m.Headers(), data: m.Data()}, m.Subject()}
	if a.kind() != "" {
		if err := json.Unmarshal(a.data, &a.body); err != nil {
			t.Fatalf("%s is no JSON object", a.kind())
		}
	}
	return a
}

// event waits for the next event of a type and agency.
func (s *subscriber) event(t *testing.T, kind, agency string) arrival {
	t.Helper()
	return s.await(t, kind+" of "+agency, func(a arrival) bool { return a.kind() == kind && a.body.AgencyID == agency })
}

// request waits for the announcement of a contact request.
func (s *subscriber) request(t *testing.T, id string) arrival {
	t.Helper()
	return s.await(t, "contact request "+id, func(a arrival) bool {
		return a.kind() == "contact_request.created" && a.body.ContactRequestID == id
	})
}

// baselined waits until what there was at the start is known.
func (s *subscriber) baselined(t *testing.T, agencies ...string) {
	t.Helper()
	waiting := map[string]bool{}
	for _, id := range agencies {
		waiting[id] = true
	}
	s.await(t, "the baseline", func(a arrival) bool {
		if a.kind() == "watch.baselined" {
			delete(waiting, a.body.AgencyID)
		}
		return len(waiting) == 0
	})
}

// member decodes one member of a payload.
func (a arrival) member(t *testing.T, name string) (value any) {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(a.data, &all); err != nil {
		t.Fatal("no JSON object")
	}
	return all[name]
}

// kinds are the types of an agency's events in the order of the stream.
func kinds(all []message, agency string) (list []string) {
	for _, m := range all {
		if m.body.AgencyID == agency {
			list = append(list, m.kind())
		}
	}
	return list
}

func count(list []string, kind string) (n int) {
	for _, k := range list {
		if k == kind {
			n++
		}
	}
	return n
}
