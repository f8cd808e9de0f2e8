package cli

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/schemas/schematest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	g.nc, g.js = doorbelltest.Connected(t, url, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
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
	answered := make(chan error, 1)
	go func() { answered <- do(ctx) }()
	select {
	case <-g.refused:
	case <-time.After(doorbelltest.Patience):
		t.Errorf("%s is not refused", what)
	}
	cancel()
	<-answered
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
	s := doorbelltest.NewScene(t, "A100")
	a := s.Open(t, "127.0.0.1:0")
	g := newGuest(t, doorbelltest.StatusOf(t, a).NATS.URL)
	beats, err := g.nc.SubscribeSync("listings.heartbeat.A100")
	if err := errors.Join(err, g.nc.Flush()); err != nil {
		t.Fatal(err)
	}
	doorbelltest.RunUntilTheEnd(t, a)
	beat, err := beats.NextMsg(doorbelltest.Patience)
	if err != nil {
		t.Fatalf("no heartbeat: %v", err)
	}
	schematest.Validate(t, "heartbeat", beat.Data)

	sub := doorbelltest.SubscribeTo(t, doorbelltest.StatusOf(t, a).NATS.URL)
	sub.Baselined(t, "A100")
	g.mayNotDisturb(t, doorbelltest.StreamOf(t, g.js))
	durable, err := g.js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{
		Durable: "mine", FilterSubject: "listings.v1.A100.contact_request.>",
	})
	if err != nil {
		t.Fatalf("a guest may not make a durable consumer: %v", err)
	}
	id := s.Ring(t, "A100")
	if got := doorbelltest.NextOf(t, durable).Body.ContactRequestID; got != id {
		t.Errorf("%s arrives, not %s", got, id)
	}
}

func TestAnExternalStreamIsUsedAsItIsAndStrayMessagesAreSteppedOver(t *testing.T) {
	t.Parallel()
	s, url := doorbelltest.NewScene(t, "A100"), doorbelltest.StartNATS(t, server.RANDOM_PORT)
	_, js := doorbelltest.Connected(t, url)
	theirs, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "LISTINGS", Description: "ours", Subjects: []string{"listings.v1.>"}, MaxAge: time.Hour, Duplicates: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	d := doorbelltest.Launch(t, s.With("NATS_URL="+strings.Replace(url, "://", "://u:"+doorbelltest.Sentinel+"@", 1)), "run")
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100")
	for range 2 {
		sub.Request(t, s.Ring(t, "A100"))
		if _, err := js.Publish(t.Context(), "listings.v1.A100.test", []byte("hi")); err != nil {
			t.Fatal(err)
		}
	}
	sub.Request(t, s.Ring(t, "A100"))

	var status ops.Status
	got := doorbelltest.Run(t, s.Environ, "status", "--json")
	if err := json.Unmarshal([]byte(got.Stdout), &status); err != nil || status.NATS.Embedded || !status.NATS.Connected ||
		status.NATS.URL != url || len(status.Relay) != 1 || status.NATS.Problem != "" {
		t.Errorf("status: %v, %+v", err, got)
	}
	if after := doorbelltest.StreamOf(t, js); !reflect.DeepEqual(theirs.CachedInfo().Config, after.CachedInfo().Config) {
		t.Errorf("the stream was changed to %+v", after.CachedInfo().Config)
	}
	d.Stop(t)
	doorbelltest.Has(t, d.Stderr.String(), "external NATS")
	if strings.Contains(got.Stdout+d.Stderr.String(), doorbelltest.Sentinel) {
		t.Error("the password of NATS is printed")
	}
}
