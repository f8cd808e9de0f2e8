package torture

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
)

const (
	killsInARound = 10
	firstStarts   = 4  // of the kills of a scene, those that hit the very first start
	killsInAScene = 50 // daemons that run in turn on one data directory before it is judged
)

// TestKillingTheDaemonAtRandomLosesAndDoublesNothing kills the real process while the API keeps
// moving, again and again, and then compares the stream with the truth. It runs beside no other
// test, which would have most kills hit a start. The long form is
// `go test ./cmd/doorbell/torture -run TestKillingTheDaemonAtRandom -rounds 100 -v`.
func TestKillingTheDaemonAtRandomLosesAndDoublesNothing(t *testing.T) {
	renderings, kills := []sandbox.Rendering{sandbox.Flat(), sandbox.Nested()}, killsInARound**rounds
	scenes := make([]int, max(len(renderings), (kills+killsInAScene-1)/killsInAScene))
	for n := range scenes {
		scenes[n] = n
	}
	begin := time.Now()
	atOnce(scenesAtOnce, scenes, func(n int) {
		r := renderings[n%len(renderings)]
		t.Run(fmt.Sprintf("%d %s", n+1, r.Name), func(t *testing.T) {
			killAtRandom(t, uint64(n+1), r, (kills+n)/len(scenes))
		})
	})
	t.Logf("%d kills in %d scenes, %.0f kills a minute", kills, len(scenes), float64(kills)/time.Since(begin).Minutes())
}

func killAtRandom(t *testing.T, seed uint64, r sandbox.Rendering, times int) {
	b := newRestless(t, seed, r, doorbelltest.ShortDir(t), 1200, 120)
	for n := range times {
		b.launch(0)
		life := 60 * time.Millisecond // while store and stream are made
		if n >= firstStarts {
			life = 500 * time.Millisecond
		}
		if n == firstStarts {
			b.up(0)
		}
		time.Sleep(rand.N(life)) // the moment of the kill is the point of the test
		b.kill(0)
	}
	b.launch(0)
	b.judge(0)
}
