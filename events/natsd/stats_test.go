package natsd

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestFiguresAreThoseOfTheAccountThatHoldsTheStreams(t *testing.T) {
	s, err := Start(t.Context(), Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	if f := s.Stats(); len(f.Streams) > 0 {
		t.Errorf("at the start: %+v", f)
	}
	relay, err := s.Connect("relay")
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	guest, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	js, err := jetstream.New(relay)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "crm"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(t.Context(), "listings.v1.A100.x", []byte("hello")); err != nil {
			t.Fatal(err)
		}
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
