package relay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log := newMemLog()
	return &bell{t: t, nc: nc, js: js, log: log, o: Options{
		Log: log, Conn: stream.Conn{Conn: nc}, Prefix: "listings", Stream: "LISTINGS", Manage: true, Replicas: 3, StoreID: "s1", AckWait: 2 * time.Second,
	}}
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

func TestAReaderEndsWhenToldWhileTheStreamHasNoLeader(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	b := clusterBell(t, c)
	end := b.start(b.relay())
	b.log.ring(t, "A100", 1)
	eventually(t, "published", func() bool { return b.published("A100") })
	end()
	got, _, stop := b.tailElsewhere(c)
	sent := b.nc.Stats().OutMsgs
	for n, url := range strings.Split(c.URL(), ",") {
		if url != b.nc.ConnectedUrl() {
			c.Stop(n)
		}
	}
	eventually(t, "it asks for another consumer again and again", func() bool {
		select {
		case text, more := <-got:
			t.Fatalf("it reads %q, and goes on: %t", text, more)
		default:
		}
		return b.nc.Stats().OutMsgs > sent+5
	})
	stop()
	select {
	case text, more := <-got:
		if more {
			t.Fatal(text)
		}
	case <-time.After(9 * time.Second): // what it asked may take ten, or twenty
		t.Fatal("it goes on")
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		all := make([]byte, 1<<23)
		if !strings.Contains(string(all[:runtime.Stack(all, true)]), "jetstream.(*ordered") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("what it asked does not come to its end")
		}
		time.Sleep(200 * time.Millisecond) // the look stops everybody else
	}
}

// TestAClusterThatHasForgottenIDsGoesOn: its members give a stream up when they cannot apply what they have replicated.
func TestAClusterThatHasForgottenIDsGoesOn(t *testing.T) {
	t.Parallel()
	b := clusterBell(t, natsdtest.Start(t))
	narrow := b.o.StreamConfig()
	narrow.Duplicates = 100 * time.Millisecond
	if _, err := b.js.CreateStream(t.Context(), narrow); err != nil {
		t.Fatal(err)
	}
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
		eventually(t, "compared", func() bool { return b.relay().RunOnce(t.Context()) == nil })
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
}
