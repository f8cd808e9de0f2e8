package torture

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
)

// TestWhateverHappensToAnExternalServerNothingIsLostOrDoubled restarts it, takes the end of the stream away, deletes the
// stream or all of them, and kills the daemon, while the API keeps moving. The long form is
// `go test ./cmd/doorbell/torture -run TestWhateverHappens -rounds 30 -v`.
func TestWhateverHappensToAnExternalServerNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	far := doorbelltest.StartFar(t)
	b := doorbelltest.NewRestless(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 3000)
	b.Environ = append(b.Environ, "NATS_URL="+far.URL())
	p := doorbelltest.Launch(t, b.Environ, "run")
	doorbelltest.NatsURL(t, b.Dir)
	b.Begun()
	done := map[string]int{}
	happenings := []string{"restart", "restart", "copy", "cut", "cut", "delete", "delete", "lose", "kill", "kill"}
	begin := time.Now()
	for n := range len(happenings) * *rounds {
		what := happenings[n%len(happenings)] // all of them, in any order
		if n%len(happenings) == 0 {
			rand.Shuffle(len(happenings), func(i, j int) { happenings[i], happenings[j] = happenings[j], happenings[i] })
			what = happenings[0]
		}
		time.Sleep(rand.N(600 * time.Millisecond)) // the moment is the point of the test
		done[what]++
		if what == "kill" {
			p.End(t, syscall.SIGKILL)
			if p = doorbelltest.Launch(t, b.Environ, "run"); rand.N(2) == 0 { // or on a busy machine all that follows would hit a start
				doorbelltest.NatsURL(t, b.Dir)
			}
			continue
		}
		far.Suffer(t, what)
	}
	events := b.Judge(t, p, far.URL())
	t.Logf("%v in %s, %d events", done, time.Since(begin).Round(time.Second), events)
}
