package poller_test

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// TestAFewThrottledAnswersCostHalfOfTheBudgetAtTheMost lets every twentieth answer be 429 with Retry-After: 1, whatever is sent.
func TestAFewThrottledAnswersCostHalfOfTheBudgetAtTheMost(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 400 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.MaxStaleness = time.Minute // more than the budget can do: all of it is spent
		w.start()
		w.pass(4 * time.Minute)
		spent := func(d time.Duration) float64 {
			before := w.model.Requests(sandbox.Filter{})
			w.pass(d)
			return float64(w.model.Requests(sandbox.Filter{})-before) / d.Seconds()
		}
		whole := spent(4 * time.Minute)
		if whole < 4.5 {
			t.Fatalf("%.2f requests a second without a 429", whole)
		}
		var n atomic.Uint32
		w.model.SetFault(func(sandbox.Call) *sandbox.Fault {
			h := fnv.New32a()
			fmt.Fprint(h, n.Add(1))
			if h.Sum32()%20 != 0 {
				return nil
			}
			return &sandbox.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}
		})
		spent(time.Minute)
		if got := spent(10 * time.Minute); got < 0.45*whole {
			t.Errorf("%.2f of %.2f requests a second with every twentieth answer 429", got, whole)
		}
		w.model.SetFault(nil)
		w.pass(time.Minute)
		if got := spent(time.Minute); got < 0.95*whole {
			t.Errorf("%.2f of %.2f requests a second a minute after the last 429", got, whole)
		}
	})
}

// TestAnAPIThatTakesAFifthOfTheBudgetIsGivenLittleMore holds the other side: where most is refused, most is left out.
func TestAnAPIThatTakesAFifthOfTheBudgetIsGivenLittleMore(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 400 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.MaxStaleness = time.Minute
		w.start()
		w.pass(3 * time.Minute)
		var second, taken, refused atomic.Int64
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if now := c.At.Unix() / 10; second.Swap(now) != now {
				taken.Store(0)
			}
			if taken.Add(1) <= 10 { // ten in ten seconds
				return nil
			}
			refused.Add(1)
			return &sandbox.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}
		})
		w.pass(time.Minute)
		refused.Store(0)
		before := w.model.Requests(sandbox.Filter{})
		w.pass(20 * time.Minute)
		sent := float64(w.model.Requests(sandbox.Filter{})-before) / 1200
		if sent > 1.5 {
			t.Errorf("sent %.2f a second to an API that takes one, refused %d", sent, refused.Load())
		}
	})
}
