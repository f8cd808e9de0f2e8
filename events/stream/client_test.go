package stream

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestAClientReadsWhatItPublishedBelowAFilter(t *testing.T) {
	js := newServer(t)
	if _, err := js.CreateStream(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	c := Client{Conn: js.Conn(), Stream: "LETTERS", Wait: 5 * time.Second}
	for i, subject := range []string{"a.1", "b.1", "a.2", "a.3"} {
		a, err := c.Publish(t.Context(), &nats.Msg{Subject: "listings.dlq." + subject})
		if err != nil || a.Stream != "LETTERS" || a.Sequence != uint64(i+1) || a.Duplicate {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	var places []uint64
	for m, err := range c.Read(t.Context(), "listings.dlq.a.*", 1) {
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, m.Sequence)
	}
	if !slices.Equal(places, []uint64{3, 4}) {
		t.Errorf("read %v", places)
	}
	refused := &nats.Msg{Subject: "listings.dlq.a.1", Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"9"}}}
	var answer *jetstream.APIError
	if _, err := c.Publish(t.Context(), refused); !errors.As(err, &answer) || answer.ErrorCode != 10071 {
		t.Errorf("published behind another message: %v", err)
	}
}

func TestAReadEndsWithItsFirstError(t *testing.T) {
	js := newServer(t)
	c, read := Client{Conn: js.Conn(), Stream: "MISSING", Wait: 5 * time.Second}, 0
	for m, err := range c.Read(t.Context(), ">", 0) {
		if read++; m != nil || !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("%v, %v", m, err)
		}
	}
	if read != 1 {
		t.Errorf("%d results", read)
	}
}
