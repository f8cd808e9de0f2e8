package poller_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

func bothRenderings(t *testing.T, test func(t *testing.T, r sandbox.Rendering)) {
	for _, r := range []sandbox.Rendering{sandbox.Flat(), sandbox.Nested()} {
		if raced && r.Name == sandbox.Flat().Name {
			continue // most tests have it
		}
		t.Run(r.Name, func(t *testing.T) { test(t, r) })
	}
}

func TestEveryChangeOfAnInsertionGivesExactlyItsEvent(t *testing.T) {
	bothRenderings(t, func(t *testing.T, r sandbox.Rendering) {
		inWorld(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
			w.publish("A100", "old#1##", "old#2##", "old#3##")
			w.start()
			w.pass(5 * time.Minute)
			w.wants(w.log("A100"), events.TypeWatchBaselined)

			w.publish("A100", "seefeld#1203#H2#0305")
			w.pass(3 * time.Minute)
			appeared := w.since("A100", 1)
			w.wants(appeared, events.TypeInsertionAppeared)
			if e := appeared[0]; e.Reference != "seefeld#1203#H2#0305" || e.body["episode"] != 1.0 || e.Origin != events.OriginLive {
				t.Errorf("appeared: %v", e.body)
			}

			w.must(w.model.Edit("A100", "seefeld#1203#H2#0305", func(i *sandbox.Insertion) {
				i.RankType = "TOP"
				i.Address.Street = "Beispielstrasse 12"
			}))
			w.pass(3 * time.Minute)
			changed := w.since("A100", 2)
			w.wants(changed, events.TypeInsertionChanged)
			paths := []string{}
			for _, c := range changed[0].body["changes"].([]any) {
				paths = append(paths, c.(map[string]any)["path"].(string))
			}
			if !slices.Equal(paths, []string{"/address/street", "/rankType"}) || changed[0].body["revision"] != 1.0 {
				t.Errorf("changed: %v", changed[0].body)
			}

			w.must(w.model.Withdraw("A100", "seefeld#1203#H2#0305"))
			w.pass(10 * time.Minute)
			gone := w.since("A100", 3)
			w.wants(gone, events.TypeInsertionDisappeared)
			if gone[0].body["walksWithout"] != 2.0 {
				t.Errorf("disappeared: %v", gone[0].body)
			}

			w.publish("A100", "seefeld#1203#H2#0305")
			w.pass(3 * time.Minute)
			back := w.since("A100", 4)
			w.wants(back, events.TypeInsertionReappeared)
			if back[0].body["episode"] != 2.0 || len(back[0].body["changes"].([]any)) == 0 {
				t.Errorf("reappeared: %v", back[0].body)
			}
			w.pass(time.Hour)
			w.wants(w.since("A100", 5))
		})
	})
}

func TestAFirstRunAnnouncesNothingOldAndEverythingMadeMeanwhile(t *testing.T) {
	bothRenderings(t, func(t *testing.T, r sandbox.Rendering) {
		inWorld(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
			old := map[string]bool{}
			for n := range 300 {
				reference := fmt.Sprintf("a#%d##", n)
				w.publish("A100", reference)
				for age := range n % 25 {
					old[w.write("A100", reference, time.Duration(age+1)*time.Hour)] = true
				}
			}
			w.pass(10 * time.Second)
			w.options.RequestsPerSecond, w.options.PollInterval = 3, 5*time.Minute
			w.start()
			w.pass(30 * time.Second)
			many, one := w.unpolled(24, 300), w.unpolled(1, 300)
			meanwhile := w.write("A100", many, 0)
			last := w.write("A100", one, 0)
			w.pass(time.Second)
			w.must(w.model.Withdraw("A100", one))
			w.pass(9 * time.Minute)
			got := announced(w.log("A100"))
			if want := map[string]int{meanwhile: 1, last: 1}; !maps.Equal(got, want) {
				t.Errorf("announced %d contact requests (of them %d old), want the 2 new ones", len(got), countIn(got, old))
			}
		})
	})
}

