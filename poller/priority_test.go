package poller_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// changed is how often walks found the record changed, from now on those that come.
func (e *recorder) changed(reference string) (times int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, changed := range e.walks[reference] {
		if changed {
			times++
		}
	}
	e.walks[reference] = nil
	return times
}

func TestAWalkTellsWhetherARecordHasChanged(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		extra := func(views, contacts, printed int) func(*sandbox.Insertion) {
			return func(i *sandbox.Insertion) {
				i.Extra = map[string]json.RawMessage{
					"views": json.RawMessage(fmt.Sprint(views)), "contacts/total": json.RawMessage(fmt.Sprint(contacts)),
					"statistics": json.RawMessage(fmt.Sprintf(`{"printed":%d,"since":{"year":2026,"month":11}}`, printed)),
				}
			}
		}
		edit := func(change func(*sandbox.Insertion)) { w.must(w.model.Edit("A100", "a#1##", change)) }
		w.publish("A100", "a#1##", "a#2##")
		edit(extra(1, 0, 0))
		w.options.IgnoreInsertion = []string{"/views", "/contacts~1total", "/statistics/printed"}
		e := w.recorder()
		w.start()
		w.pass(10 * time.Minute)
		if got := e.changed("a#1##"); got != 0 {
			t.Errorf("nothing has changed; told %d times", got)
		}
		silent := len(w.log("A100"))
		for _, c := range []struct {
			change func(*sandbox.Insertion)
			want   int
		}{
			{extra(2, 0, 0), 1},
			{extra(2, 1, 0), 1},
			{extra(3, 1, 7), 1},
			{func(*sandbox.Insertion) {}, 0},
		} {
			edit(c.change)
			w.pass(5 * time.Minute)
			if got := e.changed("a#1##"); got != c.want {
				t.Errorf("told %d times, not %d", got, c.want)
			}
		}
		w.wants(w.since("A100", silent))
		edit(func(i *sandbox.Insertion) {
			extra(4, 1, 7)(i)
			i.RankType, i.AvailableFrom = "TOP", "2027-01-01"
		})
		w.pass(5 * time.Minute)
		if got := e.changed("a#1##"); got != 1 {
			t.Errorf("told %d times", got)
		}
		w.wants(w.since("A100", silent), events.TypeInsertionChanged)
		if n := len(e.walks["a#2##"]); n < 10 {
			t.Errorf("the schedule heard of %d readings of a record that never changes", n)
		}
		if got := e.changed("a#2##"); got != 0 {
			t.Errorf("of that record it heard %d changes", got)
		}
	})
}

func TestAnInsertionThatTakesTheSlotOfAnotherHasNotChanged(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		views := func(reference string, n int) {
			w.publish("A100", reference)
			w.must(w.model.Edit("A100", reference, func(i *sandbox.Insertion) {
				i.Extra = map[string]json.RawMessage{"views": json.RawMessage(fmt.Sprint(n))}
			}))
		}
		views("a#1##", 1)
		w.publish("A100", "a#2##")
		w.options.IgnoreInsertion = []string{"/views"}
		w.options.WalkInterval, w.options.PollInterval = time.Hour, time.Hour
		e := w.recorder()
		w.start()
		w.pass(5 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.pass(60 * time.Hour) // it is not polled any more
		views("b#1##", 7)
		w.pass(2 * time.Hour)
		if got := e.changed("b#1##"); got != 0 {
			t.Errorf("told %d times", got)
		}
	})
}

func TestAWalkTellsTheScheduleItsPages(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 25 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PageSize = 10
		e := w.recorder()
		w.start()
		w.pass(30 * time.Second) // two walks for the baseline
		half := len(e.pages) / 2
		if half < 3 || len(e.pages)%2 != 0 {
			t.Fatalf("told %q", e.pages)
		}
		for n, got := range e.pages {
			want := fmt.Sprintf("%d/0", n) // nothing is known in the first one
			if n >= half {
				want = fmt.Sprintf("%d/%d", n-half, half)
			}
			if got != want {
				t.Errorf("page %d was told as %s, not %s", n, got, want)
			}
		}
	})
}

func (w *world) walkRequests() int {
	return w.model.Requests(sandbox.Filter{Operation: sandbox.OperationInsertions})
}

// prioritizing lets time pass in which the schedule gives pages priority without end.
func (w *world) prioritizing(d, every time.Duration) {
	w.t.Helper()
	for range int(d / every) {
		w.must(w.poller.GiveWalk("A100"))
		w.pass(every)
	}
}

