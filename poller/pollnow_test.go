package poller_test

import (
	"errors"
	"fmt"
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
		if err != nil || done != (poller.PolledNow{Insertions: 2, Of: 2}) {
			t.Errorf("%+v, %v", done, err)
		}
		w.pass(10 * time.Second)
		for _, id := range ids {
			if announced(w.log("A100"))[id] != 1 {
				t.Errorf("a lead of %v is not there", ids)
			}
		}
		if _, err := w.poller.PollNow("Z900"); !errors.Is(err, poller.ErrUnknownAgency) {
			t.Errorf("an unknown agency: %v", err)
		}
		w.model.SetFault(failing("insertions", 403))
		w.must(errorOf(w.poller.PollNow("A100")))
		w.pass(10 * time.Second)
		if _, err := w.poller.PollNow("A100"); !errors.Is(err, poller.ErrHalted) {
			t.Errorf("a halted agency: %v", err)
		}
	})
}

func errorOf[T any](_ T, err error) error { return err }

func TestPollNowClaimsNoMoreThanAMinuteOfTheBudget(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 90 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.RequestsPerSecond, w.options.PollInterval = 1, 10*time.Hour
		w.start()
		w.pass(10 * time.Minute)
		if done, err := w.poller.PollNow("A100"); err != nil || done != (poller.PolledNow{Insertions: 60, Of: 90}) {
			t.Errorf("%+v, %v", done, err)
		}
	})
}
