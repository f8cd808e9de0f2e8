package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

var clusterFigures = flag.Int("cluster.figures", 0, "how many owners TestFiguresOfACluster kills, and how many it stops")

// TestFiguresOfACluster measures three doorbells with the leases that users have:
// `go test ./cmd/doorbell -run TestFiguresOfACluster -cluster.figures 10 -timeout 1h -v`.
func TestFiguresOfACluster(t *testing.T) {
	if *clusterFigures == 0 {
		t.Skip("it measures, and proves nothing: set -cluster.figures")
	}
	c := newClusteredOf(t, 1, 20*time.Second, 60, "A100", "B200", "C300", "D400", "E500", "F600")
	_, js := connected(t, c.nats.URL())
	owner := func(agency string) string {
		m, err := js.Stream(t.Context(), "LISTINGS")
		if err != nil {
			t.Fatal(err)
		}
		head, err := m.GetLastMsgForSubject(t.Context(), "listings.state.v1."+events.Token(agency)+".head")
		var h struct{ Owner string }
		if err == nil {
			err = json.Unmarshal(head.Data, &h)
		}
		if err != nil {
			t.Fatal(err)
		}
		return h.Owner
	}
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		var took []time.Duration
		for range *clusterFigures {
			var m *member
			var lost []string
			for len(lost) == 0 {
				m = c.one()
				lost = slices.DeleteFunc(slices.Clone(c.agencies), func(id string) bool { return owner(id) != m.id() })
			}
			begin := time.Now()
			m.end(how)
			asked := map[string]int{}
			for _, id := range lost {
				asked[id] = c.oracle.model.Requests(sandbox.Filter{AgencyID: id})
			}
			for len(lost) > 0 {
				time.Sleep(10 * time.Millisecond) // doorbells are other processes: there is no signal to wait for
				lost = slices.DeleteFunc(lost, func(id string) bool {
					polled := c.oracle.model.Requests(sandbox.Filter{AgencyID: id}) > asked[id]
					if polled {
						took = append(took, time.Since(begin))
					}
					return polled
				})
			}
			m.start()
			m.process.stderr.await(t, "cluster: member")
			time.Sleep(25 * time.Second) // until it has its part again
		}
		slices.Sort(took)
		t.Logf("%v: first request for an agency of it after p50 %s, at most %s (%d agencies)", how, took[len(took)/2].Round(10*time.Millisecond),
			took[len(took)-1].Round(10*time.Millisecond), len(took))
	}
}

// TestIdleTrafficOfACluster counts what two hundred agencies of which nothing is new cost the servers.
func TestIdleTrafficOfACluster(t *testing.T) {
	if *clusterFigures == 0 {
		t.Skip("it measures, and proves nothing: set -cluster.figures")
	}
	var agencies []string
	for n := range 200 {
		agencies = append(agencies, fmt.Sprint("A", 100+n))
	}
	c := newClusteredOf(t, 1, 20*time.Second, 0, agencies...)
	_, js := connected(t, c.nats.URL())
	written := func() (all uint64) {
		for stream := range js.ListStreams(t.Context()).Info() {
			all += stream.State.LastSeq
		}
		return all
	}
	// The first minutes are news: each insertion is polled for the first time.
	const during = 30 * time.Second
	for range 20 {
		before := written()
		time.Sleep(during) // what is written meanwhile is what is measured
		t.Logf("%.2f messages a second are written", float64(written()-before)/during.Seconds())
	}
}

// TestLatencyOfACluster compares how long an event is on its way from the answer that holds it into the stream: of three doorbells, and of a single
// one on the same servers.
func TestLatencyOfACluster(t *testing.T) {
	if *clusterFigures == 0 {
		t.Skip("it measures, and proves nothing: set -cluster.figures")
	}
	c := newClusteredOf(t, 1, 20*time.Second, 600, "A100", "B200", "C300")
	_, js := connected(t, c.nats.URL())
	measure := func(name, stream string) {
		time.Sleep(time.Duration(*clusterFigures) * time.Minute) // what comes meanwhile is what is measured
		in, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		consumer, err := in.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		messages, err := consumer.Messages(jetstream.PullHeartbeat(time.Second)) // one that has just been made may not answer: then another is made
		if err != nil {
			t.Fatal(err)
		}
		defer messages.Stop()
		var took []time.Duration
		for pending := uint64(1); pending > 0; {
			m, err := messages.Next()
			if err != nil {
				t.Fatal(err)
			}
			meta, err := m.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			pending = meta.NumPending
			if e, err := events.Decode(m.Headers(), m.Data()); err == nil && e.Origin == events.OriginLive && e.Type == events.TypeContactRequestCreated {
				var data events.ContactRequestCreated
				if err := json.Unmarshal(e.Data, &data); err != nil {
					t.Fatal(err)
				}
				took = append(took, meta.Timestamp.Sub(data.ObservedAt))
			}
		}
		slices.Sort(took)
		t.Logf("%s: from answer to stream p50 %s, p99 %s (%d contact requests, %d replicas)", name, took[len(took)/2], took[len(took)*99/100], len(took),
			in.CachedInfo().Config.Replicas)
	}
	measure("cluster", "LISTINGS")
	for _, m := range c.members {
		m.end(syscall.SIGTERM)
	}
	alone := c.members[0]
	alone.environ = append(alone.environ, "DOORBELL_CLUSTER=", "DOORBELL_SUBJECT_PREFIX=single", "DOORBELL_STREAM=SINGLE", "DOORBELL_DATA_DIR="+shortDir(t))
	alone.start()
	within(t, time.Minute, "it has a stream", func() bool {
		_, err := js.Stream(t.Context(), "SINGLE")
		return err == nil
	})
	measure("alone", "SINGLE")
}
