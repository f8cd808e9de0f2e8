package relay

import (
	"errors"
	"testing"
	"time"

	"doorbell/events/natsd"
	"doorbell/events/natsd/natsdtest"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

func clusterBell(t testing.TB, c *natsdtest.Cluster) *bell {
	t.Helper()
	nc, err := natsd.Connect(natsd.Dial{URL: c.URL()}, nil)
	must(t, err)
	b := bellOn(t, nc)
	b.o.Replicas = 3
	return b
}

func TestAClusterWhoseLeaderIsKilledGetsEveryEventOnce(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	b := clusterBell(t, c)
	stop := b.start(b.relay())
	b.log.ring(t, "A100", 5)
	b.log.ring(t, "B200", 5)
	published := func() bool { return b.published("A100") && b.published("B200") }
	eventually(t, "published", published)
	for range *rounds {
		b.log.ring(t, "A100", 200)
		b.log.ring(t, "B200", 7)
		lost := c.Leader("LISTINGS")
		c.Stop(lost)
		b.log.ring(t, "A100", 50)
		eventually(t, "published without the old leader", published)
		c.Start(lost)
		eventually(t, "three again", func() bool {
			info, err := b.js.Stream(t.Context(), "LISTINGS")
			if err != nil || info.CachedInfo().Cluster == nil {
				return false
			}
			for _, r := range info.CachedInfo().Cluster.Replicas {
				if !r.Current || r.Offline {
					return false
				}
			}
			return true
		})
	}
	stop()
	if r := b.stream().CachedInfo().Config.Replicas; r != 3 {
		t.Fatalf("%d replicas", r)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
	exactlyOnce(t, b.js, b.log, "B200", 0)
	for _, name := range []string{stream.Replays("LISTINGS"), stream.DeadLetters("LISTINGS")} {
		config := stream.Complete(jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}})
		var found stream.Found
		eventually(t, "the cluster makes "+name, func() bool {
			var err error
			found, err = stream.Ensure(t.Context(), b.js, config, stream.Rights{Manage: true})
			return err == nil
		})
		if n := found.Info.Config.Replicas; n != 3 {
			t.Errorf("%s has %d replicas", name, n)
		}
	}
}

// TestTheRelayContinuesOnAClusterThatHasForgottenIDs has a cluster that refuses none of the ids
// that it holds, like a new leader that has not read them.
func TestTheRelayContinuesOnAClusterThatHasForgottenIDs(t *testing.T) {
	t.Parallel()
	b := clusterBell(t, natsdtest.Start(t))
	narrow := b.o.StreamConfig()
	narrow.Duplicates = 100 * time.Millisecond
	eventually(t, "the cluster makes the stream", func() bool {
		_, err := b.js.CreateStream(t.Context(), narrow)
		return err == nil
	})
	b.log.ring(t, "A100", 3)
	r := b.relay()
	r.session.maxMessage = 1 << 20
	for _, e := range b.log.list("A100") {
		eventually(t, "the server of the connection knows the stream", func() bool {
			_, err := b.js.PublishMsg(t.Context(), r.message(e))
			if err != nil && !errors.Is(err, jetstream.ErrNoStreamResponse) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	eventually(t, "the ids are forgotten", func() bool {
		ack, err := b.js.Publish(t.Context(), "listings.v1.B200.test", nil, jetstream.WithMsgID("clock"))
		return err == nil && !ack.Duplicate && ack.Sequence > 4
	})
	if _, err := b.js.UpdateStream(t.Context(), b.o.StreamConfig()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		eventually(t, "offered again", func() bool { return b.relay().RunOnce(t.Context()) == nil })
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
}
