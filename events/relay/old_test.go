package relay

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestAServerWithoutBatchesGetsNothing: before 2.12 it has no fence over several subjects, and stores each message of a batch singly.
func TestAServerWithoutBatchesGetsNothing(t *testing.T) {
	nc, _ := damaged(t, "7")
	if _, err := nc.Subscribe("$JS.API.INFO", func(m *nats.Msg) { _ = m.Respond([]byte(`{"api":{"level":1}}`)) }); err != nil {
		t.Fatal(err)
	}
	published, err := nc.SubscribeSync("listings.>")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Log: newMemLog(), Conn: nc, Prefix: "listings", Stream: "LISTINGS"}
	o.Log.(*memLog).ring(t, "A100", 2)
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RunOnce(t.Context()); !errors.Is(err, ErrOldServer) || !strings.Contains(err.Error(), "2.12") {
		t.Errorf("RunOnce: %v", err)
	}
	if s := r.Status(); s.Open || !strings.Contains(s.Problem, "too old") {
		t.Errorf("%+v", s)
	}
	if f, err := Check(t.Context(), o); !errors.Is(err, ErrOldServer) || f.Level != 1 {
		t.Errorf("Check: %+v, %v", f, err)
	}
	if n, _, _ := published.Pending(); n > 0 {
		t.Errorf("%d messages were sent", n)
	}
}
