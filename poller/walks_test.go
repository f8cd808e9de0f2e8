package poller_test

import (
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

func onList(f func(sandbox.Call) *sandbox.Fault) func(sandbox.Call) *sandbox.Fault {
	return func(c sandbox.Call) *sandbox.Fault {
		if c.Operation != sandbox.OperationInsertions {
			return nil
		}
		return f(c)
	}
}

func TestManyNewInsertionsAfterALongOutageBringTheirContactRequests(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.options.PollInterval = time.Hour
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(failing("insertions", 500))
		w.pass(time.Hour)
		var ids []string
		for n := range 8 {
			w.publish("A100", fmt.Sprintf("b#%d##", n))
			ids = append(ids, w.write("A100", fmt.Sprintf("b#%d##", n), 0))
		}
		w.pass(72 * time.Hour)
		w.model.SetFault(nil)
		w.pass(time.Hour)
		got := announced(w.log("A100"))
		for _, id := range ids {
			if got[id] != 1 {
				t.Errorf("a lead was announced %d times", got[id])
			}
		}
		for _, e := range w.log("A100") {
			if after, _ := e.body["observedAfter"].(string); e.Type == events.TypeInsertionAppeared && after > "2000-01-01T01" {
				t.Errorf("appeared after %s, when the list had failed", after)
			}
		}
	})
}

func TestAnAgencyWhoseLastInsertionIsLongGoneIsNotSilent(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.HoldFor, w.options.PollInterval, w.options.WalkInterval = time.Minute, 10*time.Minute, 20*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(60 * time.Hour)
		if n := count(w.log("A100"), events.TypeWatchStale); n != 0 {
			t.Errorf("%v", w.log("A100"))
		}
	})
}

func TestAListThatBreaksAfterAGapIsStale(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 120 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = time.Hour
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			if c.Query.Get("page") == "2" {
				return &sandbox.Fault{Status: 500}
			}
			return nil
		}))
		w.pass(2 * time.Hour)
		w.wants(w.since("A100", 1), events.TypeWatchGapDetected)
		w.model.SetFault(failing("insertions", 500))
		w.pass(12 * time.Hour)
		w.wants(w.since("A100", 2), events.TypeWatchStale)
	})
}

func TestAnAgencyThatIsResumedIsNotSilentAtOnce(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.UnlinkKey(testKey, "A100")
		w.pass(24 * time.Hour)
		w.model.AddKey(testKey, "A100")
		w.model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Delay: 12 * time.Second} })
		if _, err := w.poller.Resume("A100", ""); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		w.wants(w.since("A100", 1), events.TypeAccessHalted, events.TypeAccessResumed)
	})
}

func TestTheFirstInsertionOfALongEmptyAgencyIsNoSilence(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.options.WalkInterval = 10 * time.Minute
		w.start()
		w.pass(24 * time.Hour)
		var n atomic.Int64
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation != sandbox.OperationInsertions && n.Add(1) == 1 {
				return &sandbox.Fault{Status: 500}
			}
			return nil
		})
		w.publish("A100", "a#1##")
		w.pass(time.Hour)
		w.wants(w.since("A100", 1), events.TypeInsertionAppeared)
	})
}

func TestAFirstWalkThatTakesLongIsNoSilence(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 4000 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.RequestsPerSecond = 0.3 // beside others that take their share
		w.start()
		w.pass(2 * time.Hour)
		if n := count(w.log("A100"), events.TypeWatchStale); n != 0 {
			t.Errorf("%v", w.log("A100"))
		}
	})
}

func TestTheOnlyInsertionThatIsRefusedIsAHaltAndNoSilence(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(failing("contact_requests", 403))
		w.pass(12 * time.Hour)
		w.wants(w.since("A100", 1), events.TypeAccessHalted)
	})
}