func TestAWalkThatHasPriorityBeginsNoSoonerThanAnInsertionIsPolledAgain(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.WalkInterval = 20 * time.Minute
		w.start()
		w.pass(time.Minute)
		walk := w.walkRequests() / 2
		before := w.walkRequests()
		w.must(w.poller.GiveWalk("A100"))
		w.pass(3 * time.Second)
		if got := w.walkRequests() - before; got != walk {
			t.Fatalf("priority after a minute led to %d requests, not the %d of a walk", got, walk)
		}
		w.prioritizing(25*time.Second, time.Second)
		if got := w.walkRequests() - before; got != walk {
			t.Errorf("priority within half a minute led to %d requests more", got-walk)
		}
		w.prioritizing(5*time.Minute, time.Second)
		if got := w.walkRequests() - before; got < 8*walk || got > 12*walk {
			t.Errorf("five and a half minutes of priority led to %d requests, at %d a walk", got, walk)
		}
	})
}

func TestPriorityGivesWayToWhateverMakesAWalkWait(t *testing.T) {
	for name, c := range map[string]struct {
		fault sandbox.Fault
		most  int // list requests within 20 minutes
	}{
		"back-off":    {sandbox.Fault{Status: 500}, 30},
		"Retry-After": {sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"3000"}}}, 1},
		"halt":        {sandbox.Fault{Status: 403}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", "a#1##")
				w.options.WalkInterval, w.options.PollInterval = 5*time.Minute, 5*time.Second
				w.start()
				w.pass(time.Minute)
				w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault { return &c.fault }))
				before := w.walkRequests()
				w.prioritizing(20*time.Minute, time.Second)
				if got := w.walkRequests() - before; got == 0 || got > c.most {
					t.Errorf("priority led to %d requests", got)
				}
			})
		})
	}
}

func TestAProcessThatIsStartedAgainAndAgainWalksNoMoreOftenBecauseOfPriority(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.WalkInterval, w.options.PollInterval = 20*time.Minute, 5*time.Minute
		w.start()
		w.pass(time.Minute)
		before := w.walkRequests()
		for range 30 {
			w.restart()
			w.prioritizing(5*time.Second, time.Second)
		}
		if got := w.walkRequests() - before; got != 0 {
			t.Errorf("%d requests within three and a half minutes after a walk", got)
		}
	})
}

// TestWalksThatFollowEachOtherFastMakeNothingDisappear lets a list leave out an insertion for less than half of the walks'
// interval, in which it is walked many times.
func TestWalksThatFollowEachOtherFastMakeNothingDisappear(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.options.WalkInterval, w.options.PollInterval = 4*time.Minute, 5*time.Second
		w.start()
		w.pass(time.Minute)
		n := len(w.log("A100"))
		w.prioritizing(5*time.Minute, time.Second)
		w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Without: []string{"a#1##"}} }))
		before := w.walkRequests()
		w.prioritizing(110*time.Second, time.Second)
		if got := w.walkRequests() - before; got < 20 {
			t.Fatalf("only %d requests for the list", got)
		}
		w.model.SetFault(nil)
		w.prioritizing(time.Minute, time.Second)
		w.wants(w.since("A100", n))

		gone := time.Now()
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.prioritizing(5*time.Minute, time.Second)
		list := w.since("A100", n)
		w.wants(list, events.TypeInsertionDisappeared)
		seen, err := time.Parse(time.RFC3339, list[0].body["lastSeenAt"].(string))
		if err != nil || seen.After(gone) || gone.Sub(seen) > 10*time.Second {
			t.Errorf("it was there until %v; last seen at %v", gone, seen)
		}
		if told, _ := time.Parse(time.RFC3339, list[0].body["observedAt"].(string)); told.Sub(gone) < 2*time.Minute {
			t.Errorf("told %v after it had gone: there was no time between the walks", told.Sub(gone))
		}
	})
}

// TestAPageThatHasPriorityGoesBeforeThePolls walks while hundreds of polls wait.
func TestAPageThatHasPriorityGoesBeforeThePolls(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 400 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.model.KeepLog()
		w.options.PollInterval = time.Second
		w.start()
		w.pass(50 * time.Second)
		pages := 0
		for range 30 {
			before := w.walkRequests()
			w.must(w.poller.GiveWalk("A100"))
			w.pass(200 * time.Millisecond)
			if w.walkRequests() > before {
				pages++
			}
		}
		if pages < 20 { // a third would be 10
			t.Errorf("of 30 requests %d were pages", pages)
		}
		log := w.model.Log(sandbox.Filter{})
		for n := range log[5:] {
			if gap := log[n+5].At.Sub(log[n].At); gap < 999*time.Millisecond {
				t.Fatalf("six requests within %v", gap)
			}
		}
	})
}

func TestOneTurnOfAWalkIsOnePageAheadOfThePolls(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100", "B200"}, func(w *world) {
		for n := range 300 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = time.Second
		w.start()
		w.pass(10 * time.Minute)
		var share []int
		for range 10 {
			before := w.walkRequests()
			w.must(w.poller.GiveWalk("A100"))
			w.pass(3 * time.Second)
			share = append(share, w.walkRequests()-before)
		}
		if most := slices.Max(share); most > 6 { // a third of 15, and one
			t.Errorf("one turn led to %d pages in 15 requests", most)
		}
	})
}
