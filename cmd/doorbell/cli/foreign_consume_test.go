package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func judgedByLeads(t *testing.T, b *talker) {
	program := filepath.Join(t.TempDir(), "leads")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "leads.go") // with what binary was compiled for
	build.Dir, build.Env = interop, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first := foreign(t, []string{"NATS_URL=" + b.url}, program)
	defer func() {
		if t.Failed() {
			kill(first)
			t.Logf("it ended with %v, after errors that name nobody:\n%s", first.Cmd.ProcessState, first.Stderr.String())
		}
	}()
	first.Stdout.Await(t, "known before the watch began: ")
	first.Stdout.Await(t, "ring: "+b.lead+" wrote to A100 about "+regexp.QuoteMeta(oddReference)+"\n")
	first.Stdout.Await(t, "erase the person of "+b.erased+"\n")

	c := copyOf(t, b.heard)
	lead := b.heard[slices.IndexFunc(b.heard, func(m doorbelltest.Message) bool { return m.Body.ContactRequestID == b.lead })]
	c.publish(t, lead)
	second := foreign(t, []string{"NATS_URL=" + c.url}, program)
	second.Stdout.Await(t, "again: "+lead.Header.Get("ce-id")+"\n")
	if rung := strings.Count(second.Stdout.String(), "ring: "+b.lead); rung != 1 {
		t.Errorf("it rang %d times for one contact request", rung)
	}
	c.settled(t, "leads") // acknowledged, or it would wait for it
	kill(second)

	c.publish(t, lead)
	third := foreign(t, []string{"NATS_URL=" + c.url}, program)
	third.Stdout.Await(t, "ring: "+b.lead+" .*\n") // what was done is remembered in memory only, as the example says
	if strings.Contains(third.Stdout.String(), "known before") {
		t.Error("after a restart it begins anew")
	}
}

func judgedByMirror(t *testing.T, b *talker) {
	mirror, alive := npm(t, "mirror.mjs"), npm(t, "alive.mjs")
	reappeared := "A100: insertion.reappeared " + regexp.QuoteMeta(oddReference) + ", episode 2, live\n"
	real := foreign(t, []string{"NATS_URL=" + b.url}, "node", mirror)

	appeared := slices.IndexFunc(b.heard, func(m doorbelltest.Message) bool { return m.Kind() == "insertion.appeared" && m.Body.Origin == "live" })
	c := copyOf(t, b.heard)
	c.publish(t, b.heard[appeared]) // again
	spoiled := foreign(t, []string{"NATS_URL=" + c.url}, "node", mirror)
	watch := foreign(t, []string{"NATS_URL=" + c.url, "PATIENCE_SECONDS=1"}, "node", alive, "A100", "B200")

	watch.Stdout.Await(t, "B200: no heartbeat.*\n")
	c.beatUntil(t, "watching", watch)
	watch.Stdout.Await(t, "(?s)A100: watching\n.*A100: no heartbeat.*\n")
	c.beatUntil(t, "halted", watch)

	real.Stdout.Await(t, reappeared)
	real.Stdout.Await(t, "C.300: watch.baselined\n")
	real.Stdout.Await(t, "insertion.appeared .*, baseline\n")
	spoiled.Stdout.Await(t, reappeared)
	c.settled(t, "mirror")
	said := spoiled.Stdout.String()
	if strings.Count(said, "insertion.appeared "+oddReference) != 1 {
		t.Errorf("it says\n%s", said)
	}
}

func judgedByNATS(t *testing.T, b *talker) {
	bin := t.TempDir()
	for name, path := range map[string]string{"nats": natsCommand(t), "doorbell": doorbelltest.Binary(t)} {
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	environ := append(b.environ, "NATS_URL="+b.url, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin, "XDG_CONFIG_HOME="+bin)
	script := foreign(t, environ, "sh", "-ex", filepath.Join(interop, "commands.sh"))
	for ended := false; !ended; {
		b.ring(t) // some of the commands wait for something to happen
		select {
		case <-script.Gone:
			ended = true
		case <-time.After(300 * time.Millisecond):
		}
	}
	if script.Cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("commands.sh ended with %d:\n%s", script.Cmd.ProcessState.ExitCode(), withoutPeople(script))
	}
	for _, want := range []string{
		"ce-type: contact_request.created", "ce-subject: Haus%20am%20See#12", "listings.v1.A100.watch.baselined", "Nats-Msg-Id: crm-2/", "ce-origin: replay",
		"doorbell-replay: crm-2", "doorbell-reason: ", "doorbell-attempts: 1", `"state":"watching"`,
	} {
		if !strings.Contains(script.Stdout.String(), want) {
			t.Errorf("the commands do not show %s", want)
		}
	}
	mustHaveTheStreams(t, func(args ...string) []byte {
		c := exec.Command(filepath.Join(bin, "nats"), args...)
		c.Env = append(os.Environ(), environ...)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("nats %q: %v", args, err)
		}
		return out
	})
}

