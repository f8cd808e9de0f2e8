package natsd

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// heard is a log that can be read while it is written.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func TestWhatGuestsDoWrongIsNotTakenForTheServersOwnTrouble(t *testing.T) {
	var h heard
	log := slog.New(slog.NewTextHandler(&h, nil))
	s, err := Start(t.Context(), Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", ProtectedSubjects: "listings.v1.>", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	nc, err := nats.Connect(s.ClientURL(), nats.Name("nats server"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish("listings.v1.A100.x", nil); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); !strings.Contains(h.String(), "Publish Violation"); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("nothing was logged:\n%s", h.String())
		}
	}
	(&logger{log: log}).Errorf("Filestore [%s] error", "LISTINGS")
	for line := range strings.Lines(h.String()) {
		want := `msg="nats server"`
		if strings.Contains(line, "Violation") {
			want = `msg="nats connection"`
		}
		if !strings.Contains(line, want) {
			t.Errorf("%q is no line of %s", line, want)
		}
	}
}
