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

func TestWhatWaitsForTheBudgetObeysRetryAfterToo(t *testing.T) {
	inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 100 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = 5 * time.Second
		w.start()
		w.pass(2 * time.Minute)
		var once atomic.Bool
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests && once.CompareAndSwap(false, true) {
				return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"600"}}}
			}
			return nil
		})
		for !once.Load() {
			w.pass(100 * time.Millisecond)
		}
		before := w.model.Requests(sandbox.Filter{})
		w.pass(9 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{}) - before; n > 1 {
			t.Errorf("%d requests in the 9 minutes after a Retry-After of 10 minutes was read", n)
		}
	})
}

func TestARefusedOldKeyHaltsNotTheNewOne(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.model.AddKey(newKey, "A100")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Key == "key-1" {
				return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"1800"}}}
			}
			return nil
		})
		w.pass(5 * time.Minute) // the next walk waits for the key
		w.configure(poller.AgencyKeys{ID: "A100", Key: listings.NewKey(newKey)})
		w.pass(time.Minute)
		w.model.SetFault(nil)
		w.must(w.model.DeactivateKey(testKey))
		w.publish("A100", "a#3##")
		w.pass(10 * time.Minute)
		if n := count(w.log("A100"), events.TypeInsertionAppeared); n != 1 {
			t.Errorf("no walk with the new key within ten minutes")
		}
		w.pass(2 * time.Hour)
		if n := count(w.log("A100"), events.TypeAccessHalted); n != 0 {
			t.Errorf("halted though the configured key was never refused: %+v", w.status("A100").Halts)
		}
	})
}

func TestARefusalOfTheOldKeyThatWasUnderWayHaltsNothing(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.model.AddKey(newKey, "A100")
		w.start()
		w.pass(10 * time.Minute)
		var walking atomic.Bool
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Key != "key-1" {
				return nil
			}
			if c.Operation == sandbox.OperationInsertions {
				walking.Store(true)
			}
			return &sandbox.Fault{Delay: 20 * time.Second, Status: 403}
		})
		for range 3000 {
			if walking.Load() {
				break
			}
			w.pass(100 * time.Millisecond)
		}
		w.configure(poller.AgencyKeys{ID: "A100", Key: listings.NewKey(newKey)})
		w.pass(2 * time.Hour)
		if h := w.status("A100").Halts; len(h) != 0 {
			t.Errorf("halted for ever though the configured key was never refused: %+v", h)
		}
	})
}

func TestALateArrivalIsFoundWhereTheWidestWindowIsRefused(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Nested(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		for k := range 30 {
			w.write("A100", "a#1##", time.Duration(k)*time.Minute)
		}
		var refused atomic.Int64
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if n := c.Query.Get("numberOfItemsPerPage"); n == "200" || n == "500" || n == "1000" {
				refused.Add(1)
				return &sandbox.Fault{Status: 400}
			}
			return nil
		})
		w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, time.Hour
		w.start()
		w.pass(5 * time.Minute)
		for range 25 {
			w.write("A100", "a#1##", 0)
			w.pass(time.Second)
		}
		w.pass(5 * time.Minute)
		late := w.write("A100", "a#1##", 15*time.Minute+500*time.Millisecond)
		w.pass(26 * time.Hour)
		if got := announced(w.log("A100")); got[late] != 1 {
			t.Errorf("late arrival at place 26 not announced within 26 hours")
		}
		before := refused.Load()
		w.pass(time.Hour)
		if n := refused.Load() - before; n > 5 {
			t.Errorf("%d refused requests for a wide window within an hour", n)
		}
	})
}