// unpolled is one of A100's insertions first, first+25, … that nobody has polled yet.
func (w *world) unpolled(first, end int) string {
	w.t.Helper()
	for n := first; n < end; n += 25 {
		reference := fmt.Sprintf("a#%d##", n)
		if w.model.Requests(sandbox.Filter{Reference: reference}) == 0 {
			return reference
		}
	}
	w.t.Fatal("setup: all of them were polled already")
	return ""
}

func countIn(ids map[string]int, set map[string]bool) (n int) {
	for id := range ids {
		if set[id] {
			n++
		}
	}
	return n
}

func TestTheBaselineIsAnnouncedAsSuchOnRequest(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.write("A100", "a#1##", time.Hour)
		w.options.Announce = true
		w.start()
		w.pass(5 * time.Minute)
		list := w.log("A100")
		if count(list, events.TypeInsertionAppeared) != 2 || count(list, events.TypeContactRequestCreated) != 1 || len(list) != 4 {
			t.Fatalf("got %v", list)
		}
		for _, e := range list {
			if e.Type != events.TypeWatchBaselined && e.Origin != events.OriginBaseline {
				t.Errorf("%v has origin %s", e, e.Origin)
			}
			if e.Type == events.TypeWatchBaselined && e.body["announced"] != 2.0 {
				t.Errorf("baselined: %v", e.body)
			}
		}
	})
}

func TestMoreContactRequestsThanOneWindowAreAllAnnounced(t *testing.T) {
	bothRenderings(t, func(t *testing.T, r sandbox.Rendering) {
		for _, n := range []int{19, 20, 21, 49, 50, 51, 99, 100} {
			if n > r.MaxWindow {
				continue
			}
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				inWorld(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
					w.publish("A100", "a#1##")
					w.write("A100", "a#1##", time.Hour)
					w.start()
					w.pass(5 * time.Minute)
					want := map[string]int{}
					for k := range n {
						want[w.write("A100", "a#1##", time.Duration(k)*time.Second)] = 1
					}
					w.pass(5 * time.Minute)
					if got := announced(w.log("A100")); !maps.Equal(got, want) {
						t.Errorf("announced %d of %d", len(got), len(want))
					}
				})
			})
		}
	})
}

func TestWhatNoWindowCanShowIsSaid(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Nested(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.write("A100", "a#1##", time.Hour)
		w.start()
		w.pass(5 * time.Minute)
		for k := range 500 {
			w.write("A100", "a#1##", time.Duration(k)*time.Millisecond)
		}
		w.pass(10 * time.Minute)
		list := w.log("A100")
		var gaps []told
		for _, e := range list {
			if e.Type == events.TypeWatchGapDetected {
				gaps = append(gaps, e)
			}
		}
		if len(gaps) != 1 {
			t.Fatalf("%d gaps told, want 1", len(gaps))
		}
		reached := gaps[0].body["reached"].(float64)
		if gaps[0].body["total"] != 501.0 || reached < 50 || gaps[0].body["reason"] != "window_full" {
			t.Errorf("gap: %v", gaps[0].body)
		}
		if got := len(announced(list)); float64(got) < reached-50 || got < 50 {
			t.Errorf("%d announced, %v reached", got, reached)
		}
	})
}

func TestARefusedListHaltsTheAgencyAndNothingElse(t *testing.T) {
	inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), []string{"A100", "B200"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.publish("B200", "b#1##")
		w.start()
		w.pass(5 * time.Minute)
		w.must(w.model.UnlinkKey(testKey, "A100"))
		w.pass(5 * time.Minute)
		halted := w.since("A100", 1)
		w.wants(halted, events.TypeAccessHalted)
		if b := halted[0].body; b["scope"] != "agency" || b["probableReason"] != "unknown" || b["resume"] != "doorbell resume A100" {
			t.Errorf("halted: %v", b)
		}
		asked := w.model.Requests(sandbox.Filter{AgencyID: "A100"})
		others := w.model.Requests(sandbox.Filter{AgencyID: "B200"})
		w.pass(time.Hour)
		w.restart()
		w.pass(time.Hour)
		if now := w.model.Requests(sandbox.Filter{AgencyID: "A100"}); now != asked {
			t.Errorf("%d requests were made for a halted agency", now-asked)
		}
		if now := w.model.Requests(sandbox.Filter{AgencyID: "B200"}); now < others+100 {
			t.Errorf("the other agency was asked only %d times in two hours", now-others)
		}
		if s := w.status("A100"); s.State != "halted" || len(s.Halts) != 1 {
			t.Errorf("status: %+v", s)
		}
		w.wants(w.since("A100", 2))

		w.model.AddKey(testKey, "A100")
		if n, err := w.poller.Resume("A100", ""); n != 1 || err != nil {
			t.Fatalf("Resume ended %d halts, %v", n, err)
		}
		missed := w.write("A100", "a#1##", 0)
		w.pass(5 * time.Minute)
		resumed := w.since("A100", 2)
		w.wants(resumed, events.TypeAccessResumed, events.TypeContactRequestCreated)
		if resumed[0].body["cause"] != "operator" || resumed[1].body["contactRequestId"] != missed {
			t.Errorf("resumed: %v", resumed)
		}
	})
}

