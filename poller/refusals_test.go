package poller_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// refusedUnderWay is a world in which A100 halts while polls of its insertions are under way, which are refused half a
// minute later. The API grants everything again.
func refusedUnderWay(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests {
				return &sandbox.Fault{Delay: 25 * time.Second, Status: 403}
			}
			return nil
		})
		w.askNow()
		w.must(w.model.UnlinkKey(testKey, "A100"))
		w.askNow()
		if s := w.status("A100"); s.State != "halted" {
			t.Fatalf("status: %+v", s)
		}
		w.model.SetFault(nil)
		w.model.AddKey(testKey, "A100")
		test(w)
	})
}

// askNow lets A100 be walked, and polls of all its insertions begin.
func (w *world) askNow() {
	w.t.Helper()
	_, err := w.poller.PollNow("A100")
	w.must(err)
	w.pass(2 * time.Second)
}

// wellAgain wants that the halt that was told first is over, and that every insertion is polled.
func (w *world) wellAgain(cause string) {
	w.t.Helper()
	id := map[string]int{}
	for _, reference := range []string{"a#1##", "a#2##", "a#3##", "a#4##"} {
		id[w.write("A100", reference, 0)] = 1
	}
	w.pass(10 * time.Minute)
	list := w.since("A100", 1)
	if h, r := count(list, events.TypeAccessHalted), count(list, events.TypeAccessResumed); h != 1 || r != 1 {
		w.t.Fatalf("%d halts and %d resumes, want 1 and 1: %v", h, r, list)
	}
	if list[0].body["scope"] != "agency" || list[1].body["cause"] != cause {
		w.t.Errorf("%v, %v", list[0].body, list[1].body)
	}
	got := announced(list)
	for one := range id {
		if got[one] != 1 {
			w.t.Errorf("a lead is told %d times", got[one])
		}
	}
}

func TestARefusalOfBeforeTheEndOfAHaltHaltsNoInsertionAfterARestart(t *testing.T) {
	refusedUnderWay(t, func(w *world) {
		w.pass(time.Minute) // what was under way is refused
		if n, err := poller.ResumeRemembered(w.store, "A100", ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		w.restart()
		w.wellAgain("operator")
	})
}

func TestARefusalOfBeforeTheEndOfAHaltHaltsNoInsertionUnderAnotherKey(t *testing.T) {
	refusedUnderWay(t, func(w *world) {
		w.pass(time.Minute)
		w.model.AddKey(newKey, "A100")
		w.options.Agencies = []poller.AgencyKeys{keyed("A100", newKey)}
		w.restart()
		w.wellAgain("key_changed")
	})
}

func TestARefusalThatWasUnderWayAtTheEndOfAHaltHaltsNothing(t *testing.T) {
	refusedUnderWay(t, func(w *world) {
		if n, err := w.poller.Resume("A100", ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		w.wellAgain("operator")
	})
}

func TestNothingIsSentOnceMoreAfterAHalt(t *testing.T) {
	refusedUnderWay(t, func(w *world) {
		lost := listings.Request{Operation: listings.OperationContactRequests, AgencyID: "A100", Reference: "a#1##", Key: listings.NewKey(testKey).Fingerprint()}
		if w.poller.SendAgain(w.t.Context(), lost) == nil {
			t.Error("of a halted agency")
		}
		if n, err := w.poller.Resume("A100", ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := w.poller.SendAgain(w.t.Context(), lost); err != nil {
			t.Errorf("after the halt: %v", err)
		}
	})
}

func TestNothingIsSentOnceMoreWhileAllWaits(t *testing.T) {
	for name, wait := range map[string]func(w *world, asked *atomic.Bool){
		"key": func(w *world, asked *atomic.Bool) {
			asked.Store(true) // to come back in ten minutes
		},
		"disk": func(w *world, _ *atomic.Bool) {
			full := store.NewHousekeeping(store.HousekeepingOptions{Store: w.store, Retention: time.Hour, Max: 1})
			go func() { _ = full.Run(w.t.Context()) }()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", "a#1##", "a#2##")
				w.start()
				w.pass(10 * time.Minute)
				var slow atomic.Int32 // requests that lose their connection after 25 seconds
				var busy atomic.Bool
				w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
					switch {
					case c.Reference == "a#1##":
						slow.Add(1)
						return &sandbox.Fault{Delay: 25 * time.Second, Cut: -1}
					case busy.Load():
						return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"600"}}}
					}
					return nil
				})
				w.askNow()
				if slow.Load() != 1 {
					t.Fatalf("%d requests are under way", slow.Load())
				}
				wait(w, &busy)
				w.write("A100", "a#2##", 0)
				w.askNow()
				w.pass(2 * time.Minute)
				if n := slow.Load(); n != 1 {
					t.Errorf("%d times once more", n-1)
				}
			})
		})
	}
}

func TestWhatIsSentOnceMoreIsWithinTheBudget(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		var mu sync.Mutex
		var seen []time.Time
		dropped := 0
		answer := sandbox.New(w.model, sandbox.Flat())
		requests := map[net.Conn]int{}
		type connection struct{}
		listener := newPipes()
		server := &http.Server{
			ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
			Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				c := r.Context().Value(connection{}).(net.Conn)
				mu.Lock()
				seen = append(seen, time.Now())
				requests[c]++
				again := requests[c] > 1
				if again {
					dropped++
				}
				mu.Unlock()
				if again { // as a gateway that gives up the connections that it keeps
					here, _, err := http.NewResponseController(rw).Hijack()
					w.must(err)
					here.Close()
					return
				}
				answer.ServeHTTP(rw, r)
			}),
		}
		var serving sync.WaitGroup
		serving.Go(func() { server.Serve(listener) })
		defer serving.Wait()
		defer server.Close()
		under := listings.NewTransport(listings.TransportOptions{Dial: listener.dial})
		defer under.CloseIdleConnections()
		w.options.API.Transport = under
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.start()
		w.pass(20 * time.Minute)
		lead := w.write("A100", "a#1##", 0)
		w.pass(5 * time.Minute)
		if got := announced(w.log("A100")); got[lead] != 1 {
			t.Errorf("the lead is told %d times", got[lead])
		}
		w.halt()
		mu.Lock()
		defer mu.Unlock()
		for n, at := range seen[1:] {
			if gap := at.Sub(seen[n]); gap < time.Second/5 {
				t.Fatalf("requests %d and %d are %v apart", n, n+1, gap)
			}
		}
		if dropped < 20 {
			t.Errorf("%d of %d requests were sent once more", dropped, len(seen))
		}
	})
}
