package relay

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"doorbell/schemas/skiptest"
)

// oldServer names the binary of Debian's nats-server, version 2.9.10; .ci/run installs it.
const oldServer = "DOORBELL_TEST_OLD_SERVER"

// oldBinary finds it: named by the environment, or where Debian puts it.
func oldBinary(t testing.TB) string {
	t.Helper()
	path := os.Getenv(oldServer)
	if path == "" {
		path = "/usr/sbin/nats-server"
	}
	out, err := exec.Command(path, "-v").Output()
	if err != nil {
		skiptest.Skipf(t, "there is no nats-server of Debian: apt-get install nats-server, or name it by %s", oldServer)
	}
	if !strings.Contains(string(out), "v2.9.") {
		skiptest.Skipf(t, "%s is %s, not the 2.9 that this is about; name one by %s", path, strings.TrimSpace(string(out)), oldServer)
	}
	return path
}

// debian runs Debian's server.
func debian(t testing.TB, settings ...string) *process {
	t.Helper()
	binary := oldBinary(t)
	return startConfigured(t, func(file string) *exec.Cmd { return exec.Command(binary, "-c", file) }, settings...)
}

func TestTheOldServerGetsEveryEventOnceAndNothingItDoesNotKnow(t *testing.T) {
	p := debian(t)
	b := p.bell()
	b.o.StoreID, b.o.MaxAge, b.o.MaxBytes = "s1", time.Hour, 1<<30
	r := b.relay()
	b.log.ring(t, "A100", 500)
	b.log.ring(t, "B200", 3)
	if err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.Status(); !s.Open || len(s.Differences) != 0 {
		t.Fatalf("status %+v", s)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, b.log, "B200", 0)
	for _, m := range held(t, b.js, "listings.v1.>") {
		for name := range m.Header {
			if strings.HasPrefix(name, "Nats-Batch") || name == "Nats-Expected-Last-Subject-Sequence-Subject" {
				t.Fatalf("the server was sent a %s", name)
			}
		}
	}
	f, err := Check(t.Context(), b.o)
	if err != nil || !f.OneByOne || f.Level != 0 || len(f.Different) != 0 {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestTheOldServerIsFencedBySubject(t *testing.T) {
	p := debian(t)
	b := p.bell()
	b.log.ring(t, "A100", 5)
	first := b.relay()
	if err := first.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.log.ring(t, "A100", 4)
	twin := *b
	twin.log = b.log.copyOf()
	twin.o.Log = twin.log
	second := twin.relay()
	if err := second.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Drain(t.Context()); err != nil { // still believes that nothing has arrived
		t.Fatal(err)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.stray("listings.v1.A100.contact_request.created")
	b.log.ring(t, "A100", 2)
	if err := first.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.settled()
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100", "foreign_message 9-9 sent 0")
}

func TestTheOldServerKilledAnywhereGetsEveryEventOnce(t *testing.T) {
	p := debian(t)
	b := p.bell()
	stop := b.start(b.relay())
	b.log.ring(t, "A100", 1)
	eventually(t, "published", func() bool { return b.published("A100") })
	for range 6 {
		p.mu.Lock()
		p.left = 1 + rand.IntN(60_000)
		p.mu.Unlock()
		b.log.ring(t, "A100", 80)
		eventually(t, "killed", func() bool { return !p.alive() || b.published("A100") })
		if !p.alive() {
			p.start()
		}
		eventually(t, "published", func() bool { return b.published("A100") })
	}
	stop()
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

func TestTheOldServerIsASecondMemoryToo(t *testing.T) {
	p := debian(t)
	b := p.bell()
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 50)...)
	first.publish()
	second := b.doorbell(t.TempDir())
	second.ring(51, 20) // before it has looked
	second.publish()
	second.agree(upTo(1, 51)...)
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	second.publish()
	second.agree(upTo(1, 51)...)
	second.wantReported("imported 1-50 sent 0", "recreated 1-52 sent 52")
}

func TestAServerOfUnknownAgeIsNotTried(t *testing.T) {
	for version, want := range map[features]manner{
		{level: 0, major: 2, minor: 9}:  bySubject,
		{level: 1, major: 2, minor: 11}: bySubject,
		{level: 2, major: 2, minor: 12}: inBatches,
		{level: 9, major: 3}:            inBatches,
	} {
		if got := version.manner(true); got != want {
			t.Errorf("%+v: %s", version, got)
		}
	}
	if (features{level: 2}).manner(false) != singly {
		t.Error("a stream that takes no batches gets some")
	}
	if (features{major: 2, minor: 8}).since(2, 9) || !(features{major: 3}).since(2, 9) {
		t.Error("versions are compared wrongly")
	}
}
