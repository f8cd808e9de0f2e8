package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/natsd/natsdtest"
	"doorbell/poller/listings/listingstest"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// waitingInARound is how many events wait in the end.
const waitingInARound = 20_000

// Bounds while NATS is away, and when it is back.
const (
	mostResident = 300.0 // MB at any time, beside the pages of the store, which belong to the system
	mostGrowth   = 32.0  // MB of memory that is no file's, from a hundredth of the events to all of them
	drainFirst   = 100_000
	drainWithin  = 2 * time.Minute
)

// TestEventsWaitForNATSWithoutHoldingUpAnything starts the daemon on a store in which events wait,
// with NATS away: it polls, finds contact requests and answers as with a hundredth of them. Then
// NATS comes, with fsync, and the stream gets each event once and in order. The long form:
// `go test ./cmd/doorbell/torture -run TestEventsWaitForNATS -rounds 50 -timeout 1h -v`.
func TestEventsWaitForNATSWithoutHoldingUpAnything(t *testing.T) {
	runsByName(t)
	few := measureBacklog(t, waitingInARound**rounds/100)
	all := measureBacklog(t, waitingInARound**rounds)
	if natsdtest.Raced { // neither time nor memory is what it is
		return
	}
	if all.polls < few.polls/2 {
		t.Errorf("polling went down from %.0f to %.0f a second", few.polls, all.polls)
	}
	if grown := all.anon - few.anon; grown > mostGrowth {
		t.Errorf("memory grew by %.0f MB", grown)
	}
	if all.status > time.Second || all.found > 5*time.Second {
		t.Errorf("a status took %s, and finding a contact request %s", all.status, all.found)
	}
	if all.resident > mostResident {
		t.Errorf("up to %.0f MB were resident beside the store", all.resident)
	}
	if all.first > drainWithin {
		t.Errorf("the first events took %s", all.first)
	}
}

// backlogMarks is what was measured with n events waiting.
type backlogMarks struct {
	polls          float64 // a second
	found, status  time.Duration
	anon, resident float64       // MB: before the drain; at most, and without the store's pages
	first          time.Duration // until the stream held the first drainFirst events
}

// backlog is a daemon that polls one agency, and whose store holds waiting events of others.
type backlog struct {
	doorbelltest.Scene
	far     *doorbelltest.FarServer
	daemon  *doorbelltest.Child
	client  *ops.Client
	waiting uint64          // events of the store that are in no stream
	rung    map[string]bool // contact requests at the API, and whether the stream holds them
}

func measureBacklog(t *testing.T, waiting int) (m backlogMarks) {
	t.Helper()
	b := backlog{Scene: doorbelltest.NewScene(t, "A100"), far: doorbelltest.StartFar(t), rung: map[string]bool{}}
	b.Watched(t, "A100")
	b.fill(t, waiting)
	b.far.Stop()
	b.far.Sync = true
	b.daemon = doorbelltest.Launch(t, b.With("NATS_URL="+b.far.URL(), "DOORBELL_STREAM_MAX=16GiB", "DOORBELL_STORE_MAX=16GiB"), "run")
	b.client = ops.NewClient(filepath.Join(b.Dir, daemon.SocketFile))
	b.reach(t, uint64(waiting)+1) // the baseline of A100

	const window = time.Second
	asked := b.Asked("A100")
	time.Sleep(window) // what is counted in it is the measure
	m.polls = float64(b.Asked("A100")-asked) / window.Seconds()
	for range 5 {
		began := time.Now()
		b.rung[b.Ring(t, "A100")] = false
		b.reach(t, b.waiting+1)
		m.found = max(m.found, time.Since(began))
		began = time.Now()
		b.reach(t, 0)
		m.status = max(m.status, time.Since(began))
	}
	m.anon = memoryOf(t, b.daemon)["RssAnon"]

	began := time.Now()
	b.far.Start(t)
	quick := min(b.waiting, drainFirst)
	doorbelltest.Within(t, 30*time.Minute, "the stream holds the first", func() bool { return b.held(t) >= quick })
	m.first = time.Since(began)
	b.rung[b.Ring(t, "A100")] = false
	doorbelltest.Within(t, 30*time.Minute, "the stream holds all", func() bool { return b.held(t) > b.waiting })
	took := time.Since(began)
	file, err := os.Stat(filepath.Join(b.Dir, daemon.StoreFile))
	must(t, err)
	m.resident = memoryOf(t, b.daemon)["VmHWM"] - float64(file.Size())/1e6
	b.daemon.Stop(t)
	b.judge(t, waiting)
	t.Logf("%d wait: %+v; drained at %.0f a second, with fsync", waiting, m, float64(waiting)/took.Seconds())
	return m
}