func TestAChangedKeyEndsAHalt(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(5 * time.Minute)
		w.must(w.model.DeactivateKey(testKey))
		w.pass(5 * time.Minute)
		w.model.AddKey(newKey, "A100")
		w.options.Agencies = []poller.AgencyKeys{{ID: "A100", Key: listings.NewKey(newKey)}}
		w.restart()
		w.pass(5 * time.Minute)
		list := w.since("A100", 1)
		w.wants(list, events.TypeAccessHalted, events.TypeAccessResumed)
		if list[1].body["cause"] != "key_changed" {
			t.Errorf("resumed: %v", list[1].body)
		}
	})
}

func TestAWithdrawnInsertionThatIsRefusedRingsNoAlarm(t *testing.T) {
	inWorld(t, sandbox.Options{WithdrawnStatus: 403}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.start()
		w.pass(5 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(20 * time.Minute)
		w.wants(w.since("A100", 1), events.TypeInsertionDisappeared)
	})
}

func TestAStillListedInsertionThatIsRefusedHaltsAlone(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.options.PollInterval, w.options.WalkInterval = 5*time.Minute, 10*time.Minute
		w.start()
		w.pass(5 * time.Minute)
		refuse := func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: 403, Body: []byte(`{"message":"Forbidden"}`)}
			}
			return nil
		}
		w.model.SetFault(refuse)
		w.pass(20 * time.Minute)
		list := w.since("A100", 1)
		w.wants(list, events.TypeAccessHalted)
		if list[0].body["scope"] != "insertion" || list[0].body["propertyReferenceId"] != "a#1##" {
			t.Errorf("halted: %v", list[0].body)
		}
		news := w.write("A100", "a#2##", 0)
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", 2), events.TypeContactRequestCreated)
		if got := announced(w.log("A100")); got[news] != 1 {
			t.Errorf("announced %v", got)
		}
		w.model.SetFault(nil)
		w.pass(26 * time.Hour)
		list = w.since("A100", 3)
		w.wants(list, events.TypeAccessResumed)
		if list[0].body["cause"] != "retry_succeeded" {
			t.Errorf("resumed: %v", list[0].body)
		}
	})
}

func TestAnUnreadableContactRequestServiceIsOneHalt(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 50 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationContactRequests {
				return &sandbox.Fault{Status: 403}
			}
			return nil
		})
		w.start()
		w.pass(time.Hour)
		if n := count(w.log("A100"), events.TypeAccessHalted); n != 1 {
			t.Errorf("%d halts told, want 1: %v", n, w.log("A100"))
		}
		asked := w.model.Requests(sandbox.Filter{AgencyID: "A100", Operation: sandbox.OperationContactRequests})
		if asked > 30 {
			t.Errorf("%d refused requests before the halt", asked)
		}
		w.publish("A100", "a#new##")
		w.pass(10 * time.Minute)
		if n := count(w.log("A100"), events.TypeInsertionAppeared); n != 1 {
			t.Errorf("%d insertions appeared, want 1: walks go on", n)
		}
	})
}

