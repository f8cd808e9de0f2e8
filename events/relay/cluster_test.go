package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// tailElsewhere begins to read what is new by a consumer that is not where the connection is, whose end would be heard of at once. It
// returns where it is.
func (b *bell) tailElsewhere(c *natsdtest.Cluster) (got chan string, at int, stop func()) {
	b.t.Helper()
	for {
		ctx, cancel := context.WithCancel(b.t.Context())
		b.t.Cleanup(cancel)
		got = make(chan string)
		go func() {
			defer close(got)
			for e, err := range Tail(ctx, stream.Conn{Conn: b.nc}, TailOptions{Stream: "LISTINGS", Prefix: "listings"}) {
				got <- fmt.Sprint(e.AgencyID, "/", e.Sequence, " ", err)
			}
		}()
		consumer := ""
		eventually(b.t, "consumer", func() bool {
			for info := range b.stream().ListConsumers(b.t.Context()).Info() {
				if info.Config.FilterSubject == "listings.v1.*.>" {
					consumer = info.Name
				}
			}
			return consumer != ""
		})
		if at = c.ConsumerLeader("LISTINGS", consumer); strings.Split(c.URL(), ",")[at] != b.nc.ConnectedUrl() {
			return got, at, cancel
		}
		cancel()
		<-got
		if err := b.stream().DeleteConsumer(b.t.Context(), consumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			b.t.Fatal(err)
		}
	}
}

func TestTailGoesOnWhereTheServerOfItsConsumerDies(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	b := clusterBell(t, c)
	defer b.start(b.relay())()
	b.log.ring(t, "A100", 1)
	eventually(t, "published", func() bool { return b.published("A100") })
	got, at, _ := b.tailElsewhere(c)
	c.Stop(at)
	b.log.ring(t, "A100", 1)
	eventually(t, "published", func() bool { return b.published("A100") })
	select {
	case text := <-got:
		if text != "A100/2 <nil>" {
			t.Fatal(text)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("what was published after the server's death never came")
	}
}
