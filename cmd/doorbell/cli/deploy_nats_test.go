package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events/forward"
	"doorbell/events/relay"
	"doorbell/events/stream"

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

// definitions are what stands in these files, made from the code and the defaults of the configuration.
func definitions(t *testing.T) map[string]string {
	t.Helper()
	c, err := config.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := c.Base
	all := map[string]string{
		"listings.json":     definition(t, relay.Options{Prefix: b.SubjectPrefix, Stream: b.Stream(), MaxAge: b.Retention, MaxBytes: int64(b.StreamMax)}.StreamConfig()),
		"dead-letters.json": definition(t, forward.DeadLetterConfig(b.SubjectPrefix, b.Stream(), b.Retention, int64(b.StreamMax), 1)),
		"replay.json":       definition(t, relay.ReplayOptions{Prefix: b.SubjectPrefix, Stream: b.Stream() + "_REPLAY", MaxBytes: int64(b.StreamMax)}.Config()),
		"consumer.json": definition(t, jetstream.ConsumerConfig{
			Durable: "crm", Name: "crm", Description: "every contact request, once", FilterSubject: b.SubjectPrefix + ".v1.*.contact_request.created",
			DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxDeliver: -1, MaxAckPending: 1000, MaxWaiting: 512,
		}),
	}
	return all
}

