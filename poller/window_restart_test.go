package poller_test

import (
	"errors"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// A daily look at the widest window is no part of what is tested here: all of it happens within hours.
const settled = "watched#1##"

func TestANewContactRequestLeavesItsInsertionAsItWas(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", settled)
		for n := range 3 {
			w.write("A100", settled, time.Duration(n+1)*time.Hour)
		}
		w.start()
		w.pass(10 * time.Minute)
		before, _ := insertionOf(w, settled)
		id := w.write("A100", settled, time.Second)
		w.pass(5 * time.Minute)

		after, polled := insertionOf(w, settled)
		if after != before {
			t.Errorf("it was %+v, is %+v", before, after)
		}
		told := w.log("A100")
		last := told[len(told)-1]
		if last.Type != events.TypeContactRequestCreated || last.body["contactRequestId"] != id {
			t.Fatalf("%v is the last event", last)
		}
		if at, _ := time.Parse(time.RFC3339, last.body["observedAt"].(string)); !polled.Equal(at) {
			t.Errorf("the poll is noted at %s, and was at %s", polled, at)
		}
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
		before, _ := insertionOf(w, settled)
		for range 30 {
			h.add(settled, 1, time.Second)
			w.pass(2 * time.Minute)
		}
		if now, _ := insertionOf(w, settled); now != before {
			t.Errorf("the insertion was written: %+v, %+v", before, now)
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
		if len(h.asked) != 1 || h.asked[0].size != "20" {
			t.Errorf("asked %v after the restart", h.asked)
		}
	})
}

// insertionOf is the store's insertion, and when a poll has last put contact requests of it.
func insertionOf(w *world, reference string) (i store.Insertion, polled time.Time) {
	w.t.Helper()
	w.must(w.store.View(func(tx *store.Tx) (err error) {
		if i, _, err = tx.Insertion("A100", reference); err == nil {
			polled, err = tx.LastPoll("A100", reference)
		}
		return err
	}))
	return i, polled
}

// A clock that was ahead has noted a poll that is still to come. The next poll, after it was set back, is the last one.
func TestAClockThatWasAheadHidesNothing(t *testing.T) {
	future := func() time.Time { return time.Now().Add(30 * 24 * time.Hour) }
	for name, note := range map[string]func(*world, *store.Tx) error{
		"noted with contact requests": func(w *world, tx *store.Tx) error {
			early := w.remembered("A100", settled)[1] // kept10, in an entry that is full
			return errors.Join(tx.PutContactRequest("A100", settled, early), tx.NotePoll("A100", settled, future()))
		},
		"noted with the insertion": func(_ *world, tx *store.Tx) error {
			i, _, err := tx.Insertion("A100", settled)
			i.LastPoll = future()
			return errors.Join(err, tx.PutInsertion("A100", i))
		},
	} {
		t.Run(name, func(t *testing.T) { hidesNothing(t, note) })
	}
}

func hidesNothing(t *testing.T, note func(*world, *store.Tx) error) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		h := &hostile{}
		h.take(w)
		w.publish("A100", settled)
		h.add(settled, 10, time.Hour)
		w.start()
		w.pass(10 * time.Minute)
		h.add(settled, 1, -24*time.Hour) // stands above all news
		w.pass(5 * time.Minute)
		w.must(w.store.Update(func(tx *store.Tx) error { return note(w, tx) }))
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
