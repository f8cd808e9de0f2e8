package poller

import (
	"fmt"
	"testing"
	"time"

	"doorbell/poller/schedule"
)

func TestATurnIsTakenWhenNoOtherPollWaitsToBeSent(t *testing.T) {
	now := time.Now()
	c := newCrew(func(time.Time) float64 { return 100 })
	c.took(pollName{}, 10*time.Second, true, now)
	begin := func(reference string) bool {
		_, _, room := c.begin(now, func(time.Time) (turn, time.Duration) { return turn{"A100", reference, schedule.Index}, 0 })
		return room
	}
	for n := range mostCrew {
		if !begin(fmt.Sprint(n)) {
			t.Fatalf("no room with %d under way", n)
		}
		if begin("early") {
			t.Fatalf("another turn is taken while poll %d waits to be sent", n)
		}
		c.sent(pollName{"A100", fmt.Sprint(n)}, now)
	}
	if begin("early") {
		t.Errorf("more than %d are under way", mostCrew)
	}
	if c.end(pollName{"A100", "0"}); !begin("0") {
		t.Error("no room though one is over")
	}
}

func TestWhoAskedBeforeAGoodAnswerIsStuckUntilItIsAnsweredItself(t *testing.T) {
	now := time.Now()
	c := newCrew(func(time.Time) float64 { return 5 })
	name := func(n int) pollName { return pollName{"A100", fmt.Sprint(n)} }
	for n := range 5 {
		c.begin(now, func(time.Time) (turn, time.Duration) { return turn{"A100", fmt.Sprint(n), schedule.Index}, 0 })
		c.sent(name(n), now)
	}
	for _, step := range []struct {
		do   func()
		want int
	}{
		{func() { c.took(name(1), time.Second, false, now) }, 0},
		{func() { c.took(name(3), time.Second, true, now) }, 2},
		{func() { c.took(name(4), time.Second, true, now) }, 2},
		{func() { c.took(name(2), time.Second, true, now) }, 1},
		{func() { c.sent(name(2), now); c.sent(name(4), now); c.took(name(4), time.Second, true, now) }, 2},
		{func() { c.end(name(0)) }, 1},
		{func() { c.end(name(2)) }, 0},
	} {
		if step.do(); c.stuck != step.want {
			t.Errorf("%d are stuck, want %d", c.stuck, step.want)
		}
	}
}
