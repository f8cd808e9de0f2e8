package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/listings/listingstest"
	"doorbell/poller/sandbox"
	"doorbell/schemas/schematest"
	"doorbell/store"
)

const (
	testKey = "11111111-2222-4333-8444-555555555555"
	newKey  = "99999999-2222-4333-8444-555555555555"
)

// rounds is how much of long tables, and how many days, are tried.
var rounds = flag.Int("rounds", 1, "quarters of the fixtures, services, floods and faults in a catch-up, and of 200 agencies; "+
	"from 2 on also two days each of lists without an order")

// inRound reports whether the n-th case of a long table runs: every fourth in one round, all in four.
func inRound(n int) bool { return n%4 < *rounds }

// TestMain collects garbage less often: hundreds of small worlds would otherwise spend a quarter of their time on it. Stores stand in
// memory where it has room for them: here the process ends, never the machine, and no disk has to be waited for. Under the race
// detector one goroutine runs at a time: two that look at due timers of one bubble at once share what the detector knows of
// them, and it ends the process (https://github.com/golang/go/issues/78156).
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	var memory syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &memory); err == nil && memory.Bavail*uint64(memory.Bsize) > 1<<30 {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	if raced {
		runtime.GOMAXPROCS(1)
	}
	os.Exit(m.Run())
}

// world is the API, served over real HTTP on pipes, a store on disk and a poller between them, in virtual time.
type world struct {
	t       *testing.T
	model   *sandbox.Model
	dir     string
	options poller.Options

	begun  func(*poller.Poller) // is done to each before it runs; nil: nothing
	store  *store.Store
	poller *poller.Poller
	stop   func()
	ends   error                     // what Run returns; nil: nothing
	judged map[string]map[string]any // the bodies of events that were checked against their schemas
	logs   map[string]readSoFar      // of agencies, since the store was opened
}

// long is a test of hours and days, or of hundreds of insertions, in which the same goroutines do the same as in shorter ones, more
// often: the race detector would see nothing else.
func long(t *testing.T) {
	if raced {
		t.Skip("runs without the race detector")
	}
}

// inPages is a flat rendering of n insertions a page.
func inPages(most int) sandbox.Rendering {
	r := sandbox.Flat()
	r.MaxPageSize = most
	return r
}

// inWorld runs a test inside a bubble. The API knows the agencies; nothing is watched before start.
func inWorld(t *testing.T, o sandbox.Options, rendering sandbox.Rendering, agencies []string, test func(*world)) {
	t.Helper()
	t.Parallel()
	inBubble(t, o, rendering, agencies, test)
}

// inBubble is inWorld without running beside other tests.
func inBubble(t *testing.T, o sandbox.Options, rendering sandbox.Rendering, agencies []string, test func(*world)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "db")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dir: dir, judged: map[string]map[string]any{}}
		w.model = sandbox.NewModel(o)
		w.model.AddKey(testKey, agencies...)
		w.options = poller.Options{
			API: listings.Options{BaseURL: "http://127.0.0.1:1"}, RequestsPerSecond: 5,
			PollInterval: 30 * time.Second, WalkInterval: 2 * time.Minute,
		}
		w.serve(sandbox.New(w.model, rendering))
		for _, id := range agencies {
			w.model.AddAgency(id)
			w.options.Agencies = append(w.options.Agencies, poller.AgencyKeys{ID: id, Key: listings.NewKey(testKey)})
		}
		defer w.halt()
		test(w)
	})
}

// serve connects the poller to an API.
func (w *world) serve(api http.Handler) {
	transport := listings.NewTransport(0, nil)
	transport.DialContext = listingstest.Serve(w.t, api).Dial
	w.t.Cleanup(transport.CloseIdleConnections)
	w.options.API.Transport = transport
}

