package poller_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"doorbell/poller"
	"doorbell/poller/sandbox"
)

// recorder keeps what the schedule was given of polls.
type recorder struct {
	mu    sync.Mutex
	polls map[string][][]time.Time // by reference
}

func (w *world) recorder() *recorder {
	e := &recorder{polls: map[string][][]time.Time{}}
	w.begun = func(p *poller.Poller) {
		p.ObservePolls(func(_, reference string, created []time.Time) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.polls[reference] = append(e.polls[reference], created)
		})
	}
	return e
}

// found are the polls of an insertion that found something, from now on those that come.
func (e *recorder) found(reference string) (all [][]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all = slices.DeleteFunc(e.polls[reference], func(created []time.Time) bool { return len(created) == 0 })
	e.polls[reference] = nil
	return all
}

// near says whether times are as many as, and each within two seconds of, those that are wanted.
func near(got []time.Time, want ...time.Time) bool {
	if len(got) != len(want) {
		return false
	}
	for n := range got {
		if got[n].IsZero() != want[n].IsZero() || got[n].Sub(want[n]).Abs() > 2*time.Second {
			return false
		}
	}
	return true
}

func TestTheScheduleLearnsWhenWhatAPollFoundWasCreated(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		now := time.Now()
		for n := range 30 { // more than a window shows at first
			w.write("A100", "a#1##", time.Duration(30-n)*time.Hour)
		}
		e := w.recorder()
		w.start()
		w.pass(5 * time.Minute)
		first := e.found("a#1##")
		if len(first) != 1 || len(first[0]) < 20 {
			t.Fatalf("the first poll told %v", first)
		}
		if last := first[0][len(first[0])-1]; !near([]time.Time{last}, now.Add(-time.Hour)) {
			t.Errorf("the newest was created at %v, not at %v", last, now.Add(-time.Hour))
		}
		w.pass(10 * time.Minute)
		if more := e.found("a#1##"); len(more) != 0 {
			t.Errorf("polls without news told %v", more)
		}
		now = time.Now()
		w.write("A100", "a#1##", time.Minute)
		w.write("A100", "a#1##", 0)
		w.pass(time.Minute)
		if more := e.found("a#1##"); len(more) != 1 || !near(more[0], now.Add(-time.Minute), now) {
			t.Errorf("the poll after two came told %v, not what happened at %v", more, now)
		}
	})
}

// TestWhatAppearsDuringTheFirstSweepDoesNotWaitForItsEnd looks at 300 insertions for the first time, which takes a minute:
// they wait their turn, the one that appears meanwhile does not.
func TestWhatAppearsDuringTheFirstSweepDoesNotWaitForItsEnd(t *testing.T) {
	const n = 300
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for k := range n {
			w.publish("A100", fmt.Sprintf("a#%d##", k))
		}
		w.options.WalkInterval = 10 * time.Second
		w.options.PollInterval = 10 * time.Minute
		w.start()
		w.pass(15 * time.Second)
		if s := w.status("A100"); s.State != "watching" || s.Freshness.NeverPolled < n/2 || s.Freshness.NeverPolled > n {
			t.Fatalf("after 15 s it is %s, and %d were never polled", s.State, s.Freshness.NeverPolled)
		}
		w.publish("A100", "b#1##")
		id := w.write("A100", "b#1##", 0)
		w.pass(20 * time.Second)
		if s := w.status("A100"); s.Freshness.NeverPolled < n/10 {
			t.Fatalf("the sweep is over too soon to tell: %d were never polled", s.Freshness.NeverPolled)
		}
		if announced(w.log("A100"))[id] != 1 {
			t.Error("its lead waits for the end of the sweep")
		}
		w.pass(60 * time.Second) // of 95; polls have at least two thirds of 5 a second
		if s := w.status("A100"); s.Freshness.NeverPolled != 0 {
			t.Errorf("%d were never polled", s.Freshness.NeverPolled)
		}
	})
}

func TestARestartLearnsFromTheContactRequestsThatAreKnown(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		now := time.Now()
		for n := range 3 {
			w.write("A100", "a#1##", time.Duration(3-n)*time.Hour)
		}
		e := w.recorder()
		w.start()
		w.pass(5 * time.Minute)
		e.found("a#1##")
		w.restart()
		w.pass(5 * time.Minute)
		all := e.found("a#1##")
		if len(all) != 1 || !near(all[0], now.Add(-3*time.Hour), now.Add(-2*time.Hour), now.Add(-time.Hour)) {
			t.Errorf("after a restart the schedule was given %v", all)
		}
	})
}

func TestWalksTakeAThirdOfTheRequestsWhilePollsWait(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(200)...)
		w.options.PollInterval, w.options.WalkInterval = time.Second, time.Second
		w.start()
		w.pass(2 * time.Minute)
		pages, all := w.walkRequests(), w.model.Requests(sandbox.Filter{})
		w.pass(5 * time.Minute)
		pages, all = w.walkRequests()-pages, w.model.Requests(sandbox.Filter{})-all
		if 3*pages > all+3 || 3*pages < all*8/10 {
			t.Errorf("%d of %d requests were for the list", pages, all)
		}
	})
}

// TestAChangedRecordIsPolledSoon lets two of a hundred records change, then twenty.
func TestAChangedRecordIsPolledSoon(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(100)...)
		w.options.PollInterval, w.options.WalkInterval = 10*time.Hour, time.Minute
		w.start()
		w.pass(10 * time.Minute)
		polls := func() int { return w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}) }
		edit := func(n int) {
			for _, reference := range references(n) {
				w.must(w.model.Edit("A100", reference, func(i *sandbox.Insertion) { i.AvailableFrom = time.Now().String() }))
			}
		}
		before := polls()
		edit(2)
		w.pass(3 * time.Minute)
		if got := polls() - before; got != 2 {
			t.Errorf("%d polls after two records have changed", got)
		}
		before = polls()
		edit(20)
		w.pass(3 * time.Minute)
		if got := polls() - before; got > 5 {
			t.Errorf("%d polls after a fifth of all records has changed", got)
		}
	})
}