func TestAnotherFilterWhoseWalksArePartialTellsNoDisappearance(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 8 {
			w.must(w.model.Publish("A100", sandbox.Insertion{Reference: fmt.Sprintf("a#%d##", n), OfferType: []string{"RENT", "BUY"}[n%2]}))
		}
		w.start()
		w.pass(10 * time.Minute)
		w.halt()
		w.options.Filter = url.Values{"offerType": {"RENT"}}
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			return &sandbox.Fault{Body: []byte(`{"results":[{"propertyReferenceId":"a#0##"},{"propertyReferenceId":"a#2##"},{"propertyReferenceId":"a#4##"}],"total":9}`)}
		}))
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(nil)
		w.pass(2 * time.Hour)
		list := w.log("A100")
		if n := count(list, events.TypeInsertionDisappeared); n != 0 {
			t.Errorf("%v", list)
		}
	})
}

func TestAnInsertionThatOneWalkMissesIsNotLeftOutByAnotherFilter(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 8 {
			w.must(w.model.Publish("A100", sandbox.Insertion{Reference: fmt.Sprintf("a#%d##", n), OfferType: []string{"RENT", "BUY"}[n%2]}))
		}
		w.start()
		w.pass(10 * time.Minute)
		w.halt()
		w.options.Filter = url.Values{"offerType": {"RENT"}}
		var walks atomic.Int64
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			if c.Query.Get("page") == "" {
				walks.Add(1)
			}
			if walks.Load() == 2 {
				return &sandbox.Fault{Without: []string{"a#2##"}}
			}
			return nil
		}))
		w.start()
		w.pass(time.Hour)
		w.wants(w.since("A100", 1), events.TypeWatchBaselined)
	})
}

func TestAnotherFilterBeginsToCountPartialWalksAnew(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			return &sandbox.Fault{Body: []byte(`{"results":[{"propertyReferenceId":"a#0##"}],"total":9}`)}
		}))
		w.start()
		w.pass(time.Hour)
		before := len(w.log("A100"))
		w.halt()
		w.options.Filter = url.Values{"offerType": {"RENT"}}
		var walks atomic.Int64
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			if c.Query.Get("page") == "" {
				walks.Add(1)
			}
			return &sandbox.Fault{Body: fmt.Appendf(nil, `{"results":[{"propertyReferenceId":"a#0##"},{"propertyReferenceId":"b#%d##"}],"total":9}`, min(3, walks.Load()))}
		}))
		w.start()
		w.pass(time.Hour)
		list := w.since("A100", before)
		if n := count(list, events.TypeInsertionAppeared); n != 0 {
			t.Errorf("%v", list)
		}
	})
}

func TestAFilterThatIsMendedBeforeAnythingWasSeenLosesNoLead(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.Filter = url.Values{"offerType": {"RNET"}}
		w.model.SetFault(failing("insertions", 400))
		w.start()
		w.pass(time.Hour)
		id := w.write("A100", "a#1##", 0)
		w.pass(time.Hour)
		w.halt()
		w.options.Filter = url.Values{"offerType": {"RENT"}}
		w.model.SetFault(nil)
		w.start()
		w.pass(time.Hour)
		if n := announced(w.log("A100"))[id]; n != 1 {
			t.Errorf("announced %d times: %v", n, w.log("A100"))
		}
	})
}

func TestABaselineThatDoesNotSettleIsNoReasonToWalkWithoutEnd(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		var n atomic.Int64
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			if c.Query.Get("page") == "" {
				n.Add(1)
			}
			return &sandbox.Fault{Body: fmt.Appendf(nil, `{"results":[{"propertyReferenceId":"a#%d##"}],"total":1}`, n.Load())}
		}))
		w.start()
		w.pass(time.Hour)
		if n.Load() > 50 {
			t.Errorf("%d walks in an hour", n.Load())
		}
	})
}

