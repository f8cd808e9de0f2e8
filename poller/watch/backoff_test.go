package watch

import (
	"testing"
	"time"
)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func TestRequestsUnderWayAtAFailureDoNotChangeTheBackOff(t *testing.T) {
	b := NewBackoff(10*time.Second, time.Hour).Failed("a", at(0), at(5))
	for name, after := range map[string]Backoff{
		"another failure": b.Failed("b", at(5), at(9)), "a success": b.Succeeded(at(5)), "a shorter wait": b.Throttled(at(5), at(6), time.Second),
	} {
		if after != b {
			t.Errorf("%s: %+v", name, after)
		}
	}
	if after := b.Throttled(at(5), at(6), time.Hour); after.Failures != 1 || after.Until != at(6+3600) {
		t.Errorf("a longer wait: %+v", after)
	}
	if after := b.Throttled(at(6), at(7), time.Second); after.Failures != 2 || after.Until != at(8) {
		t.Errorf("a wait from a later request: %+v", after)
	}
	if again := b.Failed("b", at(6), at(8)); again.Failures != 2 || again.Since != b.Since || again.Last != "b" || !again.Until.After(b.Until) {
		t.Errorf("the next failure: %+v", again)
	}
	if over := b.Succeeded(at(6)); over != NewBackoff(10*time.Second, time.Hour) {
		t.Errorf("a success later: %+v", over)
	}
}

func TestABackOffDoublesUpToItsMaximum(t *testing.T) {
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 4*time.Minute + 16*time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := Delay(time.Second, 5*time.Minute, n); got < want*79/100 || got > want*121/100 {
			t.Errorf("after %d failures %s, want about %s", n, got, want)
		}
	}
}
