package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/natsd"
	"doorbell/events/natsd/natsdtest"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
)

var sharedAgencies = []string{"A100", "B200", "C300"}

// shared is a market that several daemons watch, on a cluster of three servers.
type shared struct {
	t     *testing.T
	nats  *natsdtest.Cluster
	model *sandbox.Model
	url   string
	leads map[string][]string // by agency
	log   io.Writer

	receiver *counter // nil: none
}

// counter is a receiver that counts.
type counter struct {
	mu   sync.Mutex
	told map[string]int // by contact request
}

func (c *counter) Send(_ context.Context, d forward.Delivery) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range d.Events {
		var data struct {
			ContactRequestID string `json:"contactRequestId"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return err
		}
		c.told[data.ContactRequestID]++
	}
	return nil
}

func (*counter) Traits() forward.Traits {
	return forward.Traits{Destination: forward.Destination("counter", "one")}
}

// wants waits until all contact requests have come, and fails if one came twice.
func (c *counter) wants(t *testing.T, leads map[string][]string) {
	t.Helper()
	n := 0
	for _, of := range leads {
		n += len(of)
	}
	eventually(t, "all have come", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.told) >= n
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, times := range c.told {
		if times != 1 {
			t.Errorf("contact request %s came %d times", id, times)
		}
	}
}

// logged is what daemons have logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) holds(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), words)
}

func newShared(t *testing.T) *shared {
	t.Helper()
	t.Parallel() // most of these tests wait for somebody to take over
	s := &shared{t: t, nats: natsdtest.Start(t), leads: map[string][]string{}, log: io.Discard}
	s.model = sandbox.NewModel(sandbox.Options{Seed: 1})
	sandbox.NewGenerator(s.model, sandbox.GeneratorOptions{Seed: 1, Agencies: sharedAgencies, Insertions: 4, History: 1}).Seed()
	s.model.AddKey(testKey, sharedAgencies...)
	server := httptest.NewServer(sandbox.New(s.model, sandbox.Flat()))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// join starts a daemon in a directory; stop ends it in order.
func (s *shared) join(dir string) (d *Daemon, stop func()) {
	s.t.Helper()
	return s.start(dir, "three")
}

// start is join of the cluster of this name; empty: of none.
func (s *shared) start(dir, cluster string) (d *Daemon, stop func()) {
	s.t.Helper()
	var forwarders []Forwarder
	if s.receiver != nil {
		forwarders = []Forwarder{{Name: "counter", Routes: []forward.Route{{Receiver: s.receiver, Filter: forward.Filter{Types: []string{string(events.TypeContactRequestCreated)}}}}}}
	}
	d, err := New(s.t.Context(), Options{
		Forwarders: forwarders,
		DataDir:    dir, NATSListen: "off", SubjectPrefix: "listings", Stream: "LISTINGS", ManageStream: true, Retention: time.Hour, StreamMax: 1 << 30,
		NATS: natsd.Dial{URL: s.nats.URL()}, Cluster: ClusterOptions{Name: cluster, Lease: 8 * time.Second}, Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Poller: poller.Options{
			API: listings.Options{BaseURL: s.url}, RequestsPerSecond: 90, PollInterval: 100 * time.Millisecond,
			WalkInterval: 150 * time.Millisecond, Agencies: listed(sharedAgencies...),
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := d.Run(ctx)
		if err != nil {
			s.t.Errorf("it ended by itself: %v", err)
		}
		ended <- err
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-ended
		d.Close()
	}
	s.t.Cleanup(stop)
	return d, stop
}

func (s *shared) dir() string {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "db") // the path of a socket may not be long
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// write adds a contact request to each agency.
func (s *shared) write() {
	s.t.Helper()
	truth := s.model.Truth()
	for _, id := range sharedAgencies {
		n := slices.IndexFunc(truth.Insertions, func(i sandbox.InsertionTruth) bool { return i.AgencyID == id })
		lead, err := s.model.AddContactRequest(id, truth.Insertions[n].Reference, sandbox.ContactRequest{LastName: "Muster" + sandbox.Marker, Email: fmt.Sprintf("m%d@example.org", len(s.leads[id]))})
		if err != nil {
			s.t.Fatal(err)
		}
		s.leads[id] = append(s.leads[id], lead)
	}
}

// owned are the agencies that a daemon polls.
func owned(d *Daemon) (ids []string) {
	for _, a := range d.poller.Status().Agencies {
		ids = append(ids, a.AgencyID)
	}
	return ids
}

// told waits until the stream has an event of each contact request, and fails if one is there twice, or a number is missing.
func (s *shared) told() {
	s.t.Helper()
	nc, err := nats.Connect(s.nats.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, id := range sharedAgencies {
		var counts map[string]int
		eventually(s.t, "all contact requests of "+id+" are told", func() bool {
			counts = map[string]int{}
			next := uint64(1)
			c, err := js.OrderedConsumer(s.t.Context(), "LISTINGS", jetstream.OrderedConsumerConfig{FilterSubjects: []string{events.AgencyFilter("listings", id)}})
			if err != nil {
				return false
			}
			batch, err := c.FetchNoWait(10000)
			if err != nil {
				return false
			}
			for m := range batch.Messages() {
				e, err := events.Decode(m.Headers(), m.Data())
				if err != nil {
					s.t.Fatal(err)
				}
				if e.Sequence != next {
					s.t.Fatalf("agency %s: event %d has the number %d", id, next, e.Sequence)
				}
				next++
				if e.Type == events.TypeContactRequestCreated && e.Origin == events.OriginLive {
					var data struct {
						ContactRequestID string `json:"contactRequestId"`
					}
					if err := json.Unmarshal(e.Data, &data); err != nil {
						s.t.Fatal(err)
					}
					counts[data.ContactRequestID]++
				}
			}
			return len(counts) >= len(s.leads[id])
		})
		for _, lead := range s.leads[id] {
			if counts[lead] != 1 {
				s.t.Errorf("contact request %s of %s was told %d times", lead, id, counts[lead])
			}
		}
		if len(counts) != len(s.leads[id]) {
			s.t.Errorf("%d contact requests of %s were told, %d came", len(counts), id, len(s.leads[id]))
		}
	}
}

// TestDoorbellsShareAgenciesAndTakeThemOver lets doorbells come and go. Each agency is polled by one of them, and every contact request is
// told once.
func TestDoorbellsShareAgenciesAndTakeThemOver(t *testing.T) {
	s := newShared(t)
	all := func(daemons ...*Daemon) func() bool {
		return func() bool {
			var ids []string
			for _, d := range daemons {
				m := d.sharing.member.Load()
				if m == nil || slices.ContainsFunc(owned(d), func(id string) bool { return m.Wanted(id) != d.store.ID() }) {
					return false
				}
				ids = append(ids, owned(d)...)
			}
			slices.Sort(ids)
			return slices.Equal(ids, sharedAgencies)
		}
	}
	dirOne := s.dir()
	one, stopOne := s.join(dirOne)
	eventually(t, "the first one watches all", all(one))
	s.write()
	s.told()
	two, _ := s.join(s.dir())
	three, stopThree := s.join(s.dir())
	eventually(t, "the others are members", func() bool { return len(one.sharing.member.Load().View().Members) == 3 })
	eventually(t, "each has its part, which chance decides", all(one, two, three))
	s.write()
	s.told()
	stopOne()
	s.write()
	eventually(t, "those who stay watch all", all(two, three))
	s.told()
	one, _ = s.join(dirOne)
	stopThree()
	s.write()
	eventually(t, "the first one is back", all(one, two))
	s.write()
	s.told()
}

// TestAKeyThatTheAPIAsksToWaitWaitsInAllDoorbells lets the API throttle the one doorbell that asks at the moment.
func TestAKeyThatTheAPIAsksToWaitWaitsInAllDoorbells(t *testing.T) {
	s := newShared(t)
	one, stop := s.join(s.dir())
	eventually(t, "it watches all", func() bool { return len(owned(one)) == len(sharedAgencies) })
	key := listings.NewKey(testKey).Fingerprint()
	until := time.Now().Add(10 * time.Minute)
	one.sharing.throttled(key, until)
	eventually(t, "the others know", func() bool { return len(one.sharing.member.Load().View().Pauses) == 1 })
	stop()
	asked := s.model.Requests(sandbox.Filter{})
	said := &logged{}
	s.log = said
	two, _ := s.join(s.dir())
	eventually(t, "another one has claimed all", func() bool { return len(owned(two)) == len(sharedAgencies) })
	eventually(t, "it waits", func() bool { return said.holds("the API throttles a key elsewhere") })
	if more := s.model.Requests(sandbox.Filter{}) - asked; more > 0 {
		t.Errorf("the API was asked %d times", more)
	}
}

// TestOneOfTheDoorbellsForwardsAndAnotherGoesOn lets the one that has its turn leave, and come back.
func TestOneOfTheDoorbellsForwardsAndAnotherGoesOn(t *testing.T) {
	s := newShared(t)
	s.receiver = &counter{told: map[string]int{}}
	var daemons []*Daemon
	var stops []func()
	dirs := []string{s.dir(), s.dir()}
	for _, dir := range dirs {
		d, stop := s.join(dir)
		daemons, stops = append(daemons, d), append(stops, stop)
	}
	at := func() (n int) {
		return slices.IndexFunc(daemons, func(d *Daemon) bool { return len(d.forwarderStatus()) == 1 && d.forwarderStatus()[0].Destination != "" })
	}
	polled := func() bool { return len(owned(daemons[0]))+len(owned(daemons[1])) == len(sharedAgencies) }
	eventually(t, "all are watched and one forwards", func() bool { return polled() && at() >= 0 })
	s.write()
	s.receiver.wants(t, s.leads)
	for range 2 {
		n := at()
		stops[n]()
		s.write()
		s.receiver.wants(t, s.leads) // from the other one
		daemons[n], stops[n] = s.join(dirs[n])
		s.write()
		s.receiver.wants(t, s.leads)
		eventually(t, "all are watched and one forwards", func() bool { return polled() && at() >= 0 })
	}
}
