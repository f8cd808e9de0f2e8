package torture

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
)

// killsInARound is how often the daemon is killed.
const killsInARound = 10

// firstStarts is how many of the kills hit the very first start.
const firstStarts = 4

// killsInAScene is how many daemons live on one data directory before it is judged.
const killsInAScene = 50

// TestKillingTheDaemonAtRandomLosesAndDoublesNothing kills the real process while the API keeps moving, again and again,
// and then holds the stream against the truth. It runs beside no other test, which would have most kills hit a start.
// `go test ./cmd/doorbell/torture -run TestKillingTheDaemonAtRandom -rounds 100 -v` is the long form.
func TestKillingTheDaemonAtRandomLosesAndDoublesNothing(t *testing.T) {
	renderings, kills := []sandbox.Rendering{sandbox.Flat(), sandbox.Nested()}, killsInARound**rounds
	times := make([]int, max(len(renderings), (kills+killsInAScene-1)/killsInAScene))
	for n := range kills {
		times[n%len(times)]++
	}
	list := make([]int, len(times))
	for n := range list {
		list[n] = n
	}
	begin, events := time.Now(), atomic.Int64{}
	atOnce(min(scenesAtOnce, len(list)), list, func(n int) {
		r := renderings[n%len(renderings)]
		t.Run(fmt.Sprintf("%d %s", n+1, r.Name), func(t *testing.T) {
			events.Add(int64(killAtRandom(t, uint64(n+1), r, times[n])))
		})
	})
	t.Logf("%d kills in %d scenes, %d events, %.0f kills a minute", kills, len(list), events.Load(), float64(kills)/time.Since(begin).Minutes())
}

func killAtRandom(t *testing.T, seed uint64, r sandbox.Rendering, times int) (events int) {
	dir := doorbelltest.ShortDir(t)
	b := doorbelltest.NewRestless(t, seed, r, dir, 1200)
	for n := range times {
		p := doorbelltest.Launch(t, b.Environ, "run")
		if n == firstStarts {
			doorbelltest.NatsURL(t, dir)
			b.Begun() // in this life or before
		}
		life := 500 * time.Millisecond
		if n < firstStarts {
			life = 60 * time.Millisecond // while store and stream are made
		}
		time.Sleep(rand.N(life)) // the moment of the kill is the point of the test
		p.End(t, syscall.SIGKILL)
	}
	last := doorbelltest.Launch(t, b.Environ, "run")
	url := doorbelltest.NatsURL(t, dir)
	b.Begun()
	return b.Judge(t, last, url)
}
