package poller_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/sandbox"
)

// two is a world of two agencies that have been watched for a while.
func two(t *testing.T, test func(w *world, a, b poller.AgencyKeys)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100", "B200"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.publish("B200", "b#1##", "b#2##")
		w.write("B200", "b#1##", 100*time.Hour)
		w.start()
		w.pass(10 * time.Minute)
		test(w, w.options.Agencies[0], w.options.Agencies[1])
	})
}

func TestARetiredAgencyIsNotAskedForAndNothingIsSaidOfIt(t *testing.T) {
	two(t, func(w *world, a, b poller.AgencyKeys) {
		before := len(w.log("B200"))
		w.configure(a)
		asked := w.model.Requests(sandbox.Filter{AgencyID: "B200"})
		w.write("B200", "b#1##", 0)
		w.must(w.model.Withdraw("B200", "b#2##"))
		w.publish("B200", "b#3##")
		w.pass(3 * time.Hour)
		w.wants(w.since("B200", before))
		if n := w.model.Requests(sandbox.Filter{AgencyID: "B200"}) - asked; n > 0 {
			t.Errorf("%d requests for a retired agency", n)
		}
		if all := w.poller.Status().Agencies; len(all) != 1 || all[0].AgencyID != "A100" {
			t.Errorf("watched: %v", all)
		}
		if _, err := w.poller.Resume("B200", ""); !errors.Is(err, poller.ErrUnknownAgency) {
			t.Errorf("resume of a retired agency: %v", err)
		}
		w.mustBeWell("A100", "a#1##")
	})
}

func TestWhoComesBackGoesOnFromTheSnapshot(t *testing.T) {
	two(t, func(w *world, a, b poller.AgencyKeys) {
		start := w.status("B200").WatchStart
		w.configure(a)
		w.pass(time.Hour)
		before := len(w.log("B200"))
		id := w.write("B200", "b#1##", 0)
		w.must(w.model.Withdraw("B200", "b#2##"))
		w.publish("B200", "b#3##")
		other := w.write("B200", "b#3##", 0)
		w.configure(a, b)
		w.pass(time.Hour)
		list := w.since("B200", before)
		if got := announced(list); got[id] != 1 || got[other] != 1 || len(got) != 2 {
			t.Errorf("announced %v", got)
		}
		if len(list) != 4 || count(list, events.TypeInsertionAppeared) != 1 || count(list, events.TypeInsertionDisappeared) != 1 {
			t.Errorf("told: %v", list)
		}
		if got := w.status("B200").WatchStart; !got.Equal(start) {
			t.Errorf("the watch began at %s, now at %s", start, got)
		}
		w.mustBeWell("B200", "b#1##")
	})
}

func TestAHaltOutlastsARetirement(t *testing.T) {
	two(t, func(w *world, a, b poller.AgencyKeys) {
		w.must(w.model.UnlinkKey(testKey, "B200"))
		w.pass(10 * time.Minute)
		before := len(w.log("B200"))
		w.configure(a)
		w.pass(time.Hour)
		w.configure(a, b)
		w.mustBeSilent("B200")
		w.wants(w.since("B200", before))
		if n := len(w.status("B200").Halts); n != 1 {
			t.Errorf("%d halts", n)
		}
	})
}

