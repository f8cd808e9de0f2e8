package poller_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// failing answers one operation with a status; the whole API where none is named.
func failing(operation string, status int) func(sandbox.Call) *sandbox.Fault {
	return func(c sandbox.Call) *sandbox.Fault {
		if operation == "" || string(c.Operation) == operation {
			return &sandbox.Fault{Status: status}
		}
		return nil
	}
}

func members(e told, names ...string) string {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "%v ", e.body[n])
	}
	return strings.TrimSpace(b.String())
}

func TestAContactRequestServiceThatIsDownWhileListsWorkIsStale(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.options.WalkInterval = 10 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		began := time.Now()
		w.model.SetFault(failing("contact_requests", 500))
		w.pass(4 * time.Minute)
		w.wants(w.since("A100", 1))
		w.pass(20 * time.Hour)
		list := w.since("A100", 1)
		w.wants(list, events.TypeWatchStale)
		if got := members(list[0], "operation"); got != "contact_requests" {
			t.Errorf("stale is %s", got)
		}
		errs := list[0].body["errors"].([]any)
		last, err := time.Parse(time.RFC3339, list[0].body["lastSuccessAt"].(string))
		if len(errs) == 0 || len(errs) > 10 || err != nil || last.Before(began.Add(-time.Minute)) || last.After(began.Add(time.Minute)) {
			t.Errorf("%d errors, last success %s, it began %s (%v)", len(errs), last, began, err)
		}
		w.model.SetFault(nil)
		w.pass(10 * time.Minute)
		list = w.since("A100", 2)
		w.wants(list, events.TypeWatchRecovered)
		if got := members(list[0], "operation", "ends"); got != "contact_requests stale" {
			t.Errorf("recovered %s", got)
		}
	})
}

func TestAnAlarmIsToldOnceOverRestartsAndTheTimeWithoutUsIsNone(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(10 * time.Minute)
		w.halt()
		time.Sleep(30 * time.Hour) // the machine was off; nothing was wrong with the API
		w.start()
		w.pass(20 * time.Minute)
		w.wants(w.since("A100", 1))
		w.model.SetFault(failing("insertions", 502))
		for range 40 {
			w.pass(time.Minute)
			w.restart() // a crash loop: each life alone is too short to call it silence
		}
		w.wants(w.since("A100", 1), events.TypeWatchStale)
		w.model.SetFault(nil)
		w.restart()
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", 2), events.TypeWatchRecovered)
	})
}

func TestAHaltedAgencyIsNotCalledStale(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.UnlinkKey(testKey, "A100")
		w.pass(24 * time.Hour)
		w.wants(w.since("A100", 1), events.TypeAccessHalted)
	})
}

func TestAnInsertionThatCannotBeReadIsToldOnceAndNoLongerInTheStatusWhenItCan(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 10*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: 400}
			}
			return nil
		})
		w.pass(3 * time.Minute)
		w.wants(w.since("A100", 1))
		for range 6 {
			w.pass(4 * time.Hour)
			w.restart()
		}
		list := w.since("A100", 1)
		w.wants(list, events.TypeWatchGapDetected)
		if got := members(list[0], "operation", "propertyReferenceId", "reason"); got != "contact_requests a#1## unreadable" {
			t.Errorf("gap: %s", got)
		}
		w.model.SetFault(nil)
		w.pass(20 * time.Minute)
		list = w.since("A100", 2)
		w.wants(list)
		if alarms := w.status("A100").Alarms; len(alarms) != 0 {
			t.Errorf("left %v", alarms)
		}
	})
}

func TestOneOddBodyIsADriftOfThatInsertionAlone(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Body: []byte(`{"error":{"message":"Nora"}}`)}
			}
			return nil
		})
		w.pass(4 * time.Minute)
		list := w.since("A100", 1)
		w.wants(list, events.TypeWatchSchemaDrifted)
		if got := members(list[0], "operation", "propertyReferenceId"); got != "contact_requests a#1##" || strings.Contains(string(list[0].Data), "Nora") {
			t.Errorf("drift: %s", list[0].Data)
		}
		id := w.write("A100", "a#2##", 0)
		w.pass(2 * time.Minute)
		if announced(w.log("A100"))[id] != 1 {
			t.Error("the others are not polled")
		}
		w.model.SetFault(nil)
		w.pass(20 * time.Minute)
		if alarms := w.status("A100").Alarms; len(alarms) != 0 {
			t.Errorf("the drift has no end: %v", alarms)
		}
	})
}

