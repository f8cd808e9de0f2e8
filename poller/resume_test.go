package poller_test

import (
	"testing"
	"time"

	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// justPolled lets time pass until an agency's insertion that waits the longest has been polled, which nobody has written yet.
func (w *world) justPolled(agency string) time.Time {
	before := w.status(agency).OldestPoll
	for w.status(agency).OldestPoll.Equal(before) {
		w.pass(time.Second)
	}
	return w.status(agency).OldestPoll
}

func TestARestartAsksNothingThatWasJustAsked(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.PollInterval = 2 * time.Hour
		w.start()
		w.pass(time.Minute)
		oldest := w.justPolled("A100")
		asked := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests})
		w.restart()
		if got := w.status("A100").OldestPoll; got.Sub(oldest).Abs() > time.Millisecond {
			t.Errorf("polled last at %s, before the restart it was %s", got, oldest)
		}
		w.pass(100 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}) - asked; n != 0 {
			t.Errorf("%d polls before the two hours were over", n)
		}
		w.pass(40 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}) - asked; n == 0 {
			t.Error("no poll when the two hours were over")
		}
	})
}

func TestWhatTheScheduleLearnedIsWrittenEveryFewMinutes(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		written := func() (n int) {
			w.must(w.store.View(func(tx *store.Tx) error {
				tx.Schedule("A100", func(_ int, chunk []byte) { n += len(chunk) })
				return nil
			}))
			return n
		}
		w.pass(6 * time.Minute)
		if written() < 30 {
			t.Error("a crash after six minutes forgets everything")
		}
	})
}

func TestARetiredAgencyGoesOnWhereItWas(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100", "B200"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.publish("B200", "b#1##")
		w.options.PollInterval = 2 * time.Hour
		w.start()
		w.pass(time.Minute)
		oldest := w.justPolled("B200")
		both := w.options.Agencies
		w.must(w.poller.SetAgencies([]poller.AgencyKeys{{ID: "A100", Key: listings.NewKey(testKey)}}))
		w.pass(10 * time.Minute)
		w.must(w.poller.SetAgencies(both))
		if got := w.status("B200").OldestPoll; got.Sub(oldest).Abs() > time.Millisecond {
			t.Errorf("polled last at %s, before it was retired at %s", got, oldest)
		}
	})
}