// mustHaveTheStreams holds what the nats command sees against the AsyncAPI document.
func mustHaveTheStreams(t *testing.T, nats func(args ...string) []byte) {
	t.Helper()
	d := describedByAsyncAPI(t)
	names := strings.Fields(string(nats("stream", "ls", "--names")))
	slices.Sort(names)
	if want := []string{"LISTINGS", "LISTINGS_DLQ", "LISTINGS_REPLAY"}; !slices.Equal(names, want) {
		t.Errorf("streams are %q, want %q", names, want)
	}
	for _, name := range names {
		var info jetstream.StreamInfo
		if err := json.Unmarshal(nats("stream", "info", name, "--json"), &info); err != nil {
			t.Fatal(err)
		}
		want := d.JetStream.Streams[name]
		if info.Config.Description != want.Description || !slices.Equal(info.Config.Subjects, want.Subjects) || info.Config.MaxAge != want.MaxAge || info.State.Msgs == 0 {
			t.Errorf("%s is %+v with %d messages", name, info.Config, info.State.Msgs)
		}
	}
	var consumer jetstream.ConsumerInfo
	if err := json.Unmarshal(nats("consumer", "info", "LISTINGS", d.JetStream.Consumer.Durable, "--json"), &consumer); err != nil {
		t.Fatal(err)
	}
	if consumer.Config.FilterSubject != d.JetStream.Consumer.FilterSubject || consumer.AckFloor.Consumer != 2 {
		t.Errorf("the consumer has acknowledged %d of %s", consumer.AckFloor.Consumer, consumer.Config.FilterSubject)
	}
}

// withoutPeople is which commands a script began, and their errors; what they printed are people.
func withoutPeople(script *doorbelltest.Child) string {
	var lines []string
	for line := range strings.Lines(script.Stderr.String()) {
		if strings.HasPrefix(line, "+ ") || strings.HasPrefix(line, "nats: error") || strings.HasPrefix(line, "doorbell: ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// duplicate is a NATS server with a stream of its own, that can be spoiled.
type duplicate struct {
	url string
	nc  *nats.Conn
	js  jetstream.JetStream
}

// copyOf fills a stream with messages as doorbell wrote them.
func copyOf(t *testing.T, all []doorbelltest.Message) duplicate {
	t.Helper()
	c := duplicate{url: doorbelltest.NatsServer(t).ClientURL()}
	c.nc, c.js = doorbelltest.Connected(t, c.url)
	if _, err := c.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}}); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		c.publish(t, m)
	}
	return c
}

// publish writes a message once more, also one that the server would know.
func (c duplicate) publish(t *testing.T, m doorbelltest.Message) {
	t.Helper()
	again := &nats.Msg{Subject: m.Subject, Header: nats.Header{}, Data: m.Data}
	for name, values := range m.Header {
		if !strings.HasPrefix(name, "Nats-") {
			again.Header[name] = values
		}
	}
	if _, err := c.js.PublishMsg(t.Context(), again); err != nil {
		t.Fatal(err)
	}
}

// settled waits until a consumer has acknowledged everything.
func (c duplicate) settled(t *testing.T, consumer string) {
	t.Helper()
	doorbelltest.Eventually(t, consumer+" has acknowledged everything", func() bool {
		info, err := c.js.Consumer(t.Context(), "LISTINGS", consumer)
		return err == nil && info.CachedInfo().NumAckPending == 0 && info.CachedInfo().NumPending == 0
	})
}

// beatUntil says how an agency stands until a program repeats it, which at first may not hear yet.
func (c duplicate) beatUntil(t *testing.T, state string, by *doorbelltest.Child) {
	t.Helper()
	doorbelltest.Eventually(t, "the heartbeat is heard", func() bool {
		beat(t, c.nc, state)
		return strings.Contains(by.Stdout.String(), "A100: "+state+"\n")
	})
}

// beat says what a heartbeat says.
func beat(t *testing.T, nc *nats.Conn, state string) {
	t.Helper()
	text := `{"agencyId":"A100","at":"2026-11-20T09:42:00Z","lastSequence":1842,"state":"` + state + `"}`
	if err := nc.Publish("listings.heartbeat.A100", []byte(text)); err != nil {
		t.Fatal(err)
	}
}
