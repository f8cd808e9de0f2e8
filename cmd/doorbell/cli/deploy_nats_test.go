package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events/forward"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/schemas"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const natsDir = deployDir + "/nats"

// streamFiles are the files for `nats stream add --config`, and the streams that they make.
var streamFiles = map[string]string{
	"listings.json": "LISTINGS", "dead-letters.json": "LISTINGS_DLQ", "replay.json": "LISTINGS_REPLAY",
}

// consumerFile is the one for `nats consumer add LISTINGS --config`.
const consumerFile = natsDir + "/consumer.json"

// definitions are the contents of these files, made from the code and the defaults of the
// configuration.
func definitions(t *testing.T) map[string]string {
	t.Helper()
	c, err := config.Read(nil)
	must(t, err)
	b, limit := c.Base, int64(c.Base.StreamMax)
	all := map[string]string{}
	for name, v := range map[string]any{
		"listings.json":     relay.Options{Prefix: b.SubjectPrefix, Stream: b.Stream(), MaxAge: b.Retention, MaxBytes: limit}.StreamConfig(),
		"dead-letters.json": forward.DeadLetterConfig(b.SubjectPrefix, b.Stream(), b.Retention, limit),
		"replay.json":       relay.ReplayOptions{Prefix: b.SubjectPrefix, Stream: b.Stream() + "_REPLAY", MaxBytes: limit}.Config(),
		"consumer.json": jetstream.ConsumerConfig{
			Durable: "crm", Name: "crm", Description: "every contact request, once", FilterSubject: b.SubjectPrefix + ".v1.*.contact_request.created",
			DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxDeliver: -1, MaxAckPending: 1000, MaxWaiting: 512,
		},
	} {
		var text strings.Builder
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		must(t, e.Encode(v))
		all[name] = text.String()
	}
	return all
}

func TestTheDefinitionsForNATSMatchTheCode(t *testing.T) {
	for name, want := range definitions(t) {
		path := filepath.Join(natsDir, name)
		hold(t, path, readText(t, path), want)
	}
}

// TestAsyncAPIDescribesTheStreamsThatAreMade compares what the tests of schemas cannot.
func TestAsyncAPIDescribesTheStreamsThatAreMade(t *testing.T) {
	var d struct {
		Channels map[string]struct {
			Stream struct{ Stream string } `json:"x-jetstream"`
		}
		JetStream struct {
			Streams  map[string]jetstream.StreamConfig
			Consumer jetstream.ConsumerConfig
		} `json:"x-jetstream"`
	}
	if text, ok := schemas.AsyncAPI(); !ok || json.Unmarshal(text, &d) != nil {
		t.Fatal("it cannot be read")
	}
	made := map[string]jetstream.StreamConfig{}
	for file, name := range streamFiles {
		var c jetstream.StreamConfig
		must(t, json.Unmarshal([]byte(definitions(t)[file]), &c))
		c.MaxBytes = d.JetStream.Streams[name].MaxBytes // a setting
		made[name] = c
	}
	if !reflect.DeepEqual(d.JetStream.Streams, made) {
		t.Errorf("they are described as\n%+v\nand created as\n%+v", d.JetStream.Streams, made)
	}
	for name, channel := range d.Channels {
		if in := channel.Stream.Stream; in != "" && made[in].Name == "" {
			t.Errorf("%s is in a stream %s that is not created", name, in)
		}
	}
	if filter := d.JetStream.Consumer.FilterSubject; filter != "listings.v1.*.contact_request.created" {
		t.Errorf("the consumer filters %s", filter)
	}
}

