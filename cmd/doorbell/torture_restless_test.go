package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// restless is an API that keeps moving, a data directory, and the daemons that live on it one after the other.
type restless struct {
	oracle  oracle
	dir     string
	environ []string
	rest    func() // brings the API to rest

	mu       sync.Mutex
	arrivals []time.Time // of requests
}

func (b *restless) arrived() {
	b.mu.Lock()
	b.arrivals = append(b.arrivals, time.Now())
	b.mu.Unlock()
}

// most is how many requests came within any span of this length.
func (b *restless) most(within time.Duration) (most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := 0
	for n, at := range b.arrivals {
		for at.Sub(b.arrivals[from]) >= within {
			from++
		}
		most = max(most, n-from+1)
	}
	return most
}

// newRestless begins to move at once.
func newRestless(t *testing.T, seed uint64, r sandbox.Rendering, dir string, contactRequestsPerMinute float64) *restless {
	t.Helper()
	return newRestlessOf(t, seed, r, dir, contactRequestsPerMinute, "A100", "B200")
}

// newRestlessOf is newRestless of these agencies.
func newRestlessOf(t *testing.T, seed uint64, r sandbox.Rendering, dir string, contactRequestsPerMinute float64, agencies ...string) *restless {
	t.Helper()
	model := sandbox.NewModel(sandbox.Options{Seed: seed})
	g := sandbox.NewGenerator(model, sandbox.GeneratorOptions{
		Seed: seed, Agencies: agencies, Insertions: 30, History: 3,
		ContactRequestsPerMinute: contactRequestsPerMinute, ChangesPerMinute: contactRequestsPerMinute / 10,
	})
	g.Seed()
	model.AddKey(testKey, agencies...)
	b := &restless{}
	handler := sandbox.New(model, r)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.arrived()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)
	b.dir, b.oracle = dir, oracle{model: model, from: time.Now().Truncate(time.Second)} // an answer tells times in whole seconds
	// So much changes here that, where a slow machine brings no complete walk for long, it is held as too large to believe.
	b.environ = append(runEnviron(dir, api.URL, testKey, agencies...), "DOORBELL_HOLD_FOR=2s")
	moving, rest := context.WithCancel(t.Context())
	var world sync.WaitGroup
	world.Go(func() { g.Run(moving) })
	b.rest = func() {
		rest()
		world.Wait()
	}
	t.Cleanup(b.rest)
	return b
}

// begun says that the watch has begun by now.
func (b *restless) begun() {
	if b.oracle.until.IsZero() {
		b.oracle.until = time.Now()
	}
}

// judge waits until all is told and ends the daemon.
func (b *restless) judge(t *testing.T, p *child, natsURL string) (events int) {
	t.Helper()
	b.rest()
	all := b.oracle.mustKeepItsPromises(t, natsURL, 60*time.Second)
	p.stop(t)
	return len(all)
}