func TestAPartialWalkMakesNothingDisappear(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 120 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = time.Hour
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationInsertions && c.Query.Get("page") == "2" {
				return &sandbox.Fault{Status: http.StatusInternalServerError}
			}
			return nil
		})
		w.must(w.model.Withdraw("A100", "a#7##"))
		w.pass(5 * time.Hour)
		w.wants(w.since("A100", 1), events.TypeWatchGapDetected)
		w.model.SetFault(nil)
		w.pass(time.Hour)
		w.wants(w.since("A100", 2), events.TypeInsertionDisappeared)
	})
}

func TestAnOddAnswerIsNeverTakenForNone(t *testing.T) {
	for name, body := range map[string]string{
		"an empty object": `{}`, "null": `null`, "an error": `{"error":{"code":7}}`, "a page": `<html><body>busy</body></html>`,
		"nothing": ` `, "half": `{"results":[{"propertyReferenceId":"a#1##"`, "two": `[][]`,
	} {
		if raced && name != "half" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", "a#1##", "a#2##")
				w.write("A100", "a#1##", time.Hour)
				w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 4*time.Minute
				w.start()
				w.pass(5 * time.Minute)
				w.model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Body: []byte(body)} })
				w.pass(5 * time.Hour)
				want := []events.Type{events.TypeWatchSchemaDrifted, events.TypeWatchSchemaDrifted, events.TypeWatchStale, events.TypeWatchStale}
				if name == "null" || name == "nothing" { // of contact requests it is none, and no success after an hour
					want = want[1:]
				}
				w.wants(w.since("A100", 1), want...)
				w.model.SetFault(nil)
				w.pass(time.Hour)
				w.wants(w.since("A100", 1+len(want)), events.TypeWatchRecovered, events.TypeWatchRecovered)
				if alarms := w.status("A100").Alarms; len(alarms) != 0 {
					t.Errorf("left %v", alarms)
				}
			})
		})
	}
}

func TestAMassDisappearanceIsHeldAndThenBelieved(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		var references []string
		for n := range 40 {
			references = append(references, fmt.Sprintf("a#%d##", n))
		}
		w.publish("A100", references...)
		w.options.PollInterval = time.Hour
		w.start()
		w.pass(10 * time.Minute)
		for _, r := range references[:20] {
			w.must(w.model.Withdraw("A100", r))
		}
		w.pass(20 * time.Minute)
		w.wants(w.since("A100", 1), events.TypeWatchChangeHeld)
		w.pass(40 * time.Minute)
		list := w.since("A100", 2)
		if n := count(list, events.TypeInsertionDisappeared); n != 20 || count(list, events.TypeWatchRecovered) != 1 || len(list) != 21 {
			t.Errorf("after the time of the hold: %v", list)
		}
	})
}

func TestAMassDisappearanceThatPassesIsNoEvent(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationInsertions {
				return &sandbox.Fault{Body: []byte(`{"results":[],"total":0}`)}
			}
			return nil
		})
		w.pass(15 * time.Minute)
		w.model.SetFault(nil)
		w.pass(time.Hour)
		w.wants(w.since("A100", 1), events.TypeWatchChangeHeld, events.TypeWatchRecovered)
	})
}

func TestOneInsertionThatAlwaysFailsStopsNobodyElse(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: 500}
			}
			return nil
		})
		w.start()
		w.pass(time.Hour)
		news := w.write("A100", "a#3##", 0)
		w.pass(2 * time.Minute)
		if got := announced(w.log("A100")); got[news] != 1 {
			t.Errorf("announced %v", got)
		}
		late := w.write("A100", "a#1##", 0)
		w.model.SetFault(nil)
		w.pass(10 * time.Minute)
		if got := announced(w.log("A100")); got[late] != 1 {
			t.Errorf("what was written while it failed was not announced: %v", got)
		}
	})
}

