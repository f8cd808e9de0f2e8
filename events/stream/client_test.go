package stream

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events/natsd/natsdtest"
)

func TestAClientReadsBelowAFilter(t *testing.T) {
	js := natsdtest.Embedded(t)
	if _, err := js.CreateStream(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	c := Client{Conn: Conn{Conn: js.Conn()}, Stream: "LETTERS", Wait: 5 * time.Second}
	for i, subject := range []string{"a.1", "b.1", "a.2", "a.3"} {
		if a, err := js.Publish(t.Context(), "listings.dlq."+subject, nil); err != nil || a.Sequence != uint64(i+1) {
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
}

func TestAReadEndsWithItsFirstError(t *testing.T) {
	js := natsdtest.Embedded(t)
	c, read := Client{Conn: Conn{Conn: js.Conn()}, Stream: "MISSING", Wait: 5 * time.Second}, 0
	for m, err := range c.Read(t.Context(), ">", 0) {
		if read++; m != nil || !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("%v, %v", m, err)
		}
	}
	if read != 1 {
		t.Errorf("%d results", read)
	}
}

func TestBatchesHoldWhatSingleReadsHold(t *testing.T) {
	js := natsdtest.Embedded(t)
	if _, err := js.CreateStream(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	c := Client{Conn: Conn{Conn: js.Conn()}, Stream: "LETTERS", Wait: 5 * time.Second}
	for i := range 2*batchSize + 2 {
		m := &nats.Msg{Subject: "listings.dlq." + string('a'+rune(i%3)), Data: []byte{byte(i)}}
		if i%2 == 0 {
			m.Header = nats.Header{"Ce-Id": {"x"}, "two": {"1", "2"}}
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if erased, err := c.EraseAt(t.Context(), 300); !erased || err != nil {
		t.Fatal(err)
	}
	read := func(filter string) (all []Message) {
		for m, err := range c.Read(t.Context(), filter, 1) {
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Header) == 0 {
				m.Header = nil
			}
			all = append(all, *m)
		}
		return all
	}
	for _, filter := range []string{"listings.dlq.>", "listings.dlq.b", "listings.dlq.none"} {
		c.Alone = false
		want := read(filter)
		c.Alone = true
		if got := read(filter); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d messages, want %d", filter, len(got), len(want))
		}
	}
}