func TestAKeyThatIsToWaitWaitsOverRestarts(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(sandbox.Call) *sandbox.Fault {
			return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"1800"}}}
		})
		w.pass(time.Minute)
		before := w.model.Requests(sandbox.Filter{})
		for range 720 {
			w.restart()
			w.pass(5 * time.Second)
		}
		if n := w.model.Requests(sandbox.Filter{}) - before; n > 6 {
			t.Errorf("%d requests in an hour of crashes", n)
		}
	})
}

func TestARefusedInsertionIsNotAskedAgainByARestart(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: 403}
			}
			if c.Operation == sandbox.OperationInsertions {
				return &sandbox.Fault{Status: 500} // the walk that would decide fails
			}
			return nil
		})
		w.pass(time.Minute)
		asked := w.model.Requests(sandbox.Filter{Reference: "a#1##"})
		for range 10 {
			w.restart()
			w.pass(time.Minute)
		}
		if n := w.model.Requests(sandbox.Filter{Reference: "a#1##"}) - asked; n != 0 {
			t.Errorf("asked %d times more", n)
		}
	})
}

func TestManyNewInsertionsAloneAreAllToldWithinMinutes(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.start()
		w.pass(10 * time.Minute)
		for n := range 300 {
			w.publish("A100", fmt.Sprintf("b#%d##", n))
		}
		id := w.write("A100", "b#299##", 0)
		w.pass(6 * time.Minute)
		list := w.since("A100", 1)
		if n := count(list, events.TypeInsertionAppeared); n != 300 || announced(list)[id] != 1 {
			t.Errorf("%d appeared, contact request %d times", n, announced(list)[id])
		}
	})
}

func TestAnotherFilterIsASilentBaselineOfTheDifference(t *testing.T) {
	for _, announce := range []bool{false, true} {
		t.Run(fmt.Sprint("announce=", announce), func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.options.Announce = announce
				rent := func(reference, offer string) {
					w.must(w.model.Publish("A100", sandbox.Insertion{Reference: reference, OfferType: offer, Address: sandbox.Address{Locality: "Zürich"}}))
				}
				for n := range 8 {
					rent(fmt.Sprintf("rent#%d##", n), "RENT")
					rent(fmt.Sprintf("buy#%d##", n), "BUY")
				}
				w.write("A100", "buy#1##", time.Hour)
				w.options.Filter = url.Values{"offerType": {"RENT"}}
				w.start()
				w.pass(10 * time.Minute)
				first := len(w.log("A100"))

				w.halt()
				w.options.Filter = nil // all, also what was for sale before
				w.start()
				w.pass(10 * time.Minute)
				list := w.since("A100", first)
				w.wants(list, events.TypeWatchBaselined)
				if got := members(list[0], "complete", "insertions"); got != "true 16" {
					t.Errorf("baselined: %s", got)
				}
				young := w.write("A100", "buy#1##", 0)
				w.pass(5 * time.Minute)
				w.wants(w.since("A100", first+1), events.TypeContactRequestCreated)

				w.halt()
				w.options.Filter = url.Values{"offerType": {"BUY"}}
				w.start()
				w.pass(10 * time.Minute)
				w.wants(w.since("A100", first+2), events.TypeWatchBaselined)
				polled := w.model.Requests(sandbox.Filter{Reference: "rent#1##"})
				w.pass(10 * time.Minute)
				if n := w.model.Requests(sandbox.Filter{Reference: "rent#1##"}) - polled; n != 0 {
					t.Errorf("an insertion outside of the filter is polled %d times", n)
				}
				missed := w.write("A100", "rent#1##", 0)
				w.pass(2 * time.Second) // the begin of a watch counts from its whole second

				w.halt()
				w.options.Filter = nil
				w.start()
				w.pass(10 * time.Minute)
				late := w.write("A100", "rent#1##", 0)
				w.pass(5 * time.Minute)
				list = w.since("A100", first+3)
				w.wants(list, events.TypeWatchBaselined, events.TypeContactRequestCreated)
				if got := announced(w.log("A100")); got[young] != 1 || got[late] != 1 || got[missed] != 0 {
					t.Errorf("announced %v; young %s, late %s, made outside of the filter %s", got, young, late, missed)
				}
				w.must(w.model.Withdraw("A100", "buy#7##"))
				w.publish("A100", "new#1##")
				w.pass(10 * time.Minute)
				list = w.since("A100", first+5)
				if count(list, events.TypeInsertionAppeared) != 1 || count(list, events.TypeInsertionDisappeared) != 1 || len(list) != 2 {
					t.Errorf("after it: %v", list)
				}
			})
		})
	}
}