func TestADayOfOutageLosesNothingAndHammersNobody(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##", "a#5##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Status: 502} })
		before := w.model.Requests(sandbox.Filter{})
		want := map[string]int{}
		for n := range 24 {
			want[w.write("A100", fmt.Sprintf("a#%d##", 1+n%5), 0)] = 1
			w.pass(time.Hour)
		}
		if n := w.model.Requests(sandbox.Filter{}) - before; n > 24*60 {
			t.Errorf("%d requests in a day to an API that is down", n)
		}
		w.model.SetFault(nil)
		w.pass(20 * time.Minute)
		if got := announced(w.log("A100")); !maps.Equal(got, want) {
			t.Errorf("announced %d, want %d", len(got), len(want))
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(sandbox.Call) *sandbox.Fault {
			return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"600"}}}
		})
		w.pass(2 * time.Minute)
		w.model.SetFault(nil)
		before := w.model.Requests(sandbox.Filter{})
		w.pass(7 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{}) - before; n != 0 {
			t.Errorf("%d requests before the time that the API asked for", n)
		}
		w.pass(5 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{}) - before; n == 0 {
			t.Error("no request after the time that the API asked for")
		}
	})
}

func TestTheBudgetIsNeverExceeded(t *testing.T) {
	inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), []string{"A100", "B200", "C300"}, func(w *world) {
		for n := range 60 {
			for _, a := range []string{"A100", "B200", "C300"} {
				w.publish(a, fmt.Sprintf("%s#%d##", a, n))
			}
		}
		w.start()
		w.pass(5 * time.Minute)
		if n := peak(w.model.Log(sandbox.Filter{}), time.Second); n > 5 {
			t.Errorf("%d requests within a second, the budget is 5", n)
		}
	})
}

// TestTheBudgetIsNeverExceededOverRestartsAndReloads lets pollers end within seconds, half of them because the agencies have changed.
func TestTheBudgetIsNeverExceededOverRestartsAndReloads(t *testing.T) {
	inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), []string{"A100", "B200", "C300"}, func(w *world) {
		for n := range 60 {
			for _, a := range []string{"A100", "B200", "C300"} {
				w.publish(a, fmt.Sprintf("%s#%d##", a, n))
			}
		}
		w.start()
		w.pass(2 * time.Minute)
		r, all := rand.New(rand.NewPCG(7, 1)), w.options.Agencies
		for n := range 60 {
			w.pass(time.Duration(r.Int64N(int64(4 * time.Second))))
			w.options.Agencies = all[:len(all)-n%2]
			w.restart()
		}
		log := w.model.Log(sandbox.Filter{})
		if n := peak(log, time.Second); n > 5 {
			t.Errorf("%d requests within a second, the budget is 5", n)
		}
		if n := peak(log, 10*time.Second); n > 50 {
			t.Errorf("%d requests within ten seconds, the budget is 50", n)
		}
	})
}

func TestAChangedContactRequestHoldsItsRecordAndARedactedOneNoPerson(t *testing.T) {
	bothRenderings(t, func(t *testing.T, r sandbox.Rendering) {
		inWorld(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
			w.publish("A100", "a#1##")
			w.start()
			w.pass(5 * time.Minute)
			id := w.write("A100", "a#1##", 0)
			w.pass(2 * time.Minute)
			w.must(w.model.EditContactRequest(id, func(c *sandbox.ContactRequest) { c.Score = 77 }))
			w.pass(2 * time.Minute)
			w.wants(w.since("A100", 1), events.TypeContactRequestCreated)
			w.must(w.model.EditContactRequest(id, func(c *sandbox.ContactRequest) { c.Status = "READ" }))
			w.pass(2 * time.Minute)
			w.must(w.model.Redact(id))
			w.pass(5 * time.Minute) // two readings, a walk apart
			list := w.since("A100", 2)
			w.wants(list, events.TypeContactRequestChanged, events.TypeContactRequestRedacted)
			if list[0].body["record"] == nil {
				t.Errorf("changed: %v", list[0].body)
			}
			if names := list[1].body["redactedFields"].([]any); len(names) < 3 || list[1].body["record"] != nil || list[1].body["contact"] != nil {
				t.Errorf("redacted: %v", list[1].body)
			}
		})
	})
}

func TestANewInsertionBringsItsFirstContactRequests(t *testing.T) {
	bothRenderings(t, func(t *testing.T, r sandbox.Rendering) {
		inWorld(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
			w.publish("A100", "a#1##")
			w.start()
			w.pass(time.Hour)
			w.publish("A100", "a#2##")
			first := w.write("A100", "a#2##", 0)
			w.pass(3 * time.Minute)
			late := w.write("A100", "a#2##", 10*time.Minute) // becomes visible with an old time
			w.pass(3 * time.Minute)
			if got := announced(w.log("A100")); !maps.Equal(got, map[string]int{first: 1, late: 1}) {
				t.Errorf("announced %v, want %s and %s", got, first, late)
			}
		})
	})
}

