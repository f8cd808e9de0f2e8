package stream

import (
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/events/natsd/natsdtest"
)

func TestBatchesHoldWhatSingleReadsHold(t *testing.T) {
	js := natsdtest.Embedded(t)
	exists(t, js, wanted())
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
			must(t, err)
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
