package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/schemas/schematest"
)

// guest is a plain NATS client of the embedded server that hears what it is not allowed to do.
type guest struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	refused chan error
}

func newGuest(t *testing.T, url string) guest {
	t.Helper()
	g := guest{refused: make(chan error, 10)}
	g.nc, g.js = connected(t, url, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			g.refused <- err
		}
	}))
	return g
}

// mayNot wants the server to refuse what is done. The refusal comes beside it: whoever is refused hears no answer, so the
// context ends with the refusal.
func (g guest) mayNot(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- do(ctx) }()
	select {
	case <-g.refused:
		cancel()
		<-answered
	case <-time.After(patience):
		t.Errorf("%s is not refused", what)
		cancel()
		<-answered
	}
}

// mayNotDisturb tries what would change the stream, or write where the relay does.
func (g guest) mayNotDisturb(t *testing.T, s jetstream.Stream) {
	t.Helper()
	for what, do := range map[string]func(context.Context) error{
		"a stray message": func(context.Context) error {
			return errors.Join(g.nc.Publish("listings.v1.A100.test", []byte("hi")), g.nc.Flush())
		},
		"deleting the stream": func(ctx context.Context) error { return g.js.DeleteStream(ctx, "LISTINGS") },
		"erasing a message":   func(ctx context.Context) error { return s.DeleteMsg(ctx, 1) },
		"purging the stream":  func(ctx context.Context) error { return s.Purge(ctx) },
		"changing the stream": func(ctx context.Context) error {
			c := s.CachedInfo().Config
			c.MaxAge = 2 * time.Minute
			_, err := g.js.UpdateStream(ctx, c)
			return err
		},
		"a stream of its own": func(ctx context.Context) error {
			_, err := g.js.CreateStream(ctx, jetstream.StreamConfig{Name: "MINE", Subjects: []string{"mine.>"}})
			return err
		},
		"a stray JetStream ack": func(ctx context.Context) error {
			_, err := g.js.Publish(ctx, "listings.v1.A100.test", nil)
			return err
		},
	} {
		g.mayNot(t, what, do)
	}
}

func TestGuestsReadAndCannotDisturb(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	a := s.open(t, "127.0.0.1:0")
	g := newGuest(t, statusOf(t, a).NATS.URL)
	beats, err := g.nc.SubscribeSync("listings.heartbeat.A100")
	if err == nil {
		err = g.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	runUntilTheEnd(t, a)
	mustBeAHeartbeat(t, beats)

	sub := subscribeTo(t, statusOf(t, a).NATS.URL)
	sub.baselined(t, "A100")
	before := streamOf(t, g.js)
	g.mayNotDisturb(t, before)
	after := streamOf(t, g.js)
	if !reflect.DeepEqual(before.CachedInfo().Config, after.CachedInfo().Config) || after.CachedInfo().State.FirstSeq != 1 {
		t.Errorf("the stream was changed: %+v", after.CachedInfo())
	}

	durable, err := g.js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "mine", FilterSubject: "listings.v1.A100.>"})
	if err != nil {
		t.Fatalf("a guest may not make a durable consumer: %v", err)
	}
	id := s.ring(t, "A100")
	sub.request(t, id)
	for arrived := ""; arrived != id; {
		arrived = nextOf(t, durable).body.ContactRequestID
	}
	mustBeWhole(t, statusOf(t, a).NATS.URL, id)
}

func streamOf(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	s, err := js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustBeAHeartbeat(t *testing.T, beats *nats.Subscription) {
	t.Helper()
	m, err := beats.NextMsg(patience)
	if err != nil {
		t.Fatalf("no heartbeat: %v", err)
	}
	schematest.Validate(t, "heartbeat", m.Data)
	var beat map[string]any
	if err := json.Unmarshal(m.Data, &beat); err != nil {
		t.Fatal("no JSON object")
	}
	at, _ := beat["at"].(string)
	moment, err := time.Parse(time.RFC3339Nano, at)
	_, number := beat["lastSequence"].(float64)
	state, _ := beat["state"].(string)
	if err != nil || time.Since(moment).Abs() > time.Minute || !strings.HasSuffix(at, "Z") || !number || beat["agencyId"] != "A100" || len(beat) != 4 {
		t.Errorf("heartbeat is %v", beat)
	}
	if !slices.Contains([]string{"starting", "waiting_for_stream", "baselining", "watching", "held", "backing_off", "halted"}, state) {
		t.Errorf("state of the heartbeat is %q", state)
	}
}

// startNATS is a server of somebody else's, without any limits for its clients.
func startNATS(t *testing.T, port int) string {
	t.Helper()
	return natsServer(t, func(o *server.Options) { o.Port = port }).ClientURL()
}

func TestAnExternalStreamIsUsedAsItIsAndStrayMessagesAreSteppedOver(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	url := startNATS(t, server.RANDOM_PORT)
	_, js := connected(t, url)
	theirs, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "LISTINGS", Description: "ours", Subjects: []string{"listings.v1.>"}, MaxAge: time.Hour, AllowAtomicPublish: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	d := launch(t, s.with("NATS_URL="+strings.Replace(url, "://", "://u:"+sentinel+"@", 1)), "run")
	d.stderr.await(t, `external NATS`)
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100")
	sub.request(t, s.ring(t, "A100"))
	if _, err := js.Publish(t.Context(), "listings.v1.A100.test", []byte("hi")); err != nil {
		t.Fatal(err)
	}
	sub.request(t, s.ring(t, "A100"))
	sub.request(t, s.ring(t, "A100"))

	var status ops.Status
	got := run(t, s.environ, "status", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil || status.NATS.Embedded || !status.NATS.Connected || status.NATS.URL != url {
		t.Errorf("status: %v, %+v", err, got)
	}
	if len(status.Relay) != 1 || status.Relay[0].Foreign != 1 || status.Relay[0].Problem != "" {
		t.Errorf("the relay says %+v", status.Relay)
	}
	if after := streamOf(t, js); !reflect.DeepEqual(theirs.CachedInfo().Config, after.CachedInfo().Config) {
		t.Errorf("the stream was changed to %+v", after.CachedInfo().Config)
	}
	d.stop(t)
	for _, text := range []string{got.stdout, d.stderr.String()} {
		if strings.Contains(text, sentinel) {
			t.Errorf("the password of NATS is in:\n%s", text)
		}
		holdsNobody(t, text)
	}
}

func TestWithNATSAwayTheWatchGoesOnAndNothingIsLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	port := freePort(t)
	d := launch(t, s.with("NATS_URL=nats://127.0.0.1:"+strconv.Itoa(port)), "run", "--alone")
	natsURL(t, s.dir) // it answers, so it has started all the same
	s.goesOn(t, "A100", 30)
	id := s.ring(t, "A100")
	eventually(t, "the contact request is waiting in the event log", func() bool {
		status, err := ops.NewClient(s.dir + "/" + daemon.SocketFile).Status(t.Context())
		return err == nil && !status.NATS.Connected && len(status.Watch.Agencies) == 1 && len(status.Relay) == 1 && status.Relay[0].Pending >= 2
	})
	sub := subscribeTo(t, startNATS(t, port))
	sub.baselined(t, "A100")
	sub.request(t, id)
	d.stop(t)
}

// freePort is one that nobody listens on at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