func TestAFilterThatChangesInMidBaselineLeavesNobodyBehind(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 8 {
			w.must(w.model.Publish("A100", sandbox.Insertion{Reference: fmt.Sprintf("a#%d##", n), OfferType: []string{"RENT", "BUY"}[n%2]}))
		}
		w.options.RequestsPerSecond = 0.2
		w.start()
		w.pass(6 * time.Second) // one page of the first walk
		w.halt()
		w.options.Filter, w.options.RequestsPerSecond = url.Values{"offerType": {"RENT"}}, 5
		w.start()
		w.pass(time.Hour)
		w.wants(w.log("A100"), events.TypeWatchBaselined)
		gone := 0
		w.must(w.store.View(func(tx *store.Tx) error {
			for i := range tx.Insertions("A100") {
				if i.Outside {
					gone++
				}
			}
			return nil
		}))
		if gone != 4 {
			t.Errorf("%d are outside, want 4", gone)
		}
	})
}

func TestAnotherShapeIsToldOnceAndNothingElse(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		listAt := func(name string) {
			body := fmt.Sprintf(`{%q:[{"propertyReferenceId":"a#1##","rooms":3},{"propertyReferenceId":"a#2##"}]}`, name)
			w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
				if c.Operation == sandbox.OperationInsertions {
					return &sandbox.Fault{Body: []byte(body)}
				}
				return nil
			})
		}
		w.publish("A100", "a#1##", "a#2##")
		listAt("results")
		w.start()
		w.pass(10 * time.Minute)
		listAt("whatever")
		for range 2 {
			w.pass(10 * time.Minute)
			w.restart()
		}
		list := w.since("A100", 1)
		w.wants(list, events.TypeWatchSchemaDrifted)
		if got := members(list[0], "operation", "expected", "found"); got != "insertions records at /results records at /whatever" {
			t.Errorf("drift: %s", got)
		}
	})
}

// TestThePlaceOfRecordsIsStoredOnceAndChangesNoMeaning has an API that writes times in one form, and then some in another: that is no
// drift, and not written again and again.
func TestThePlaceOfRecordsIsStoredOnceAndChangesNoMeaning(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		var answers atomic.Int64
		answer := func(body string) {
			w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
				if c.Operation == sandbox.OperationContactRequests && c.Reference == "a#1##" {
					answers.Add(1)
					return &sandbox.Fault{Body: []byte(body)}
				}
				return nil
			})
		}
		answer(`{"leads":[{"id":1,"createdAt":"2000-01-01T12:00:00Z"}]}`)
		w.options.WalkInterval = 90 * time.Minute
		w.start()
		w.pass(30 * time.Minute)
		places := func() map[listings.Operation]string { return w.poller.Status().Agencies[0].Places }
		want := map[listings.Operation]string{listings.OperationInsertions: "/results", listings.OperationContactRequests: "/leads"}
		if got := places(); !maps.Equal(got, want) {
			t.Errorf("%+v", got)
		}
		before := w.since("A100", 1)
		for n := range 4 { // some of either form, again and again
			answer(fmt.Sprintf(`{"leads":[{"id":2,"createdAt":%s},{"id":1,"createdAt":"2000-01-01T12:00:00Z"}],"n":%d}`, []string{`946728000`, `"2000-01-01T12:00:00Z"`}[n%2], n))
			w.pass(10 * time.Minute)
		}
		for _, e := range w.since("A100", 1)[len(before):] {
			if e.Type == events.TypeWatchSchemaDrifted {
				t.Errorf("drift: %s", members(e, "operation", "expected", "found"))
			}
		}
		commits, asked := w.store.Commits(), answers.Load()
		answer(`{"leads":[{"id":2,"createdAt":"2000-01-01T12:00:00Z"},{"id":1,"createdAt":"2000-01-01T12:00:00Z"}],"n":9}`)
		w.pass(30 * time.Minute)
		// What the schedule has learned is written now and then.
		if n, of := w.store.Commits()-commits, answers.Load()-asked; of < 40 || n > of/2 {
			t.Errorf("%d commits for %d answers that say nothing new", n, of)
		}
		w.restart()
		if got := places(); !maps.Equal(got, want) {
			t.Errorf("after a restart: %+v", got)
		}
	})
}

