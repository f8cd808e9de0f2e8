package poller_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings/listingstest"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// answering is a transport that replaces the API's response to an operation with a fixture, while there is one.
type answering struct {
	honest, fixed http.RoundTripper
	fixture       atomic.Pointer[listingstest.Fixture]
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	of := map[string]string{listingstest.Insertions: "/insertions", listingstest.ContactRequests: "/property/" + listingstest.Reference}
	if f := a.fixture.Load(); f != nil && strings.HasSuffix(r.URL.Path, of[f.Operation]) {
		return a.fixed.RoundTrip(r)
	}
	return a.honest.RoundTrip(r)
}

// serveFixtures puts the fixture, while there is one, before the sandbox.
func serveFixtures(w *world) *answering {
	a := &answering{honest: w.options.API.Transport}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.fixture.Load().ServeHTTP(w, r) })
	fixed := &http.Transport{DialContext: listingstest.Serve(w.t, handler).Dial, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10}
	w.t.Cleanup(fixed.CloseIdleConnections)
	a.fixed, w.options.API.Transport = fixed, a
	return a
}

// snapshot is what the store remembers of insertions and contact requests, without what every walk and poll renews.
func snapshot(w *world, agency string) map[string]any {
	all := map[string]any{}
	w.must(w.store.View(func(tx *store.Tx) error {
		for i := range tx.Insertions(agency) {
			i.LastPoll, i.Epoch = time.Time{}, 0
			all[i.Reference] = []any{i, tx.ContactRequests(agency, i.Reference)}
		}
		return nil
	}))
	return all
}

// TestEveryBadResponseChangesNothingAndIsReported gives the whole poller every unusable response,
// one after the other: what is remembered stays as it was, and only the watch publishes an event.
func TestEveryBadResponseChangesNothingAndIsReported(t *testing.T) {
	for _, operation := range []string{listingstest.Insertions, listingstest.ContactRequests} {
		t.Run(operation, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.options.RetryMax = 30 * time.Second
				a := serveFixtures(w)
				w.publish("A100", listingstest.Reference, "a#2##", "a#3##")
				w.write("A100", listingstest.Reference, time.Hour)
				often := w.options
				w.options.PollInterval, w.options.WalkInterval = 30*time.Minute, 30*time.Minute
				w.start()
				w.pass(26 * time.Hour) // beyond the first of what is done once a day
				w.halt()
				if operation == listingstest.Insertions {
					w.options.WalkInterval = often.WalkInterval
				} else {
					w.options.PollInterval = often.PollInterval
				}
				w.start()
				w.pass(40 * time.Minute)
				before := snapshot(w, "A100")
				tried := 0
				for _, f := range listingstest.Fixtures() {
					if f.Operation != operation || !bad(f) {
						continue
					}
					if tried++; raced && tried%24 == 1 || !raced && inRound(tried) {
						badAnswer(w, a, f)
					}
				}
				if after := snapshot(w, "A100"); !reflect.DeepEqual(before, after) {
					t.Errorf("what is remembered has changed:\n%v\n%v", before, after)
				}
				if tried < 50 {
					t.Errorf("only %d responses are tried", tried)
				}
				young := w.write("A100", listingstest.Reference, 0)
				w.pass(31 * time.Minute)
				if announced(w.log("A100"))[young] != 1 {
					t.Error("afterwards nothing is announced")
				}
			})
		})
	}
}

// bad reports whether a response must change nothing for any operation. Refusals have tests of their own; what depends on
// what was learned before has them in listings.
func bad(f listingstest.Fixture) bool {
	refused := f.Want.Status == http.StatusForbidden || f.Want.Status == http.StatusUnauthorized
	lone := strings.HasPrefix(f.Name, "one-object") // is a record, where the list was learned to be
	return f.Want.Kind != listingstest.Records && !refused && !lone && f.Learned == nil
}

func badAnswer(w *world, a *answering, f listingstest.Fixture) {
	n := len(w.log("A100"))
	a.fixture.Store(&f)
	w.pass(4 * time.Minute)
	a.fixture.Store(nil)
	w.pass(4 * time.Minute)
	drifts := 0
	for _, e := range w.since("A100", n) {
		if !strings.HasPrefix(string(e.Type), "watch.") {
			w.t.Errorf("%s: %v", f.Name, e)
		}
		if e.Type == events.TypeWatchSchemaDrifted {
			drifts++
		}
	}
	none := f.Operation == listingstest.ContactRequests && f.Name == "status-204"
	if want := f.Want.Kind == listingstest.Drift && !none; (drifts == 1) != want || drifts > 1 {
		w.t.Errorf("%s (%s): %d drifts were reported: %v", f.Name, f.Want.Kind, drifts, w.since("A100", n))
	}
}

// TestEveryGoodResponseIsRememberedAsItReads gives the whole poller every response that has
// records, in whatever shape.
func TestEveryGoodResponseIsRememberedAsItReads(t *testing.T) {
	tried := 0
	for _, f := range listingstest.Fixtures() {
		if f.Want.Kind != listingstest.Records || f.Learned != nil {
			continue
		}
		if tried++; raced && tried%12 != 0 || !raced && !inRound(tried) {
			continue
		}
		t.Run(f.Operation+"/"+f.Name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) { goodAnswer(w, f) })
		})
	}
	if tried < 100 {
		t.Errorf("only %d responses were tried", tried)
	}
}

func goodAnswer(w *world, f listingstest.Fixture) {
	a := serveFixtures(w)
	w.publish("A100", listingstest.Reference)
	a.fixture.Store(&f)
	w.start()
	w.pass(2 * time.Minute)
	for _, e := range w.log("A100") {
		if e.Type == events.TypeWatchSchemaDrifted || strings.HasPrefix(string(e.Type), "insertion.") {
			w.t.Errorf("%s: %s", e.Type, e.Data)
		}
	}
	want := map[string]bool{}
	for _, r := range f.Want.List {
		want[r.ID] = true
	}
	var got []string
	for reference, one := range snapshot(w, "A100") {
		if f.Operation == listingstest.Insertions {
			got = append(got, reference)
		} else {
			for _, r := range one.([]any)[1].([]store.ContactRequest) {
				got = append(got, r.ID)
			}
		}
	}
	slices.Sort(got)
	if f.Operation == listingstest.Insertions {
		for _, reference := range got {
			if !want[reference] {
				w.t.Errorf("%q is remembered and not in the response", reference)
			}
		}
	}
	// Where ids are not fit to be ids, records of one id are two.
	if (len(got) < len(want) || len(got) > len(f.Want.List)) && !want[""] {
		w.t.Errorf("%d are remembered, %d are in the response: %s", len(got), len(want), fmt.Sprintf("%q", got))
	}
}
