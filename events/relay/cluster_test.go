package relay

import (
	"testing"

	"doorbell/events/natsd"
	"doorbell/events/natsd/natsdtest"
)

func clusterBell(t testing.TB, c *natsdtest.Cluster) *bell {
	t.Helper()
	nc, err := natsd.Connect(natsd.Dial{URL: c.URL()}, nil)
	if err != nil {
		t.Fatal(err)
	}
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
}
