package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/natsd/natsdtest"
	"doorbell/store"

	"github.com/nats-io/nats.go/jetstream"
)

// member is a doorbell that shares agencies: its store, and a relay that runs.
type member struct {
	t     testing.TB
	name  string
	store *store.Store
	relay *Relay
	js    jetstream.JetStream

	mu    sync.Mutex
	lost  map[string]bool
	done  context.CancelFunc
	ended chan error
}

// join starts a member on servers; its batches are small, so that many commits need several.
func join(t testing.TB, c *natsdtest.Cluster, name string) *member {
	t.Helper()
	return clusterBell(t, c).member(name)
}

// member starts one on the bell's server.
func (b *bell) member(name string) *member {
	t := b.t
	t.Helper()
	m := &member{t: t, name: name, lost: map[string]bool{}}
	var err error
	if m.store, err = store.Open(store.Options{Dir: t.TempDir(), BaseURL: "https://api.example.org", Replicated: "shared"}); err != nil {
		t.Fatal(err)
	}
	m.js = b.js
	b.o.Log, b.o.Owner, b.o.Shared, b.o.StoreID, b.o.BatchEvents = m.store, name, m.store, "shared", 8
	b.o.Lost = func(agency string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lost[agency] = true
	}
	m.relay = b.relay()
	ctx, cancel := context.WithCancel(context.Background())
	m.done, m.ended = cancel, make(chan error, 1)
	go func() { m.ended <- m.relay.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-m.ended; err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		m.store.Close()
	})
	return m
}

// claim tries until the agency is this member's, whoever owns it.
func (m *member) claim(agency string) {
	m.t.Helper()
	m.mu.Lock()
	m.lost[agency] = false
	m.mu.Unlock()
	eventually(m.t, m.name+" claims "+agency, func() bool {
		ctx, cancel := context.WithTimeout(m.t.Context(), 10*time.Second)
		defer cancel()
		h, err := m.relay.Claim(ctx, agency, func(string, string) (bool, error) { return true, nil })
		return err == nil && h.Owner == m.name
	})
}

// shown is what the API shows of each agency: contact requests, of which every seventh is old.
type shown map[string][]string

func (s shown) write(agency string, n int) {
	for range n {
		s[agency] = append(s[agency], fmt.Sprint(len(s[agency])+1))
	}
}

func old(id string) bool {
	n, _ := strconv.Atoi(id)
	return n%7 == 0
}

