package poller

import (
	"fmt"
	"testing"
	"time"
)

func TestATurnIsTakenWhenNoOtherPollWaitsToBeSent(t *testing.T) {
	c := newCrew()
	c.took(pollName{}, 10*time.Second, true)
	for n := range mostCrew {
		name := pollName{"A100", fmt.Sprint(n)}
		if !c.hasRoom(100) {
			t.Fatalf("no room with %d under way", n)
		}
		if c.begin(name); c.hasRoom(100) {
			t.Fatalf("another turn is taken while poll %d waits to be sent", n)
		}
		c.sent(name)
	}
	if c.hasRoom(100) {
		t.Errorf("more than %d are under way", mostCrew)
	}
	if c.end(pollName{"A100", "0"}); !c.hasRoom(100) {
		t.Error("no room though one is over")
	}
}