func TestThePollsGoOnAfterAnInsertionIsGone(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.options.PollInterval, w.options.WalkInterval = 10*time.Minute, 30*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(24 * time.Hour)
		late := w.write("A100", "a#1##", 0)
		w.pass(time.Hour)
		if got := announced(w.log("A100")); got[late] != 1 {
			t.Errorf("announced %v", got)
		}
		w.pass(25 * time.Hour)
		before := w.model.Requests(sandbox.Filter{Reference: "a#1##"})
		w.pass(time.Hour)
		if n := w.model.Requests(sandbox.Filter{Reference: "a#1##"}) - before; n != 0 {
			t.Errorf("%d requests more than two days after it was gone", n)
		}
	})
}

func TestThePollsEndOfAnInsertionThatIsGoneByAnImport(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.options.PollInterval, w.options.WalkInterval = 10*time.Minute, 30*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.must(w.store.Update(func(tx *store.Tx) error {
			i, _ := tx.Insertion("A100", "a#1##")
			i.GoneSince, i.Episode = time.Now().UTC(), i.Episode+1
			return tx.PutInsertion("A100", i)
		}))
		w.pass(time.Hour)
		if s := w.status("A100"); s.Insertions != 1 || s.Freshness.Insertions != 2 {
			t.Errorf("%d insertions, %d polled", s.Insertions, s.Freshness.Insertions)
		}
		w.pass(49 * time.Hour)
		before := w.model.Requests(sandbox.Filter{Reference: "a#1##"})
		w.pass(time.Hour)
		if n := w.model.Requests(sandbox.Filter{Reference: "a#1##"}) - before; n != 0 {
			t.Errorf("%d requests more than two days after it was gone", n)
		}
		if s := w.status("A100"); s.Freshness.Insertions != 1 {
			t.Errorf("%d are still polled", s.Freshness.Insertions)
		}
	})
}

func TestASweepWithoutNewsWritesNothing(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 30 {
			reference := fmt.Sprintf("a#%d##", n)
			w.publish("A100", reference)
			for k := range n {
				w.write("A100", reference, time.Duration(k)*time.Hour)
			}
		}
		w.options.PollInterval, w.options.WalkInterval = time.Hour, 20*time.Minute
		w.start()
		w.pass(26 * time.Hour) // once a day the widest window is read, and noted
		before := w.store.Commits()
		walks := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationInsertions})
		w.pass(5 * time.Hour)
		walks = w.model.Requests(sandbox.Filter{Operation: sandbox.OperationInsertions}) - walks
		if n := int(w.store.Commits() - before); n > walks {
			t.Errorf("%d commits in hours without news, in which %d pages were walked", n, walks)
		}
	})
}

func TestAKeyThatChangesWhileRunningEndsAHalt(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(5 * time.Minute)
		w.must(w.model.DeactivateKey(testKey))
		w.pass(5 * time.Minute)
		w.model.AddKey(newKey, "A100")
		w.configure(poller.AgencyKeys{ID: "A100", Key: listings.NewKey(newKey)})
		news := w.write("A100", "a#1##", 0)
		w.pass(time.Minute)
		w.wants(w.since("A100", 1), events.TypeAccessHalted, events.TypeAccessResumed, events.TypeContactRequestCreated)
		if got := announced(w.log("A100")); got[news] != 1 {
			t.Errorf("announced %v", got)
		}
	})
}