func TestAnAgencyIsRetiredInTheMiddleOfAWalk(t *testing.T) {
	inWorld(t, sandbox.Options{}, inPages(10), []string{"A100", "B200"}, func(w *world) {
		w.publish("A100", "a#1##")
		var all []string
		for n := range 40 {
			all = append(all, fmt.Sprintf("b#%d##", n))
		}
		w.publish("B200", all...)
		w.options.PollInterval = 2 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		a, b := w.options.Agencies[0], w.options.Agencies[1]
		for round := range 6 {
			var stuck atomic.Bool
			w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
				if c.AgencyID == "B200" && c.Operation == sandbox.OperationInsertions && c.Query.Get("page") == fmt.Sprint(round%3+1) {
					stuck.Store(true)
					return &sandbox.Fault{Delay: 10 * time.Second}
				}
				return nil
			})
			for range 3000 {
				if stuck.Load() {
					break
				}
				w.pass(100 * time.Millisecond)
			}
			if !stuck.Load() {
				t.Fatal("no walk")
			}
			w.must(w.model.Withdraw("B200", all[round]))
			at := time.Now()
			w.configure(a)
			if took := time.Since(at); took > time.Second {
				t.Errorf("the request under way was waited for: %s", took)
			}
			told, asked := len(w.log("B200")), w.model.Requests(sandbox.Filter{AgencyID: "B200"})
			w.pass(20 * time.Minute)
			if n := w.model.Requests(sandbox.Filter{AgencyID: "B200"}) - asked; n > 1 { // the one under way
				t.Errorf("%d requests after the retirement", n)
			}
			w.wants(w.since("B200", told))
			w.model.SetFault(nil)
			w.configure(a, b)
			w.pass(20 * time.Minute)
			w.wants(w.since("B200", told), events.TypeInsertionDisappeared)
		}
		w.mustBeWell("B200", all[20])
		w.mustBeWell("A100", "a#1##")
	})
}

func TestANewAgencyIsWatchedAtOnce(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100", "B200"}, func(w *world) {
		a, b := w.options.Agencies[0], w.options.Agencies[1]
		w.publish("A100", "a#1##")
		w.publish("B200", "b#1##")
		w.write("B200", "b#1##", 100*time.Hour)
		w.options.Agencies = w.options.Agencies[:1]
		w.start()
		w.pass(time.Minute)
		w.configure(a, b)
		w.pass(time.Minute)
		w.wants(w.log("B200"), events.TypeWatchBaselined)
		w.mustBeWell("B200", "b#1##")
		w.restart()
		w.mustBeWell("B200", "b#1##")
	})
}

func TestAgenciesComeAndGoWhileEverythingIsUnderWay(t *testing.T) {
	two(t, func(w *world, a, b poller.AgencyKeys) {
		before := len(w.log("B200"))
		for n := range 200 {
			list := []poller.AgencyKeys{a, b}
			if n%2 == 0 {
				list = []poller.AgencyKeys{a}
			}
			w.configure(list...)
			if n%7 == 0 {
				w.write("B200", "b#1##", 0)
			}
			w.pass(time.Duration(n*n%1700) * time.Millisecond)
		}
		w.mustBeWell("B200", "b#1##")
		ids := announced(w.since("B200", before))
		for id, times := range ids {
			if times != 1 {
				t.Errorf("%s was announced %d times", id, times)
			}
		}
		if len(ids) != 30 || len(ids) != len(w.since("B200", before)) {
			t.Errorf("%d contact requests were announced: %v", len(ids), w.since("B200", before))
		}
	})
}

func TestWhatIsUnderWayEndsBeforeTheRetirementDoes(t *testing.T) {
	two(t, func(w *world, a, b poller.AgencyKeys) {
		w.halt()
		var late atomic.Bool
		inner := w.options.API.Transport
		w.options.API.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "B200") && late.CompareAndSwap(false, true) {
				time.Sleep(10 * time.Second) // whoever asked may have gone
			}
			return inner.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		})
		w.publish("B200", "b#3##")
		w.start()
		w.pass(time.Second)
		w.configure(a)
		told := len(w.log("B200"))
		w.pass(time.Hour)
		w.wants(w.since("B200", told))
	})
}

func TestWhoComesBackWithAnOldFailureStopsNobody(t *testing.T) {
	long(t)
	two(t, func(w *world, a, b poller.AgencyKeys) {
		w.model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Status: 429} })
		w.pass(10 * time.Minute)
		w.configure(a)
		w.model.SetFault(nil)
		w.pass(3 * time.Hour)
		w.configure(a, b)
		w.mustBeWell("B200", "b#1##")
		w.mustBeWell("A100", "a#1##")
	})
}
