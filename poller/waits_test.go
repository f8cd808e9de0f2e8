package poller

import (
	"testing"
	"time"
)

func TestTheLastMinuteIsSixtySeconds(t *testing.T) {
	var m lastMinute
	begin := time.Unix(1_800_000_000, 0)
	for n := range 300 {
		m.add(begin.Add(time.Duration(n) * 500 * time.Millisecond))
	}
	if got := m.sum(begin.Add(149 * time.Second)); got != 120 {
		t.Errorf("%d, want 120", got)
	}
	if got := m.sum(begin.Add(179 * time.Second)); got != 60 {
		t.Errorf("half a minute later %d, want 60", got)
	}
	if got := m.sum(begin.Add(time.Hour)); got != 0 {
		t.Errorf("an hour later %d", got)
	}
}