// fill appends contact requests of twenty agencies to the log, as large as the contract's example.
func (b *backlog) fill(t *testing.T, n int) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: b.Dir, BaseURL: b.URL})
	for from := 0; from < n && err == nil; from += 500 {
		err = s.Update(func(tx *store.Tx) error {
			for number := from; number < min(from+500, n); number++ {
				e, err := inventedRequest(fmt.Sprint("Z", number/500%20), number)
				if err == nil {
					_, err = tx.Append(e)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil {
		err = s.Close()
	}
	must(t, err)
}

func inventedRequest(agency string, number int) (events.Event, error) {
	now := time.Now()
	return events.New(&events.ContactRequestCreated{
		Common:              events.Common{AgencyID: agency, ObservedAt: now, ObservedAfter: now.Add(-time.Minute)},
		PropertyReferenceID: listingstest.MarketReference(number % 2000),
		ContactRequestID:    fmt.Sprint("invented-", number), Identity: events.IdentityID, CreatedAt: now.Add(-time.Minute),
		Contact:   events.Contact{Salutation: "Frau", FirstName: "Nora", LastName: "Beispiel" + sandbox.Marker, Language: "de"},
		Insertion: events.InsertionSummary{Title: "Helle 3.5-Zimmerwohnung im Seefeld", PostalCode: "8008"},
		Record:    []byte(listingstest.MarketRequest(number, 0, now)),
	})
}

// reach waits until n events are in the log alone.
func (b *backlog) reach(t *testing.T, want uint64) {
	t.Helper()
	doorbelltest.Within(t, 3*doorbelltest.Patience, fmt.Sprint(want, " events wait"), func() bool {
		s, err := b.client.Status(t.Context())
		b.waiting = waiting(s)
		return err == nil && b.waiting >= want
	})
}

// held is how many messages the stream has; 0 also if there is none yet.
func (b *backlog) held(t *testing.T) uint64 {
	t.Helper()
	nc, js := doorbelltest.Connected(t, b.far.URL())
	defer nc.Close()
	s, err := js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.Msgs
}

// judge reads the stream from its beginning: each id once, positions rising, and all that waited.
func (b *backlog) judge(t *testing.T, invented int) {
	t.Helper()
	all, err := doorbelltest.ReadStream(t.Context(), b.far.URL())
	must(t, err)
	ids, last := map[string]bool{}, ""
	for _, m := range all {
		id, position := m.Header.Get("ce-id"), m.Header.Get("ce-sequence")
		if ids[id] || id != m.Header.Get("Nats-Msg-Id") || position <= last {
			t.Fatalf("id %q occurs twice, or position %s follows %s", id, position, last)
		}
		ids[id], last = true, position
		if _, ours := b.rung[m.Body.ContactRequestID]; ours {
			b.rung[m.Body.ContactRequestID] = true
		} else if m.Kind() == string(events.TypeContactRequestCreated) {
			invented--
		}
	}
	if invented != 0 {
		t.Errorf("%d of what waited are missing", invented)
	}
	for id, published := range b.rung {
		if !published {
			t.Errorf("contact request %s is missing", id)
		}
	}
}
