package relay

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events/stream"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// damaged is a server whose streams find a message from behind and not from the front. It counts what it is asked.
func damaged(t *testing.T, place string) (nc *nats.Conn, asked *atomic.Int32) {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err = nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	asked = new(atomic.Int32)
	if _, err := nc.Subscribe("$JS.API.STREAM.MSG.GET.LISTINGS", func(m *nats.Msg) {
		asked.Add(1)
		var q stream.Query
		answer := `{"error":{"code":404,"err_code":10037}}`
		if json.Unmarshal(m.Data, &q) == nil && q.Last != "" {
			answer = `{"message":{"subject":"listings.v1.A100.test","seq":` + place + `}}`
		}
		_ = m.Respond([]byte(answer))
	}); err != nil {
		t.Fatal(err)
	}
	return nc, asked
}

func TestAMessageThatIsFoundFromBehindOnlyIsTheFence(t *testing.T) {
	nc, asked := damaged(t, "7")
	r, err := New(Options{Log: newMemLog(), Conn: nc, Prefix: "listings", Stream: "LISTINGS"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	l := r.worker("A100")
	if err := l.readOn(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if l.fence != 7 || l.foreign.seen != 7 || asked.Load() != 3 {
		t.Errorf("fence %d, foreign message at %d, %d questions", l.fence, l.foreign.seen, asked.Load())
	}
}

func TestAMessageThatIsFoundFromBehindOnlyIsTheFenceAlsoAfterALoss(t *testing.T) {
	nc, _ := damaged(t, "7")
	r, err := New(Options{Log: newMemLog(), Conn: nc, Prefix: "listings", Stream: "LISTINGS", Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	l := r.worker("A100")
	if _, err := l.resendLost(t.Context(), session{}, reasonTailLost); err != nil {
		t.Fatal(err)
	}
	if l.fence != 7 {
		t.Errorf("fence %d", l.fence)
	}
}

func TestWhatOnlyAReplicaHoldsIsNotBelieved(t *testing.T) {
	b := newBell(t)
	b.o.Embedded = false // so that a consumer reads
	b.log.ring(t, "A100", 10)
	b.deliver()
	c := newComparer(b.relay(), "A100")
	c.stream.Conn, _ = damaged(t, "7") // the leader has lost the last three
	if err := c.run(t.Context()); !errors.Is(err, errReplica) {
		t.Errorf("%d are missing, %v", c.found.CountMissing(), err)
	}
}
