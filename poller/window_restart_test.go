package poller_test

import (
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// A daily look at the widest window is no part of what is tested here: all of it happens within hours.
const settled = "watched#1##"

func TestThePollOfANewContactRequestIsTheLastOneOfItsInsertion(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", settled)
		for n := range 3 {
			w.write("A100", settled, time.Duration(n+1)*time.Hour)
		}
		w.start()
		w.pass(10 * time.Minute)
		id := w.write("A100", settled, time.Second)
		w.pass(5 * time.Minute)

		told := w.log("A100")
		last := told[len(told)-1]
		if last.Type != events.TypeContactRequestCreated || last.body["contactRequestId"] != id {
			t.Fatalf("%v is the last event", last)
		}
		at, _ := time.Parse(time.RFC3339, last.body["observedAt"].(string))
		w.must(w.store.View(func(tx *store.Tx) error {
			i, _ := tx.Insertion("A100", settled)
			if !i.LastPoll.Equal(at) {
				t.Errorf("the last poll is noted at %s, and was at %s", i.LastPoll, at)
			}
			return nil
		}))
	})
}

// What was learned since the insertion was last written is more than one answer shows: only by when it was learned is it known
// that nothing lies between it and what is new.
func TestWhatManyPollsHaveLearnedClosesTheWindowAfterARestart(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		h := &hostile{most: 20}
		h.take(w)
		w.publish("A100", settled)
		h.add(settled, 3, time.Hour)
		w.start()
		w.pass(10 * time.Minute)
		for range 30 {
			h.add(settled, 1, time.Second)
			w.pass(2 * time.Minute)
		}
		w.halt()
		h.add(settled, 1, time.Second)
		h.mu.Lock()
		h.asked = nil
		h.mu.Unlock()
		w.start()
		w.pass(15 * time.Second)
		w.halt()
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.asked) != 1 || h.asked[0].size != "100" {
			t.Errorf("asked %v after the restart", h.asked)
		}
	})
}

// A clock that was ahead has noted a poll that is still to come. The next poll, after it was set back, is the last one.
func TestAClockThatWasAheadHidesNothing(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		h := &hostile{}
		h.take(w)
		w.publish("A100", settled)
		h.add(settled, 10, time.Hour)
		w.start()
		w.pass(10 * time.Minute)
		h.add(settled, 1, -24*time.Hour) // stands above all news
		w.pass(5 * time.Minute)
		w.must(w.store.Update(func(tx *store.Tx) error {
			i, _ := tx.Insertion("A100", settled)
			i.LastPoll = time.Now().Add(30 * 24 * time.Hour)
			return tx.PutInsertion("A100", i)
		}))
		h.add(settled, 1, time.Second)
		w.pass(5 * time.Minute)
		n := len(w.log("A100"))
		w.halt()
		h.add(settled, 30, time.Second)
		w.start()
		w.pass(5 * time.Minute)
		if told := len(w.since("A100", n)); told != 30 {
			t.Errorf("%d contact requests are told of 30", told)
		}
	})
}
