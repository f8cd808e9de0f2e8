package forward

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"doorbell/events"
)

func TestARebuiltStreamNeitherFloodsNorSkips(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		for range 50 {
			w.lead("A100")
			w.lead("B200")
		}
		time.Sleep(time.Minute)
		before := len(w.history)
		w.run(2*time.Minute, func() {
			for range 60 {
				w.lead("A100")
				time.Sleep(time.Second)
			}
		})
		w.lead("A100") // waits while the stream is rebuilt
		w.lead("B200")
		w.lead("NEW")
		w.rebuild()
		w.run(time.Minute)
		wantIDs(t, s, w.history[before:])
		w.rebuild() // and now while it runs
		w.run(time.Minute, func() {
			w.rebuild()
			time.Sleep(30 * time.Second)
			w.lead("B200")
			time.Sleep(30 * time.Second)
		})
		wantIDs(t, s, w.history[before:])
	})
}

// TestANewForwarderSendsNothingOfAStoreThatIsRestoredBesideIt is a backup on a new machine: the stream is empty, there is no state, and
// the relay sends again what the log holds.
func TestANewForwarderSendsNothingOfAStoreThatIsRestoredBesideIt(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		for range 30 {
			w.lead("A100")
			w.lead("B200")
		}
		time.Sleep(time.Hour)
		past := slices.Clone(w.history)
		w.must(w.js.DeleteStream(t.Context(), "LISTINGS"))
		w.makeStream()
		w.run(time.Minute, func() {
			time.Sleep(time.Second)
			for _, e := range past {
				w.put(e, map[string]string{events.ResentHeader: "1"})
			}
			w.lead("A100")
		})
		wantIDs(t, s, w.history[len(past):])
	})
}

// TestAStoreThatWasSetBackWhileNATSWasAwaySkipsNothing records events at positions that the store has used before, as it cannot know: the
// stream says so only when it answers.
func TestAStoreThatWasSetBackWhileNATSWasAwaySkipsNothing(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(3*time.Minute, func() {
			for range 2 * recent { // more than a checkpoint lists
				w.lead("A100")
				w.lead("B200")
			}
		})
		w.sequence = 40
		var waiting []events.Event
		for range 45 { // to position 130, far behind the last one that was used
			waiting = append(waiting, w.stampLead("A100"), w.stampLead("B200"))
			w.history = append(w.history, waiting[len(waiting)-2:]...)
			time.Sleep(time.Second)
		}
		w.run(3*time.Minute, func() {
			for _, e := range waiting {
				w.put(e, nil)
			}
			w.sequence = 3000 // reserved behind what the stream has
			w.lead("A100")
		})
		wantIDs(t, s, w.history)
		w.rebuild()
		w.run(time.Minute, func() { w.lead("B200") })
		wantIDs(t, s, w.history)
	})
}

// TestPositionsOfAnotherStoreSayNothing is a move to another machine, whose store begins with 1, and whose clock is behind.
func TestPositionsOfAnotherStoreSayNothing(t *testing.T) {
	scene(t, 200, func(t *testing.T, w *world, s *script) {
		lead := func(e events.Event, clock time.Duration) {
			w.publish(e.Stamp(e.Sequence, time.Now().Add(clock), w.store))
		}
		w.run(3*time.Minute, func() {
			for range 3 * recent { // more than a checkpoint lists
				lead(w.stampLead("A100"), time.Hour)
			}
		})
		w.sequence, w.store = 0, "moved"
		w.run(3*time.Minute, func() {
			for range 50 {
				lead(w.stampLead("A100"), 0)
			}
		})
		wantIDs(t, s, w.history)
	})
}

func TestWithoutAStateTheConsumerCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		w.lead("A100")
		time.Sleep(time.Second)
		w.run(time.Minute, func() { w.lead("A100") })
		w.lead("A100")
		w.halt("A100", "a") // for another worker, which the other one's begin must not keep from looking
		w.must(os.RemoveAll(filepath.Join(w.o.Dir, "forward")))
		w.run(time.Minute)
		got, want := s.ids(), []string{w.history[1].ID, w.history[2].ID, w.history[3].ID}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d came, want 3", len(got))
		}
		w.rebuild() // what it has done since is known, and when it began
		w.run(time.Minute)
		if n := len(s.ids()); n != 3 {
			t.Errorf("%d came, want 3", n)
		}
	})
}

func TestWithoutStateAndConsumerItBeginsNow(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Minute, func() { w.lead("A100") })
		w.lead("A100")
		w.must(os.RemoveAll(filepath.Join(w.o.Dir, "forward")))
		w.must(w.js.DeleteConsumer(t.Context(), "LISTINGS", consumer("a")))
		w.run(time.Minute, func() { w.lead("A100") })
		wantIDs(t, s, []events.Event{w.history[0], w.history[2]})
	})
}

func TestClocksMayDiffer(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Minute, func() {
			for n := range 3 { // of a daemon whose clock is behind
				e := w.stamp(&events.ContactRequestCreated{Common: events.Common{AgencyID: "A100"}, ContactRequestID: string(rune('a' + n))})
				w.publish(e.Stamp(e.Sequence, time.Now().Add(-time.Hour), "store"))
				time.Sleep(5 * time.Second)
			}
		})
		wantIDs(t, s, w.history)
	})
}

func TestAStreamMadeAgainSendsNothingTwiceHoweverMuchWasDone(t *testing.T) {
	scene(t, 200, func(t *testing.T, w *world, s *script) {
		w.run(2*time.Minute, func() { w.leads(3*recent, "A100") })
		w.lead("A100") // waits
		for range 2 {
			w.rebuild()
			w.run(2 * time.Minute)
		}
		wantIDs(t, s, w.history)
	})
}

// TestATailThatIsLostAndOfferedAgainIsDelivered loses leads before they were delivered. Others of the
// agency come first, more than a checkpoint lists.
func TestATailThatIsLostAndOfferedAgainIsDelivered(t *testing.T) {
	scene(t, 200, func(t *testing.T, w *world, s *script) {
		w.run(5*time.Minute, func() {
			w.lead("A100")
			var lost []events.Event
			for range 5 {
				lost = append(lost, w.stampLead("A100"))
				w.sequence++
			}
			w.leads(2*recent, "A100")
			time.Sleep(time.Minute)
			for _, e := range lost {
				w.history = append(w.history, e)
				w.put(e, map[string]string{events.ResentHeader: "1"})
			}
		})
		wantIDs(t, s, w.history)
	})
}