func TestWhatCannotBeSeenIsSaidWhereAnOrderIsRefused(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.write("A100", "a#1##", time.Hour)
		inner := w.options.API.Transport
		w.options.API.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Has("numberOfItemsPerPage") { // a cap of 20
				q.Set("numberOfItemsPerPage", "20")
				r = r.Clone(r.Context())
				r.URL.RawQuery = q.Encode()
			}
			return inner.RoundTrip(r)
		})
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Query.Get("sortBy") == "score" || c.Query.Get("sortOrder") == "asc" {
				return &sandbox.Fault{Status: 400}
			}
			return nil
		})
		w.start()
		w.pass(5 * time.Minute)
		for range 60 {
			w.write("A100", "a#1##", 0)
		}
		w.pass(2 * time.Hour)
		got, gaps := count(w.log("A100"), events.TypeContactRequestCreated), count(w.log("A100"), events.TypeWatchGapDetected)
		if got < 60 && gaps != 1 {
			t.Errorf("%d of 60 announced, %d gaps told", got, gaps)
		}
	})
}

func TestInsertionsThatAreNotFoundAreNoReasonToWalkWithoutEnd(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, inPages(10), []string{"A100"}, func(w *world) {
		for n := range 40 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault { // no contact requests yet: 404
			var n int
			if _, err := fmt.Sscanf(c.Reference, "a#%d##", &n); err == nil && n%2 == 0 {
				return &sandbox.Fault{Status: 404}
			}
			return nil
		})
		w.options.PollInterval = 2 * time.Minute
		w.start()
		w.pass(30 * time.Minute)
		before := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationInsertions})
		w.pass(time.Hour)
		if n := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationInsertions}) - before; n > 30*8 {
			t.Errorf("%d list requests within an hour of a walk every two minutes", n)
		}
	})
}

// a hold that passed while nothing could be read is not believed at the first look
func TestAHoldNeedsFurtherCompleteWalks(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 20 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = 10 * time.Minute // walks decide
		w.start()
		w.pass(10 * time.Minute)
		var mode atomic.Int64
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation != sandbox.OperationInsertions {
				return nil
			}
			switch mode.Load() {
			case 1:
				return &sandbox.Fault{Body: []byte(`{"results":[]}`)}
			case 2:
				return &sandbox.Fault{Status: 500}
			}
			return nil
		})
		mode.Store(1)
		w.pass(5 * time.Minute)
		mode.Store(2)
		w.pass(40 * time.Minute)
		mode.Store(1)
		w.pass(2 * time.Minute)
		mode.Store(0)
		w.pass(10 * time.Minute)
		if n := count(w.log("A100"), events.TypeInsertionDisappeared); n != 0 {
			t.Errorf("%d false disappearances", n)
		}
	})
}

// stale Held from an old, never-ended hold
func TestASecondMassChangeIsHeldAnew(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		var all []string
		for n := range 60 {
			all = append(all, fmt.Sprintf("a#%d##", n))
		}
		w.publish("A100", all...)
		w.options.PollInterval = 10 * time.Minute // walks decide
		w.start()
		w.pass(10 * time.Minute)
		for _, r := range all[:30] {
			w.must(w.model.Withdraw("A100", r))
		}
		w.pass(29 * time.Minute)
		// about to be believed: now the list breaks for a short time
		n0 := len(w.log("A100"))
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationInsertions {
				return &sandbox.Fault{Body: []byte(`{"results":[]}`)}
			}
			return nil
		})
		w.pass(8 * time.Minute)
		w.model.SetFault(nil)
		w.pass(10 * time.Minute)
		if n := count(w.since("A100", n0), events.TypeInsertionReappeared); n != 0 {
			t.Errorf("%d false disappearances", n)
		}
	})
}

func TestRefusedInsertionsDoNotWaitForThoseThatAreHalted(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: 403}
			}
			return nil
		})
		w.pass(10 * time.Minute)
		before := len(w.log("A100"))
		w.refuse(map[string]int{"key-1": 403})
		w.pass(time.Hour)
		if n := count(w.since("A100", before), events.TypeAccessHalted); n == 0 {
			t.Errorf("nobody is told that two insertions are not asked for: %v", w.since("A100", before))
		}
		w.model.SetFault(nil)
		_, err := w.poller.Resume("A100", "")
		w.must(err)
		w.pass(10 * time.Minute)
		w.mustBeWell("A100", "a#2##")
	})
}
