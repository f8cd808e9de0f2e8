package ops

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestALoopThatHangsIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		if c := Alive("polling", time.Time{}, started, time.Minute); !c.OK || !c.Live || c.Text != "" {
			t.Errorf("just started: %+v", c)
		}
		time.Sleep(time.Hour)
		turned := time.Now()
		time.Sleep(time.Minute)
		if c := Alive("polling", turned, started, time.Minute); !c.OK {
			t.Errorf("in time: %+v", c)
		}
		time.Sleep(time.Second)
		if c := Alive("polling", turned, started, time.Minute); c.OK || c.Text != "no heartbeat for 1m1s; at most 1m0s is normal" {
			t.Errorf("too late: %+v", c)
		}
		if c := Alive("polling", time.Time{}, started, time.Minute); c.OK {
			t.Errorf("never: %+v", c)
		}
	})
}

func TestWhatIsAliveCanStillNotBeReady(t *testing.T) {
	for _, tt := range []struct {
		checks      []Check
		live, ready bool
	}{
		{nil, true, true},
		{[]Check{{OK: true, Live: true}, {OK: true}}, true, true},
		{[]Check{{OK: true, Live: true}, {}}, true, false},
		{[]Check{{Live: true}, {OK: true}}, false, false},
	} {
		if h := NewHealth(tt.checks...); h.Live != tt.live || h.Ready != tt.ready {
			t.Errorf("%+v", h)
		}
	}
}