// TestReferencesThatAlwaysChangeAreNoReasonToWalkWithoutEnd shows others at every reading: a few, or so many that they must be confirmed.
func TestReferencesThatAlwaysChangeAreNoReasonToWalkWithoutEnd(t *testing.T) {
	for _, others := range []int{10, 40} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				var n, changing atomic.Int64
				w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
					if c.Query.Get("page") == "" {
						n.Add(1)
					}
					body := []byte(`{"results":[{"propertyReferenceId":"a#0##"}`)
					for i := range 99 {
						reading := n.Load() * changing.Load()
						if i >= others {
							reading = 0
						}
						body = fmt.Appendf(body, `,{"propertyReferenceId":"b#%d#%d#"}`, reading, i)
					}
					return &sandbox.Fault{Body: append(body, `],"total":100}`...)}
				}))
				w.options.PollInterval = 6 * time.Hour // polls are not what counts
				w.start()
				w.pass(10 * time.Minute)
				before := n.Load()
				changing.Store(1)
				w.pass(time.Hour)
				if walks := n.Load() - before; walks > 120 {
					t.Errorf("%d walks in an hour", walks)
				}
			})
		})
	}
}

func TestAnEmptyListUnderAnotherFilterIsNotBelievedAtOnce(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 20 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.start()
		w.pass(10 * time.Minute)
		w.halt()
		w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Body: []byte(`{"results":[]}`)} }))
		w.options.Filter = url.Values{"offerType": {"RENT"}}
		w.start()
		w.pass(5 * time.Minute)
		w.model.SetFault(nil)
		id := w.write("A100", "a#3##", 0)
		w.pass(time.Hour)
		w.wants(w.since("A100", 1), events.TypeContactRequestCreated, events.TypeWatchBaselined)
		if announced(w.log("A100"))[id] != 1 {
			t.Error("the lead is lost")
		}
	})
}

func TestAFilterThatShowsNothingIsBelievedInTheEnd(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 20 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.start()
		w.pass(10 * time.Minute)
		w.halt()
		w.options.Filter = url.Values{"offerType": {"BUY"}}
		w.start()
		w.pass(time.Hour)
		w.wants(w.since("A100", 1), events.TypeWatchBaselined)
	})
}

func TestAListThatFailsIsNotAskedMoreBecauseInsertionsAreNotFound(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 60 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = 2 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(failing("insertions", 500))
		w.pass(time.Hour)
		count := func() int { return w.model.Requests(sandbox.Filter{Operation: sandbox.OperationInsertions}) }
		n := count()
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationInsertions {
				return &sandbox.Fault{Status: 500}
			}
			var k int
			fmt.Sscanf(c.Reference, "a#%d##", &k)
			if k%2 == 0 {
				return &sandbox.Fault{Status: 404}
			}
			return nil
		})
		w.pass(10 * time.Minute)

		if count()-n > 15 {
			t.Errorf("%d requests in ten minutes", count()-n)
		}
	})
}

func TestAShortHiccupOfAPageIsNoGap(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 120 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = 10 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		var from atomic.Int64
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			if c.Query.Get("page") == "2" {
				from.CompareAndSwap(0, time.Now().Unix())
				if time.Now().Unix()-from.Load() < 20 {
					return &sandbox.Fault{Status: 500}
				}
			}
			return nil
		}))
		w.pass(time.Hour)
		w.wants(w.since("A100", 1))
	})
}

func TestAHoldOverSlowWalksIsBelievedInItsTime(t *testing.T) {
	inWorld(t, sandbox.Options{}, inPages(5), []string{"A100"}, func(w *world) {
		for n := range 60 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.WalkInterval, w.options.PollInterval = 10*time.Second, time.Hour
		w.start()
		w.pass(10 * time.Minute)
		for n := range 40 {
			w.must(w.model.Withdraw("A100", fmt.Sprintf("a#%d##", n)))
		}
		w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Delay: 25 * time.Second} }))
		w.pass(90 * time.Minute)
		if n := count(w.log("A100"), events.TypeInsertionDisappeared); n != 40 {
			t.Errorf("%d of 40 disappeared after 90 min, a hold is for 30", n)
		}
	})
}

func (w *world) walkRequests() int {
	return w.model.Requests(sandbox.Filter{Operation: sandbox.OperationInsertions})
}