func created(t testing.TB, agency, id string) events.Event {
	t.Helper()
	e, err := events.New(&events.ContactRequestCreated{
		Common:              events.Common{AgencyID: agency, ObservedAt: time.Now()},
		PropertyReferenceID: "a#b", ContactRequestID: id, Identity: events.IdentityID, Record: []byte(`{}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// poll commits what the API shows and the member does not know, a few at once.
func (m *member) poll(api shown, agency string) {
	m.t.Helper()
	known := m.known(agency)
	news := slices.DeleteFunc(slices.Clone(api[agency]), func(id string) bool { return slices.Contains(known, id) })
	for part := range slices.Chunk(news, 3) {
		err := m.store.Update(func(tx *store.Tx) error {
			state, _ := tx.Agency(agency)
			state.CompleteWalks++
			err := tx.PutAgency(agency, state)
			for _, id := range part {
				c := store.ContactRequest{ID: id, Fields: []store.Field{{Name: "lastName", Digest: store.FieldDigest{1}}}}
				err = errors.Join(err, tx.PutContactRequests(agency, "a#b", c))
				if !old(id) {
					_, failed := tx.Append(created(m.t, agency, id))
					err = errors.Join(err, failed)
				}
			}
			return err
		})
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *member) known(agency string) (ids []string) {
	m.t.Helper()
	err := m.store.View(func(tx *store.Tx) error {
		for _, c := range tx.ContactRequests(agency, "a#b") {
			ids = append(ids, c.ID)
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return ids
}

// drained waits until the stream has all of an agency.
func (m *member) drained(agency string) {
	m.t.Helper()
	eventually(m.t, m.name+" is drained", func() bool { return m.waiting(agency) == 0 })
}

// waiting is how much of an agency the stream is to take next.
func (m *member) waiting(agency string) int {
	m.t.Helper()
	b, err := m.store.Batch(agency, 1, 1)
	if err != nil {
		m.t.Fatal(err)
	}
	return len(b.Events) + len(b.Rows)
}

// wantAll holds the stream's events of an agency against what the API shows: no gap in the numbers, no id twice, none missing.
func (api shown) wantAll(t *testing.T, js jetstream.JetStream, agency string) {
	t.Helper()
	ids := map[string]bool{}
	var number uint64
	for _, m := range held(t, js, events.AgencyFilter("listings", agency)) {
		e, err := events.Decode(m.Header, m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if number++; e.Sequence != number || ids[e.ID] {
			t.Fatalf("event %d of agency %s has the number %d; its id is there before: %v", number, agency, e.Sequence, ids[e.ID])
		}
		ids[e.ID] = true
	}
	for _, id := range api[agency] {
		if told := ids[created(t, agency, id).Stamp(1, time.Now(), "shared").ID]; told == old(id) {
			t.Errorf("contact request %s of agency %s, old: %v, published: %v", id, agency, old(id), told)
		}
	}
}

// TestAnAgencyGoesFromOwnerToOwnerWithoutLoss lets three doorbells take two agencies from each other, each as if the one before had
// stopped past its deadline and went on: it commits what nobody will hear of. Meanwhile leaders of the stream are killed.
func TestAnAgencyGoesFromOwnerToOwnerWithoutLoss(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	members := []*member{join(t, c, "one"), join(t, c, "two"), join(t, c, "three")}
	owners, api := map[string]*member{}, shown{}
	for n := range 24 {
		agency := []string{"A100", "B#200"}[rand.IntN(2)]
		before, next := owners[agency], members[rand.IntN(3)]
		if before != nil {
			api.write(agency, rand.IntN(30))
			before.poll(api, agency)
			if rand.IntN(2) == 0 {
				before.drained(agency)
			}
			if rand.IntN(4) == 0 {
				if err := before.relay.Release(t.Context(), agency); err != nil {
					t.Fatal(err)
				}
			}
		}
		next.claim(agency)
		if owners[agency] = next; before != nil && before != next {
			api.write(agency, 3)
			before.poll(api, agency) // it does not know yet
		}
		api.write(agency, rand.IntN(10))
		next.poll(api, agency)
		if n%8 == 4 {
			lost := c.Leader("LISTINGS")
			c.Stop(lost)
			api.write(agency, 5)
			next.poll(api, agency)
			next.drained(agency)
			c.Start(lost)
		}
	}
	for agency, owner := range owners {
		owner.drained(agency)
		api.wantAll(t, owner.js, agency)
		last := join(t, c, "last of "+agency)
		last.claim(agency)
		if got, want := last.known(agency), owner.known(agency); !slices.Equal(got, want) {
			t.Errorf("the next owner of %s knows %d contact requests, the one before %d", agency, len(got), len(want))
		}
		api.write(agency, 1)
		owner.poll(api, agency)
		eventually(t, "the owner before hears of it", func() bool {
			owner.mu.Lock()
			defer owner.mu.Unlock()
			return owner.lost[agency]
		})
		last.poll(api, agency)
		last.drained(agency)
		api.wantAll(t, last.js, agency)
	}
}

// TestAnOwnerThatLeavesAnAgencyToAnotherDoorbellReleasesIt lets one that knows of no owners publish it as well.
func TestAnOwnerThatLeavesAnAgencyToAnotherDoorbellReleasesIt(t *testing.T) {
	t.Parallel()
	c, api := natsdtest.Start(t), shown{}
	one, two := join(t, c, "one"), join(t, c, "two")
	one.claim("A100")
	plain := clusterBell(t, c)
	relay := plain.relay()
	t.Cleanup(plain.start(relay))
	for n := 0; !contested(one.relay); n++ {
		if n == 20 {
			t.Fatal("both go on")
		}
		plain.log.ring(t, "A100", 1)
		eventually(t, "the other doorbell publishes", func() bool {
			relay.TakeOver("A100")
			return plain.published("A100")
		})
		api.write("A100", 1)
		one.poll(api, "A100")
		eventually(t, "the owner publishes, or leaves it", func() bool { return contested(one.relay) || one.waiting("A100") == 0 })
	}
	owner := one
	for _, next := range []*member{two, one} {
		if err := owner.relay.Release(t.Context(), "A100"); err != nil {
			t.Fatal(err)
		}
		h, err := next.relay.Claim(t.Context(), "A100", func(string, string) (bool, error) { return false, nil })
		if owner = next; err != nil || h.Owner != owner.name {
			t.Fatalf("it is owned by %q: %v", h.Owner, err)
		}
		api.write("A100", 1)
		owner.poll(api, "A100")
		owner.drained("A100")
		api.wantAll(t, owner.js, "A100")
	}
}

// TestHeadsShowWhoOwnsWhatNowAndLater reads heads that stand, and one that is written while they are read.
func TestHeadsShowWhoOwnsWhatNowAndLater(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	one, two := join(t, c, "one"), join(t, c, "two")
	const odd = "A 1.ü"
	one.claim("A100")
	one.claim(odd)
	ctx, cancel := context.WithCancel(t.Context())
	heads, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- two.relay.Heads(ctx, func(token string, h Head) { heads <- fmt.Sprint(token, " ", h.Owner, " ", h.Epoch) })
	}()
	expect := func(want ...string) {
		t.Helper()
		for len(want) > 0 {
			select {
			case got := <-heads:
				if n := slices.Index(want, got); n >= 0 {
					want = slices.Delete(want, n, n+1)
				}
			case <-time.After(time.Minute):
				t.Fatalf("no head says %q", want)
			}
		}
	}
	expect("A100 one 1", events.Token(odd)+" one 1")
	two.claim("A100")
	expect("A100 two 2")
	if err := two.relay.Release(t.Context(), "A100"); err != nil {
		t.Fatal(err)
	}
	expect("A100  2")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestAnOwnerSeedsAgainWhatTheStreamLost takes the head and the rows of an agency away from its owner, and lets another doorbell go on.
func TestAnOwnerSeedsAgainWhatTheStreamLost(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	one, two := join(t, c, "one"), join(t, c, "two")
	for name, lose := range map[string]func(context.Context, jetstream.JetStream) error{
		"purged": func(ctx context.Context, js jetstream.JetStream) error {
			s, err := js.Stream(ctx, "LISTINGS")
			if err != nil {
				return err
			}
			return s.Purge(ctx)
		},
		"deleted": func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, "LISTINGS") },
	} {
		t.Run(name, func(t *testing.T) {
			api := shown{}
			api.write(name, 20)
			one.claim(name)
			one.poll(api, name)
			one.drained(name)
			if err := lose(t.Context(), one.js); err != nil {
				t.Fatal(err)
			}
			api.write(name, 20)
			one.poll(api, name)
			one.drained(name)
			two.claim(name)
			if got, want := two.known(name), one.known(name); !slices.Equal(got, want) {
				t.Errorf("the next owner knows %d contact requests, the one before %d", len(got), len(want))
			}
			api.write(name, 1)
			two.poll(api, name)
			two.drained(name)
			var numbers []uint64
			for _, m := range held(t, two.js, events.AgencyFilter("listings", name)) {
				e, err := events.Decode(m.Header, m.Data)
				if err != nil {
					t.Fatal(err)
				}
				if n := len(numbers); n > 0 && e.Sequence != numbers[n-1]+1 {
					t.Errorf("number %d follows %d", e.Sequence, numbers[n-1])
				}
				numbers = append(numbers, e.Sequence)
			}
			first, last := uint64(1), uint64(36) // of 41 every seventh is old
			if name == "purged" {
				first = 19 // what was purged stays so
			}
			if len(numbers) == 0 || numbers[0] > first || numbers[len(numbers)-1] < last {
				t.Errorf("the stream has the numbers %v", numbers)
			}
		})
	}
}

// TestACommitLargerThanABatchAndAnEntryLargerThanAMessage… fills more batches than one with one commit, and puts an entry into it that the
// server does not take.
func TestACommitLargerThanABatchAndAnEntryLargerThanAMessageHoldNothingUp(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	one, two := join(t, c, "one"), join(t, c, "two")
	one.relay.o.BatchEvents = serverBatch
	const many = 1500
	one.claim("A100")
	err := one.store.Update(func(tx *store.Tx) error {
		err := errors.Join(tx.PutAgency("A100", store.Agency{CompleteWalks: 1}), tx.PutRecord("A100", "a#b", bytes.Repeat([]byte("x"), 2<<20)))
		for n := range many {
			r := store.ContactRequest{ID: fmt.Sprint(n), Fields: []store.Field{{Name: "lastName", Digest: store.FieldDigest{1}}}}
			err = errors.Join(err, tx.PutContactRequests("A100", "a#b", r))
		}
		_, failed := tx.Append(created(t, "A100", "1"))
		return errors.Join(err, failed)
	})
	if err != nil {
		t.Fatal(err)
	}
	one.drained("A100")
	two.claim("A100")
	if n := len(two.known("A100")); n != many {
		t.Errorf("the next owner knows %d contact requests of %d", n, many)
	}
	shown{"A100": {"1"}}.wantAll(t, two.js, "A100")
}
