package natsd

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestFiguresAreThoseOfTheAccountThatHoldsTheStreams(t *testing.T) {
	s := start(t)
	if f := s.Stats(); len(f.Streams) > 0 {
		t.Errorf("at the start: %+v", f)
	}
	relay, js := connect(t, s)
	guest(t, s)
	makeStream(t, js, 3)
	if _, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm"}); err != nil {
		t.Fatal(err)
	}
	if err := relay.Flush(); err != nil { // the server counts what it read after it has answered, and before it reads on
		t.Fatal(err)
	}
	if err := s.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := s.Stats()
	// What it sent it counts in a goroutine of its own, when it has been received already: the last answers may be missing.
	if f.Connections != 2 || f.InMessages < 5 || f.OutMessages == 0 || f.InBytes == 0 || len(f.Streams) != 1 {
		t.Fatalf("%+v", f)
	}
	if one := f.Streams[0]; one.Name != "LISTINGS" || one.Messages != 3 || one.Bytes == 0 || one.Consumers != 1 {
		t.Errorf("%+v", one)
	}
}
