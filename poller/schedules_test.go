package poller_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
)

// Each of these schedules once lost, doubled, invented or delayed something, or asked what must not be asked.

const keyOfB = "22222222-2222-4333-8444-555555555555"

// tripper is a transport with something in front.
type tripper func(*http.Request) (*http.Response, error)

func twoKeys(w *world) {
	w.model.AddAgency("B200")
	w.model.AddKey(keyOfB, "B200")
	w.options.Agencies = append(w.options.Agencies, poller.AgencyKeys{ID: "B200", Key: listings.NewKey(keyOfB)})
}

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAKeyThatWaitsKeepsNoOtherWaiting(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		twoKeys(w)
		for n := range 30 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.publish("B200", "b#1##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Key == "key-1" {
				return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}
			}
			return nil
		})
		w.pass(2 * time.Minute)
		id := w.write("B200", "b#1##", 0)
		w.pass(20 * time.Minute)
		if got := announced(w.log("B200")); got[id] != 1 {
			t.Errorf("lead of another key not announced in 20 min")
		}
	})
}

func TestAGoneInsertionThatFailsIsNotAskedForEver(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{WithdrawnStatus: 500}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.options.PollInterval, w.options.WalkInterval = 15*time.Minute, time.Hour
		w.start()
		w.pass(20 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(72 * time.Hour)
		before := w.model.Requests(sandbox.Filter{Reference: "a#1##"})
		w.pass(24 * time.Hour)
		if n := w.model.Requests(sandbox.Filter{Reference: "a#1##"}) - before; n != 0 {
			t.Errorf("%d requests on the fourth day after it was gone (500)", n)
		}
	})
}

func TestARefusedLastLookIsNotAskedAgain(t *testing.T) {
	inWorld(t, sandbox.Options{WithdrawnStatus: 403, KeepLog: true}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.options.PollInterval = time.Hour
		w.start()
		w.pass(65 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		before := w.model.Requests(sandbox.Filter{Reference: "a#1##"})
		w.pass(3 * time.Hour)
		if n := w.model.Requests(sandbox.Filter{Reference: "a#1##"}) - before; n > 1 {
			t.Errorf("%d requests that were refused", n)
		}
	})
}

func TestAReferenceTwiceOnAPageIsNoChange(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation != sandbox.OperationInsertions {
				return nil
			}
			return &sandbox.Fault{Body: []byte(`{"results":[{"propertyReferenceId":"a#1##","lang":"de"},{"propertyReferenceId":"a#1##","lang":"fr"}]}`)}
		})
		w.start()
		w.pass(time.Hour)
		if n := count(w.log("A100"), events.TypeInsertionChanged); n > 1 {
			t.Errorf("%d changes of an insertion that never changed", n)
		}
	})
}

func TestARefusedKeyForgetsNoInsertionThatIsGone(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 5 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.start()
		w.pass(10 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(15 * time.Minute)
		if count(w.log("A100"), events.TypeInsertionDisappeared) != 1 {
			t.Fatal("setup")
		}
		var dead atomic.Bool
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault { // the key dies; the gone insertion is the first to notice
			if c.Reference == "a#1##" {
				dead.Store(true)
			}
			if dead.Load() {
				return &sandbox.Fault{Status: 403}
			}
			return nil
		})
		w.pass(5 * time.Minute)
		id := w.write("A100", "a#1##", 0)
		w.model.SetFault(nil)
		n, err := w.poller.Resume("A100", "")
		w.must(err)
		w.pass(2 * time.Hour)
		if got := announced(w.log("A100")); n != 1 || got[id] != 1 {
			t.Errorf("lead lost after resume of %d halts", n)
		}
	})
}

func TestAnOrderThatIsIgnoredHidesNothing(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		for n := range 40 {
			score := float64(60 + n*17%40) // the order is seen not to be that of creation
			_, err := w.model.AddContactRequest("A100", "a#1##", sandbox.ContactRequest{CreatedAt: time.Now().Add(-time.Hour), Score: score, Email: fmt.Sprint(time.Now(), "@x")})
			w.must(err)
			w.pass(time.Second)
		}
		inner := w.options.API.Transport
		w.options.API.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Has("sortBy") { // sorts by score, whatever is asked
				q.Set("sortBy", "score")
				q.Set("sortOrder", "desc")
				r = r.Clone(r.Context())
				r.URL.RawQuery = q.Encode()
			}
			return inner.RoundTrip(r)
		})
		w.start()
		w.pass(10 * time.Minute)
		n0 := len(w.log("A100"))
		id := w.write("A100", "a#1##", 0) // score 50: the last
		w.pass(2 * time.Hour)
		if got := announced(w.log("A100")); got[id] != 1 {
			t.Errorf("not announced in two hours: %v", types(w.since("A100", n0)))
		}
	})
}

func TestAnInsertionThatComesBackBringsNoContactRequestFromBeforeTheWatch(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		old := w.write("A100", "a#1##", 30*time.Hour)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.start()
		w.pass(10 * time.Minute)
		w.publish("A100", "a#1##")
		young := w.write("A100", "a#1##", 0)
		w.pass(10 * time.Minute)
		if got := announced(w.log("A100")); got[old] != 0 || got[young] != 1 {
			t.Errorf("announced %v; %s is older than the watch, %s is not", got, old, young)
		}
	})
}

func TestWhatNothingTellsTheTimeOfIsCountedOverAFailureInTheFirstCatchUp(t *testing.T) {
	for name, kill := range map[string]bool{"failure": false, "kill": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				h := &hostile{written: func(kept) any { return "kürzlich" }}
				h.fault = func(_ sandbox.Call, n int) *sandbox.Fault {
					if n != 3 { // the first two learn the id
						return nil
					}
					return &sandbox.Fault{Status: 500}
				}
				h.take(w)
				w.publish("A100", "a#1##")
				h.add("a#1##", 7, 0)
				w.start()
				if kill {
					w.pass(100 * time.Millisecond)
					w.restart()
				}
				w.pass(20 * time.Minute)
				gaps := gapsOf(w.log("A100"))
				if len(gaps) != 1 || gaps[0].body["reason"] != "time_unknown" || gaps[0].body["reached"] != 7.0 {
					t.Errorf("seven were taken for old: %v", gaps)
				}
				if n := count(w.log("A100"), events.TypeContactRequestCreated); n != 0 {
					t.Errorf("%d announced", n)
				}
			})
		})
	}
}
