package poller_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"doorbell/poller"
	"doorbell/poller/sandbox"
)

func TestPollNowAsksAtOnceWhateverTheIntervals(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.options.WalkInterval, w.options.PollInterval = 10*time.Hour, 10*time.Hour
		w.start()
		w.pass(10 * time.Minute)
		w.publish("A100", "b#1##")
		ids := []string{w.write("A100", "a#1##", 0), w.write("A100", "b#1##", 0)}
		done, err := w.poller.PollNow("A100")
		if err != nil || done != (poller.PolledNow{Waits: poller.WaitsWalk, Insertions: 2, Of: 2}) {
			t.Errorf("%+v, %v", done, err)
		}
		w.pass(10 * time.Second)
		for _, id := range ids {
			if announced(w.log("A100"))[id] != 1 {
				t.Errorf("a lead of %v is not there", ids)
			}
		}
		w.model.SetFault(failing("insertions", 403))
		w.must(errorOf(w.poller.PollNow("A100")))
		w.pass(10 * time.Second)
		for agency, want := range map[string]error{"Z900": poller.ErrUnknownAgency, "A100": poller.ErrHalted} {
			for _, err := range []error{
				errorOf(w.poller.PollNow(agency)), errorOf(w.poller.Nudge(agency, "a#1##")), errorOf(w.poller.Nudge(agency, "none")),
			} {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", agency, err, want)
				}
			}
		}
		if _, err := w.poller.Resume("Z900", ""); !errors.Is(err, poller.ErrUnknownAgency) {
			t.Errorf("resume of an unknown agency: %v", err)
		}
	})
}

func TestPollNowClaimsNoMoreThanAMinuteOfTheBudget(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(90)...)
		w.options.RequestsPerSecond, w.options.PollInterval = 1, 10*time.Hour
		w.start()
		w.pass(10 * time.Minute)
		if done, err := w.poller.PollNow("A100"); err != nil || done != (poller.PolledNow{Waits: poller.WaitsWalk, Insertions: 60, Of: 90}) {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

// TestALeadOfANudgeIsThereWithinTwoSeconds: at one request a second and 5,000 insertions a round of polls takes 83 minutes, and
// the pages of walks and the insertions that have changed want their turns too.
func TestALeadOfANudgeIsThereWithinTwoSeconds(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		all := references(5000)
		w.publish("A100", all...)
		w.options.RequestsPerSecond, w.options.PollInterval, w.options.WalkInterval = 1, 30*time.Second, 2*time.Minute
		w.start()
		w.pass(20 * time.Minute)
		for n := range 60 { // at any moment between two requests, beside pages and the polls of insertions that have changed
			reference := all[4999-n*83]
			w.must(w.model.Edit("A100", all[n], func(i *sandbox.Insertion) { i.RankType = "TOP" }))
			w.pass(time.Duration(2000+n*370) * time.Millisecond)
			id := w.write("A100", reference, 0)
			for range 3 { // as a mail rule that fires more than once
				if done, err := w.poller.Nudge("A100", reference); err != nil || done != (poller.PolledNow{Waits: poller.WaitsPoll, Insertions: 1, Of: 5000}) {
					t.Fatalf("%+v, %v", done, err)
				}
			}
			w.pass(1999 * time.Millisecond)
			if announced(w.log("A100"))[id] != 1 {
				t.Errorf("the lead of nudge %d is not there", n)
			}
		}
	})
}

// TestNudgesTakeEverySecondRequestAtMost: others are still polled, however many nudges there are.
func TestNudgesTakeEverySecondRequestAtMost(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		all := references(200)
		w.publish("A100", all...)
		w.options.RequestsPerSecond, w.options.PollInterval, w.options.WalkInterval = 1, time.Second, 10*time.Minute
		w.start()
		w.pass(5 * time.Minute)
		for _, reference := range all[:40] {
			w.must(errorOf(w.poller.Nudge("A100", reference)))
		}
		w.model.KeepLog()
		w.pass(30 * time.Second)
		of := map[bool]int{}
		for _, r := range w.model.Log(sandbox.Filter{Operation: sandbox.OperationContactRequests}) {
			of[slices.Contains(all[:40], r.Reference)]++
		}
		if of[true] < 13 || of[false] < 13 {
			t.Errorf("%d polls of nudges, %d others", of[true], of[false])
		}
	})
}

func TestANudgeOfAnUnknownReferenceStartsOneWalkAMinute(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.WalkInterval, w.options.PollInterval = 10*time.Hour, 10*time.Hour
		w.start()
		w.pass(10 * time.Minute)
		w.publish("A100", "b#1##")
		id := w.write("A100", "b#1##", 0)
		if done, err := w.poller.Nudge("A100", "b#1##"); err != nil || done != (poller.PolledNow{Waits: poller.WaitsWalk, Of: 1}) {
			t.Errorf("%+v, %v", done, err)
		}
		var early *poller.TooSoonError
		if _, err := w.poller.Nudge("A100", "c#1##"); !errors.Is(err, poller.ErrTooSoon) || !errors.As(err, &early) || early.Wait != time.Minute {
			t.Errorf("another one at once: %v", err)
		}
		w.pass(10 * time.Second)
		if announced(w.log("A100"))[id] != 1 {
			t.Error("the lead of an insertion that was not known is not there")
		}
		walks := w.walkRequests()
		w.pass(45 * time.Second)
		if _, err := w.poller.Nudge("A100", "c#1##"); !errors.Is(err, poller.ErrTooSoon) || w.walkRequests() > walks {
			t.Errorf("within a minute: %v, %d requests of walks", err, w.walkRequests()-walks)
		}
		w.pass(10 * time.Second)
		w.must(errorOf(w.poller.Nudge("A100", "c#1##")))
		w.pass(5 * time.Second)
		if w.walkRequests() == walks {
			t.Error("a minute later there is no walk")
		}
	})
}