func TestAListThatEndedWithAnEmptyPageDoesNotEndWithARefusal(t *testing.T) {
	r := sandbox.Flat()
	r.MaxPageSize, r.NoTotals = 5, true
	inWorld(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
		for n := range 23 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = 10 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if page := c.Query.Get("page"); c.Operation == sandbox.OperationInsertions && page > "3" {
				return &sandbox.Fault{Status: 404} // the last pages fail
			}
			return nil
		})
		w.pass(6 * time.Hour)
		w.model.SetFault(nil)
		w.pass(time.Hour)
		w.wants(w.since("A100", 1), events.TypeWatchGapDetected)
		if alarms := w.status("A100").Alarms; len(alarms) != 0 {
			t.Errorf("left %v", alarms)
		}
	})
}

func TestAResumedAgencyIsNotCalledStaleForTheTimeOfItsHalt(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(10 * time.Minute)
		w.must(w.model.UnlinkKey(testKey, "A100"))
		w.pass(24 * time.Hour)
		before := len(w.log("A100"))
		w.model.AddKey(testKey, "A100")
		w.model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Delay: 20 * time.Second} })
		_, err := w.poller.Resume("A100", "")
		w.must(err)
		w.pass(20 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessResumed)
	})
}

func TestTheFirstInsertionOfAnAgencyIsNoSilence(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.start()
		w.pass(24 * time.Hour)
		before := len(w.log("A100"))
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests {
				return &sandbox.Fault{Delay: 25 * time.Second}
			}
			return nil
		})
		w.publish("A100", "a#1##")
		w.pass(20 * time.Minute)
		w.wants(w.since("A100", before), events.TypeInsertionAppeared)
	})
}

func TestAnAgencyWhoseOnlyInsertionIsHaltedIsNotCalledStale(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(10 * time.Minute)
		before := len(w.log("A100"))
		w.refuse(map[string]int{"key-1": 403})
		w.pass(3 * time.Hour)
		w.wants(w.since("A100", before), events.TypeAccessHalted)
	})
}

func TestAnAgencyWhoseInsertionsAreAllGoneIsNotCalledStale(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.PollInterval, w.options.WalkInterval = 5*time.Minute, 10*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		before := len(w.log("A100"))
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(52 * time.Hour)
		w.wants(w.since("A100", before), events.TypeWatchChangeHeld, events.TypeInsertionDisappeared, events.TypeWatchRecovered)
	})
}

func TestAFilterBaselineThatEndsIncompleteMakesNothingDisappear(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 16 {
			offer := "RENT"
			if n < 4 {
				offer = "BUY"
			}
			w.must(w.model.Publish("A100", sandbox.Insertion{Reference: fmt.Sprintf("a#%d##", n), OfferType: offer}))
		}
		w.options.PollInterval = 10 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		before := len(w.log("A100"))
		w.halt()
		w.options.Filter = url.Values{"offerType": {"RENT"}}
		partial := func() {
			w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
				if c.Operation == sandbox.OperationInsertions {
					return &sandbox.Fault{Body: []byte(`{"results":[{"propertyReferenceId":"a#5##"}],"total":99}`)}
				}
				return nil
			})
		}
		partial()
		w.start()
		w.pass(20 * time.Minute)
		w.model.SetFault(nil)
		w.pass(2 * time.Hour)
		notOne := func(kind events.Type) {
			if n := count(w.since("A100", before), kind); n > 0 {
				t.Errorf("%d times %s because of a filter: %v", n, kind, w.since("A100", before))
			}
		}
		notOne(events.TypeInsertionDisappeared)
		w.halt()
		w.options.Filter = nil
		partial()
		w.start()
		w.pass(20 * time.Minute)
		w.model.SetFault(nil)
		w.pass(2 * time.Hour)
		notOne(events.TypeInsertionReappeared)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(20 * time.Minute)
		if n := count(w.since("A100", before), events.TypeInsertionDisappeared); n != 1 {
			t.Errorf("%d disappeared, want the one that did", n)
		}
	})
}

