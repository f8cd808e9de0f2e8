package cli

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/relay"
	"doorbell/schemas"
)

// described is what the AsyncAPI document says beyond what the tests of its package can see.
type described struct {
	Channels map[string]struct {
		Stream struct{ Stream string } `json:"x-jetstream"`
	}
	JetStream struct {
		Streams  map[string]jetstream.StreamConfig
		Consumer jetstream.ConsumerConfig
	} `json:"x-jetstream"`
}

func describedByAsyncAPI(t *testing.T) (d described) {
	t.Helper()
	text, ok := schemas.AsyncAPI()
	if err := json.Unmarshal(text, &d); err != nil || !ok {
		t.Fatal(err)
	}
	return d
}

func TestTheDocumentDescribesTheStreamsThatAreMade(t *testing.T) {
	const prefix, stream, retention = "listings", "LISTINGS", 720 * time.Hour
	d := describedByAsyncAPI(t)
	want := map[string]jetstream.StreamConfig{}
	for _, c := range []jetstream.StreamConfig{
		relay.Options{Prefix: prefix, Stream: stream, MaxAge: retention}.StreamConfig(),
		forward.DeadLetterConfig(prefix, stream, retention, 0),
		relay.ReplayOptions{Prefix: prefix, Stream: stream + "_REPLAY"}.Config(),
	} {
		want[c.Name] = c
	}
	for name, have := range d.JetStream.Streams {
		if w := want[name]; !reflect.DeepEqual(have, w) {
			t.Errorf("%s is described as\n%+v\nand made as\n%+v", name, have, w)
		}
	}
	for name, channel := range d.Channels {
		if in := channel.Stream.Stream; in != "" && want[in].Name == "" {
			t.Errorf("%s is in a stream %s that is not made", name, in)
		}
	}
	if len(d.JetStream.Streams) != len(want) {
		t.Errorf("%d streams, want %d", len(d.JetStream.Streams), len(want))
	}
	if d.JetStream.Consumer.FilterSubject != prefix+".v1.*."+string(events.TypeContactRequestCreated) {
		t.Errorf("the consumer filters %s", d.JetStream.Consumer.FilterSubject)
	}
}