func definition(t *testing.T, v any) string {
	t.Helper()
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestTheDefinitionsForNATSAreThoseOfTheCode(t *testing.T) {
	for name, want := range definitions(t) {
		path := filepath.Join(natsDir, name)
		have, err := os.ReadFile(path)
		if err != nil && !*update {
			t.Fatal(err)
		}
		if string(have) == want {
			continue
		}
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("deploy/nats/%s is not what the code makes; run: go test ./cmd/doorbell/cli -run DefinitionsForNATS -update", name)
	}
}

// members are those of a JSON object, but what a server adds by itself and the store's own name.
func members(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if labels, ok := m["metadata"].(map[string]any); ok {
		maps.DeleteFunc(labels, func(name string, _ any) bool { return strings.HasPrefix(name, "_nats.") || name == "store_id" })
		if len(labels) == 0 {
			delete(m, "metadata")
		}
	}
	return m
}

// strictly reads a file as what it is, and nothing that it does not know.
func strictly(t *testing.T, path string, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(readText(t, path))))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestTheDefinitionsMakeWhatADaemonMakes holds the streams of a daemon that found none against those that a stock server makes of
// the files.
func TestTheDefinitionsMakeWhatADaemonMakes(t *testing.T) {
	t.Parallel()
	s, receivers := doorbelltest.NewScene(t, "A100"), doorbelltest.NewPlace(t)
	d := doorbelltest.Launch(t, s.With("DOORBELL_RETENTION=720h", receivers.Webhook(), "DOORBELL_WEBHOOK_SECRET="+doorbelltest.Whsec), "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	doorbelltest.SubscribeTo(t, url).Baselined(t, "A100")
	doorbelltest.Eventually(t, "the log knows what the stream has taken", func() bool {
		return !strings.Contains(doorbelltest.Run(t, s.Environ, "events", "ls").Stdout, "(waits)")
	})
	if got := doorbelltest.Run(t, s.Environ, "replay", "--job", "try", "--yes"); got.Code != exit.Done {
		t.Fatalf("%s%s", got.Stdout, got.Stderr)
	}
	made, far := newGuest(t, url), doorbelltest.StartFar(t)
	fresh := newGuest(t, far.URL())
	for file, name := range streamFiles {
		var cfg jetstream.StreamConfig
		strictly(t, filepath.Join(natsDir, file), &cfg)
		byFile, err := fresh.js.CreateStream(t.Context(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		byCode, err := made.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compareMembers(t, file, members(t, byFile.CachedInfo().Config), members(t, byCode.CachedInfo().Config))
	}
	var consumer jetstream.ConsumerConfig
	strictly(t, consumerFile, &consumer)
	c, err := fresh.js.CreateConsumer(t.Context(), "LISTINGS", consumer)
	if err != nil {
		t.Fatal(err)
	}
	compareMembers(t, "consumer.json", members(t, consumer), members(t, c.CachedInfo().Config))
	d.Stop(t)
}

func TestTheNATSCommandTakesTheDefinitions(t *testing.T) {
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
	js := newGuest(t, far.URL()).js
	for file, name := range streamFiles {
		var cfg jetstream.StreamConfig
		strictly(t, filepath.Join(natsDir, file), &cfg)
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if d := stream.Differences(cfg, s.CachedInfo().Config); len(d) > 0 {
			t.Errorf("%s: %q", name, d)
		}
	}
}

func compareMembers(t *testing.T, what string, a, b map[string]any) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !reflect.DeepEqual(a[name], b[name]) {
			t.Errorf("%s: %s is %v, the code makes %v", what, name, a[name], b[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, there := a[name]; !there && !reflect.ValueOf(b[name]).IsZero() {
			t.Errorf("%s: %s is missing, the code makes %v", what, name, b[name])
		}
	}
}

// startConfigured starts a stock server with nats-server.conf and what that includes. Only its addresses and its folder are others.
func startConfigured(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"nats-server.conf", "accounts.conf"} {
		text := strings.NewReplacer("0.0.0.0:4222", "127.0.0.1:-1", "127.0.0.1:8222", "127.0.0.1:-1", "/data/jetstream", filepath.Join(dir, "js")).
			Replace(readText(t, filepath.Join(natsDir, name)))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	passwords := "RELAY_PASSWORD: \"relay-secret\"\nGUEST_PASSWORD: \"5e12guest\"\n"
	if err := os.WriteFile(filepath.Join(dir, "passwords.conf"), []byte(passwords), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(filepath.Join(dir, "nats-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	n, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
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
		t.Error("somebody without a password is let in")
	}
	d := doorbelltest.Launch(t, s.With("NATS_URL=nats://"+address, "NATS_USER=relay", "NATS_PASSWORD=relay-secret"), "run")
	url := "nats://guest:5e12guest@" + address
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100")
	id := s.Ring(t, "A100")
	sub.Request(t, id)

	g := newGuest(t, url)
	g.mayNotDisturb(t, doorbelltest.StreamOf(t, g.js))
	durable, err := g.js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm", FilterSubject: "listings.v1.*.contact_request.created"})
	if err != nil {
		t.Fatalf("a guest may not make a consumer: %v", err)
	}
	if got := doorbelltest.NextOf(t, durable).Body.ContactRequestID; got != id {
		t.Errorf("%s arrives, not %s", got, id)
	}
	d.Stop(t)
	if text := d.Stderr.String(); strings.Contains(text, "should be") {
		t.Errorf("the stream differs:\n%s", text)
	}
}

// TestTheRelayTakesAStreamThatTheFileMade wants no difference but the name of the store, which no file can know.
func TestTheRelayTakesAStreamThatTheFileMade(t *testing.T) {
	t.Parallel()
	s, far := doorbelltest.NewScene(t, "A100"), doorbelltest.StartFar(t)
	var cfg jetstream.StreamConfig
	strictly(t, filepath.Join(natsDir, "listings.json"), &cfg)
	if _, err := newGuest(t, far.URL()).js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	d := doorbelltest.Launch(t, s.With("NATS_URL="+far.URL(), "DOORBELL_RETENTION=720h", "DOORBELL_STREAM_MANAGE=off"), "run")
	sub := doorbelltest.SubscribeTo(t, far.URL())
	sub.Baselined(t, "A100")
	sub.Request(t, s.Ring(t, "A100"))
	d.Stop(t)
	for line := range strings.Lines(d.Stderr.String()) {
		if strings.Contains(line, "should be") && strings.Count(line, "should be") != strings.Count(line, "store id is") {
			t.Error(line)
		}
	}
}