func TestTheNATSCommandAcceptsTheDefinitions(t *testing.T) {
	t.Parallel()
	command := foreignProgram(t, "DOORBELL_TEST_NATS", "nats", "the nats command reads no definition")
	far := doorbelltest.StartFar(t)
	for _, args := range [][]string{
		{"stream", "add", "--config", natsDir + "/listings.json"},
		{"stream", "add", "--config", natsDir + "/dead-letters.json"},
		{"stream", "add", "--config", natsDir + "/replay.json"},
		{"consumer", "add", "LISTINGS", "--config", consumerFile},
	} {
		cmd := exec.Command(command, append([]string{"--server", far.URL()}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("nats %q: %v\n%s", args, err, out)
		}
	}
	_, js := doorbelltest.Connected(t, far.URL())
	for file, name := range streamFiles {
		var cfg jetstream.StreamConfig
		must(t, json.Unmarshal([]byte(readText(t, filepath.Join(natsDir, file))), &cfg))
		s, err := js.Stream(t.Context(), name)
		must(t, err)
		if d := stream.Differences(cfg, s.CachedInfo().Config); len(d) > 0 {
			t.Errorf("%s: %q", name, d)
		}
	}
}

// startConfigured starts a stock server with nats-server.conf and what that includes. Only its addresses and its folder differ.
func startConfigured(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"nats-server.conf", "accounts.conf"} {
		text := strings.NewReplacer("0.0.0.0:4222", "127.0.0.1:-1", "127.0.0.1:8222", "127.0.0.1:-1", "/data/jetstream", filepath.Join(dir, "js")).
			Replace(readText(t, filepath.Join(natsDir, name)))
		rewrite(t, filepath.Join(dir, name), text)
	}
	rewrite(t, filepath.Join(dir, "passwords.conf"), "RELAY_PASSWORD: \"relay-secret\"\nGUEST_PASSWORD: \"5e12guest\"\n")
	o, err := server.ProcessConfigFile(filepath.Join(dir, "nats-server.conf"))
	must(t, err)
	o.NoSigs, o.NoLog = true, true
	n, err := server.NewServer(o)
	must(t, err)
	if !o.SyncAlways {
		t.Error("the server acknowledges what is not on disk")
	}
	go n.Start()
	if !n.ReadyForConnections(doorbelltest.Patience) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() {
		n.Shutdown()
		n.WaitForShutdown()
	})
	return n.Addr().String()
}

func TestTheAccountsLetTheRelayPublishAndGuestsRead(t *testing.T) {
	t.Parallel()
	address, s := startConfigured(t), doorbelltest.NewScene(t, "A100")
	if nc, err := nats.Connect("nats://" + address); err == nil {
		nc.Close()
		t.Error("a client without a password is admitted")
	}
	d := doorbelltest.Launch(t, s.With("NATS_URL=nats://"+address, "NATS_USER=relay", "NATS_PASSWORD=relay-secret"), "run")
	url := "nats://guest:5e12guest@" + address
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100")
	id := s.Ring(t, "A100")
	sub.Request(t, id)

	refused := make(chan error, 10)
	nc, js := doorbelltest.Connected(t, url, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			refused <- err
		}
	}))
	stream := doorbelltest.StreamOf(t, js)
	for what, do := range map[string]func(context.Context) error{
		"a stray message":     func(context.Context) error { return errors.Join(nc.Publish("listings.v1.A100.test", nil), nc.Flush()) },
		"deleting the stream": func(ctx context.Context) error { return js.DeleteStream(ctx, "LISTINGS") },
		"erasing a message":   func(ctx context.Context) error { return stream.DeleteMsg(ctx, 1) },
		"purging the stream":  func(ctx context.Context) error { return stream.Purge(ctx) },
		"changing the stream": func(ctx context.Context) error {
			_, err := js.UpdateStream(ctx, stream.CachedInfo().Config)
			return err
		},
		"a stream of its own": func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "MINE", Subjects: []string{"mine.>"}})
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() { answered <- do(ctx) }() // a refused guest gets no answer
		select {
		case <-refused:
		case <-time.After(doorbelltest.Patience):
			t.Errorf("%s is not refused", what)
		}
		cancel()
		<-answered
	}
	durable, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm", FilterSubject: "listings.v1.*.contact_request.created"})
	if err != nil {
		t.Fatalf("a guest cannot create a consumer: %v", err)
	}
	if got := doorbelltest.NextOf(t, durable).Body.ContactRequestID; got != id {
		t.Errorf("%s arrives, not %s", got, id)
	}
	d.Stop(t)
	if text := d.Stderr.String(); strings.Contains(text, "should be") {
		t.Errorf("the stream differs:\n%s", text)
	}
}
