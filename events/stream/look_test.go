package stream

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events/natsd/natsdtest"
)

func TestTheStateOfAStreamSaysWhichOneItIsAndWhatItHolds(t *testing.T) {
	js := natsdtest.Embedded(t)
	c := Client{Conn: Conn{Conn: js.Conn()}, Stream: "LETTERS", Wait: 5 * time.Second}
	if _, err := c.State(t.Context()); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("without a stream: %v", err)
	}
	var created []time.Time
	for range 2 {
		s, err := js.CreateStream(t.Context(), wanted())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := js.Publish(t.Context(), "listings.dlq.a", nil, jetstream.WithMsgID(js.Conn().NewRespInbox())); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.DeleteMsg(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		state, err := c.State(t.Context())
		if err != nil || state.First != 2 || state.Last != 3 || !state.Alone {
			t.Errorf("%+v, %v", state, err)
		}
		created = append(created, state.Created)
		if err := js.DeleteStream(t.Context(), "LETTERS"); err != nil {
			t.Fatal(err)
		}
	}
	if !created[1].After(created[0]) {
		t.Errorf("two streams were made at %v", created)
	}
}
