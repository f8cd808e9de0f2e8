package relay

import (
	"testing"
	"time"

	"doorbell/events/natsd"
	"doorbell/events/natsd/natsdtest"

	"github.com/nats-io/nats.go/jetstream"
)

func clusterBell(t testing.TB, c *natsdtest.Cluster) *bell {
	t.Helper()
	nc, err := natsd.Connect(natsd.Dial{URL: c.URL()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log := newMemLog()
	return &bell{t: t, nc: nc, js: js, log: log, o: Options{
		Log: log, Conn: nc, Prefix: "listings", Stream: "LISTINGS", Manage: true, Replicas: 3, StoreID: "s1", AckWait: 2 * time.Second,
	}}
}

func TestAClusterWhoseLeaderIsKilledGetsEveryEventOnce(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	b := clusterBell(t, c)
	b.o.BatchEvents = 20
	stop := b.start(b.relay())
	b.log.ring(t, "A100", 5)
	b.log.ring(t, "B200", 5)
	published := func() bool { return b.published("A100") && b.published("B200") }
	eventually(t, "published", published)
	for range 3 {
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
	b.wantRepairs("A100")
	b.wantRepairs("B200")
}