func TestAHoldThatAnotherFilterEndsIsSaidToEnd(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 16 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.start()
		w.pass(10 * time.Minute)
		before := len(w.log("A100"))
		for n := range 10 {
			w.must(w.model.Withdraw("A100", fmt.Sprintf("a#%d##", n)))
		}
		w.pass(5 * time.Minute)
		w.halt()
		w.options.Filter = url.Values{"offerType": {"RENT"}}
		w.start()
		w.pass(2 * time.Hour)
		w.wants(w.since("A100", before), events.TypeWatchChangeHeld, events.TypeWatchRecovered, events.TypeWatchBaselined)
	})
}

func TestAStaleOperationStandsInTheStatusUntilItRecovers(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(failing(sandbox.OperationContactRequests, 500))
		w.pass(10 * time.Minute)
		w.restart()
		w.pass(time.Minute)
		if s := w.status("A100"); len(s.Alarms) != 1 || s.Alarms[0].Operation != sandbox.OperationContactRequests {
			t.Errorf("stale: %+v", s)
		}
		w.model.SetFault(nil)
		w.pass(20 * time.Minute)
		if s := w.status("A100"); len(s.Alarms) != 0 {
			t.Errorf("still stale: %+v", s)
		}
	})
}

func TestARestartForgetsNotThatOthersWereAnswered(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##", "a#5##")
		w.options.PollInterval = 10 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		before := len(w.log("A100"))
		var down atomic.Bool
		down.Store(true)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			switch {
			case c.Reference == "a#1##" || c.Reference == "a#2##" || c.Reference == "a#3##":
				return &sandbox.Fault{Status: 403}
			case c.Operation == sandbox.OperationInsertions && down.Load():
				return &sandbox.Fault{Status: 500}
			}
			return nil
		})
		w.pass(30 * time.Minute)
		w.halt()
		down.Store(false)
		w.start()
		w.pass(10 * time.Minute)
		for _, e := range w.since("A100", before) {
			if e.Type == events.TypeAccessHalted && e.body["scope"] != "insertion" {
				t.Errorf("halted: %v", e.body)
			}
		}
		id := w.write("A100", "a#5##", 0)
		w.pass(30 * time.Minute)
		if got := announced(w.log("A100")); got[id] != 1 {
			t.Errorf("announced: %v", got)
		}
	})
}

func TestANewAgencyWhoseFirstAnswerFailsIsNotSilentAtOnce(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.model.SetFault(failing("insertions", 500))
		w.start()
		w.pass(2 * time.Minute)
		w.model.SetFault(nil)
		w.pass(10 * time.Minute)
		w.wants(w.log("A100"), events.TypeWatchBaselined)
	})
}

func TestAnEmptyListDoesNotTellHowLaterOnesEnd(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
			if page := c.Query.Get("page"); page != "" && page != "1" {
				return &sandbox.Fault{Status: 404}
			}
			return nil
		}))
		w.options.PollInterval = 10 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.publish("A100", "a#1##")
		w.pass(3 * time.Hour)
		w.wants(w.log("A100"), events.TypeWatchBaselined, events.TypeInsertionAppeared)
	})
}

func TestWhatWasToldOfAnInsertionEndsWhenItIsNotAskedAnyMore(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: 500}
			}
			return nil
		})
		w.pass(30 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.options.PollInterval, w.options.WalkInterval = 10*time.Minute, 10*time.Minute // for a long time, of which nothing but its end matters
		w.restart()
		w.pass(47 * time.Hour)
		w.wants(w.since("A100", 1), events.TypeWatchGapDetected, events.TypeInsertionDisappeared)
		w.halt()
		time.Sleep(3 * time.Hour)
		w.start()
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", 3))
		if alarms := w.status("A100").Alarms; len(alarms) != 0 {
			t.Errorf("%v", alarms)
		}
	})
}

func TestTheSilenceOfTheLastInsertionEndsWithIt(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.HoldFor, w.options.PollInterval, w.options.WalkInterval = time.Minute, 10*time.Minute, 20*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.model.SetFault(failing("contact_requests", 500))
		w.pass(84 * time.Hour) // a day until an empty list is believed, two that are polled for late arrivals
		if n := count(w.log("A100"), events.TypeWatchStale); n != 1 || len(w.status("A100").Alarms) != 0 {
			t.Errorf("%v %v", w.log("A100"), w.status("A100").Alarms)
		}
	})
}