func TestAWithdrawnInsertionThatWasRefusedIsPolledAgainOnMonday(t *testing.T) {
	long(t)
	for _, restarted := range []bool{false, true} {
		inBubble(t, sandbox.Options{WithdrawnStatus: 403}, sandbox.Flat(), []string{"A100"}, func(w *world) {
			w.publish("A100", "a#1##", "a#2##", "a#3##")
			w.options.PollInterval, w.options.WalkInterval = 15*time.Minute, 30*time.Minute
			w.start()
			w.pass(time.Hour)
			w.must(w.model.Withdraw("A100", "a#1##"))
			w.pass(62 * time.Hour)
			if restarted {
				w.restart()
				w.pass(time.Hour)
			}
			if n := w.model.Requests(sandbox.Filter{AgencyID: "A100", Reference: "a#1##", Status: 403}); n != 1 {
				t.Errorf("restarted %t: it was refused %d times", restarted, n)
			}
			w.publish("A100", "a#1##")
			w.pass(time.Hour)
			id := w.write("A100", "a#1##", 0)
			w.pass(time.Hour)
			if got := announced(w.log("A100")); got[id] != 1 {
				t.Errorf("restarted %t: announced %v, halts %v; %v", restarted, got, w.status("A100").Halts, types(w.log("A100")))
			}
		})
	}
}

// TestAHaltedInsertionThatIsWithdrawnIsNotAskedUntilItIsListedAgain refuses it while it is listed.
func TestAHaltedInsertionThatIsWithdrawnIsNotAskedUntilItIsListedAgain(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{WithdrawnStatus: 403}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.options.PollInterval, w.options.WalkInterval = 5*time.Minute, 10*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: 403}
			}
			return nil
		})
		w.pass(2 * time.Hour)
		w.wants(w.since("A100", 1), events.TypeAccessHalted)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(60 * time.Hour)
		if n := w.model.Requests(sandbox.Filter{AgencyID: "A100", Reference: "a#1##", Status: 403}); n != 1 {
			t.Errorf("it was refused %d times", n)
		}
		w.model.SetFault(nil)
		w.publish("A100", "a#1##")
		w.pass(20 * time.Minute)
		id := w.write("A100", "a#1##", 0)
		w.pass(10 * time.Minute)
		if got := announced(w.log("A100")); got[id] != 1 {
			t.Errorf("announced %v: %v", got, w.log("A100"))
		}
	})
}

// TestARestartAsksNoInsertionThatWasRefusedAndIsGone refuses one while it is listed, and one because it was withdrawn.
func TestARestartAsksNoInsertionThatWasRefusedAndIsGone(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{WithdrawnStatus: 403}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.options.PollInterval, w.options.WalkInterval = 5*time.Minute, 10*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: 403}
			}
			return nil
		})
		w.pass(2 * time.Hour)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.must(w.model.Withdraw("A100", "a#2##"))
		w.pass(2 * time.Hour)
		w.restart()
		w.pass(10 * time.Hour)
		w.restart()
		w.pass(60 * time.Hour)
		for _, reference := range []string{"a#1##", "a#2##"} {
			if n := w.model.Requests(sandbox.Filter{AgencyID: "A100", Reference: reference, Status: 403}); n != 1 {
				t.Errorf("%s was refused %d times", reference, n)
			}
		}
		w.model.SetFault(nil)
		w.publish("A100", "a#1##", "a#2##")
		w.pass(20 * time.Minute)
		ids := []string{w.write("A100", "a#1##", 0), w.write("A100", "a#2##", 0)}
		w.pass(10 * time.Minute)
		if got := announced(w.log("A100")); got[ids[0]] != 1 || got[ids[1]] != 1 {
			t.Errorf("announced %v: %v", got, types(w.log("A100")))
		}
	})
}

// TestATryOfAHaltIsOneRequestADayWhateverTheResponse lets the tries of a halted insertion fail, also over a restart.
func TestATryOfAHaltIsOneRequestADayWhateverTheResponse(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##", "a#3##")
		w.options.PollInterval, w.options.WalkInterval = 5*time.Minute, 10*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		status := 403
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" {
				return &sandbox.Fault{Status: status}
			}
			return nil
		})
		w.pass(2 * time.Hour)
		w.wants(w.since("A100", 1), events.TypeAccessHalted)
		status = 500
		w.pass(23 * time.Hour) // the first try
		w.restart()
		w.pass(47 * time.Hour)
		if n := w.model.Requests(sandbox.Filter{AgencyID: "A100", Reference: "a#1##", Status: 500}); n != 2 {
			t.Errorf("%d tries in 72 hours", n)
		}
	})
}