// start opens the store and begins, or continues, to watch.
func (w *world) start() {
	w.t.Helper()
	s, err := store.Open(store.Options{Dir: w.dir, BaseURL: w.options.API.BaseURL})
	if err != nil {
		w.t.Fatal(err)
	}
	w.options.Store, w.logs = s, map[string]readSoFar{}
	p, err := poller.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.begun != nil {
		w.begun(p)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	w.store, w.poller = s, p
	w.stop = func() {
		cancel()
		if err := <-ended; !errors.Is(err, w.ends) {
			w.t.Errorf("Run: %v", err)
		}
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
		w.stop = nil
	}
}

// halt stops watching, if it had begun.
func (w *world) halt() {
	if w.stop != nil {
		w.stop()
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.halt()
	w.start()
}

// pass lets virtual time go by, and runs what is due.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// passTwice lets time go by, and as much again after a restart.
func (w *world) passTwice(d time.Duration) {
	w.t.Helper()
	w.pass(d)
	w.restart()
	w.pass(d)
}

// told is an event as a test sees it.
type told struct {
	events.Event
	body map[string]any
}

func (e told) String() string {
	id, _ := e.body["contactRequestId"].(string)
	return fmt.Sprintf("%s %s %s%s", e.AgencyID, e.Type, e.Reference, id)
}

// readSoFar is what a log held, and how far that is.
type readSoFar struct {
	list []told
	at   uint64
}

// log returns the events of an agency, each checked against its schema, and read once since the store was opened.
func (w *world) log(agency string) []told {
	w.t.Helper()
	l := w.logs[agency]
	more, at, err := w.store.EventsAfter(agency, l.at, 1<<30, 1<<40)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range more {
		l.list = append(l.list, told{Event: e, body: w.read(e)})
	}
	l.at = at
	w.logs[agency] = l
	return slices.Clip(l.list)
}

// read checks an event against its schema, once for the same bytes.
func (w *world) read(e events.Event) (body map[string]any) {
	w.t.Helper()
	words := string(e.Type) + string(e.Data)
	if body, ok := w.judged[words]; ok {
		return body
	}
	schematest.Validate(w.t, string(e.Type), e.Data)
	if err := json.Unmarshal(e.Data, &body); err != nil {
		w.t.Fatal(err)
	}
	w.judged[words] = body
	return body
}

// since returns what an agency's log holds beyond n events.
func (w *world) since(agency string, n int) []told { return w.log(agency)[n:] }

func types(list []told) []events.Type {
	all := make([]events.Type, 0, len(list))
	for _, e := range list {
		all = append(all, e.Type)
	}
	return all
}

// wants fails unless the events are of exactly these types, in this order.
func (w *world) wants(list []told, want ...events.Type) {
	w.t.Helper()
	if got := types(list); !slices.Equal(got, want) {
		w.t.Fatalf("got  %v\nwant %v", list, want)
	}
}

func count(list []told, kind events.Type) (n int) {
	for _, e := range list {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func (w *world) status(agency string) poller.AgencyStatus {
	w.t.Helper()
	for _, a := range w.poller.Status().Agencies {
		if a.AgencyID == agency {
			return a
		}
	}
	w.t.Fatalf("no status of %s", agency)
	return poller.AgencyStatus{}
}

func (w *world) publish(agency string, references ...string) {
	w.t.Helper()
	for _, r := range references {
		i := sandbox.Insertion{Reference: r, OfferType: "RENT", RankType: "STANDARD", Address: sandbox.Address{Locality: "Zürich"}}
		if err := w.model.Publish(agency, i); err != nil {
			w.t.Fatal(err)
		}
	}
}

// write adds a contact request and returns its id.
func (w *world) write(agency, reference string, age time.Duration) string {
	w.t.Helper()
	id, err := w.model.AddContactRequest(agency, reference, sandbox.ContactRequest{
		CreatedAt: time.Now().Add(-age), Score: 50, FirstName: "Nora", LastName: "Beispiel" + sandbox.Marker,
		Email: fmt.Sprintf("nora%d@example.org", time.Now().UnixNano()), Message: "Guten Tag", Status: "NEW",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// announced returns the ids of announced contact requests with how often each was.
func announced(list []told) map[string]int {
	ids := map[string]int{}
	for _, e := range list {
		if e.Type == events.TypeContactRequestCreated {
			ids[e.body["contactRequestId"].(string)]++
		}
	}
	return ids
}

// peak is the largest number of requests that arrived within one window of time anywhere in a log.
func peak(log []sandbox.Request, window time.Duration) (most int) {
	slices.SortFunc(log, func(x, y sandbox.Request) int { return x.At.Compare(y.At) })
	first := 0
	for i, r := range log {
		for r.At.Sub(log[first].At) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func keyed(id, key string) poller.AgencyKeys {
	return poller.AgencyKeys{ID: id, Key: listings.NewKey(key)}
}

// configure changes what is configured, now and for the next start.
func (w *world) configure(list ...poller.AgencyKeys) {
	w.t.Helper()
	w.options.Agencies = list
	if w.stop != nil {
		w.restart()
	}
}

// lists counts the list requests of an agency with a key; status 0 for any.
func (w *world) lists(agency, label string, status int) int {
	return w.model.Requests(sandbox.Filter{AgencyID: agency, Operation: sandbox.OperationInsertions, Key: label, Status: status})
}

// failing responds to one operation with a status; to the whole API where none is named.
func failing(operation string, status int) func(sandbox.Call) *sandbox.Fault {
	return func(c sandbox.Call) *sandbox.Fault {
		if operation == "" || string(c.Operation) == operation {
			return &sandbox.Fault{Status: status}
		}
		return nil
	}
}

// setMember gives every listed insertion a member, or takes it away where the value is nil.
func (w *world) setMember(agency string, references []string, name string, value func(reference string) any) {
	w.t.Helper()
	for _, r := range references {
		w.must(w.model.Edit(agency, r, func(i *sandbox.Insertion) {
			if i.Extra == nil {
				i.Extra = map[string]json.RawMessage{}
			}
			if value == nil {
				delete(i.Extra, name)
				return
			}
			text, err := json.Marshal(value(r))
			w.must(err)
			i.Extra[name] = text
		}))
	}
}

func same(v any) func(string) any { return func(string) any { return v } }

func references(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("a#%03d##", i))
	}
	return all
}
