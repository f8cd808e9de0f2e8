package doorbelltest

import (
	"context"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// restless is an API that keeps moving, a data directory, and the daemons that live on it one after
// the other.
type restless struct {
	oracle  Oracle
	Dir     string
	Environ []string
	rest    func() // brings the API to rest
}

// NewRestless begins to move at once.
func NewRestless(t *testing.T, seed uint64, r sandbox.Rendering, dir string, contactRequestsPerMinute float64) *restless {
	t.Helper()
	return newRestless(t, seed, r, dir, contactRequestsPerMinute, contactRequestsPerMinute/10)
}

// NewLeads is an API at which only contact requests are made: insertions stay as they are, of which
// a store that is lost may miss a change. Stores may be set back.
func NewLeads(t *testing.T, seed uint64, r sandbox.Rendering, dir string, contactRequestsPerMinute float64) *restless {
	t.Helper()
	b := newRestless(t, seed, r, dir, contactRequestsPerMinute, 0)
	b.oracle.SetBack = true
	return b
}

func newRestless(t *testing.T, seed uint64, r sandbox.Rendering, dir string, contactRequestsPerMinute, changesPerMinute float64) *restless {
	t.Helper()
	agencies := []string{"A100", "B200"}
	model := sandbox.NewModel(sandbox.Options{Seed: seed})
	g := sandbox.NewGenerator(model, sandbox.GeneratorOptions{
		Seed: seed, Agencies: agencies, Insertions: 30, History: 3,
		ContactRequestsPerMinute: contactRequestsPerMinute, ChangesPerMinute: changesPerMinute,
	})
	g.Seed()
	model.AddKey(TestKey, agencies...)
	b := &restless{}
	api := httptest.NewServer(sandbox.New(model, r))
	t.Cleanup(api.Close)
	b.Dir, b.oracle = dir, Oracle{Model: model, From: time.Now().Truncate(time.Second)} // an answer tells times in whole seconds
	// So much changes here that, where a slow machine brings no complete walk for long, it is held
	// as too large to believe.
	b.Environ = append(RunEnviron(dir, api.URL, TestKey, agencies...), "DOORBELL_HOLD_FOR=2s")
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

// Begun says that the watch has begun by now.
func (b *restless) Begun() {
	if b.oracle.Until.IsZero() {
		b.oracle.Until = time.Now()
	}
}

// GoesOn waits until the API was asked so many times more.
func (b *restless) GoesOn(t *testing.T, times int) {
	t.Helper()
	from := b.oracle.Model.Requests(sandbox.Filter{})
	Eventually(t, "the API is asked on", func() bool { return b.oracle.Model.Requests(sandbox.Filter{}) >= from+times })
}

// OfSeveral judges the stream of several doorbells, each of which may announce what insertions do.
func (b *restless) OfSeveral() { b.oracle.Several = true }

// Judge waits until all is told and ends the daemon.
func (b *restless) Judge(t *testing.T, p *Child, natsURL string) (events int) {
	t.Helper()
	b.rest()
	all := b.oracle.MustKeepItsPromises(t, natsURL, 60*time.Second)
	p.Stop(t)
	return len(all)
}

// KeepLog lets MostPerSecond count from now on.
func (b *restless) KeepLog() { b.oracle.Model.KeepLog() }

// MostPerSecond is the largest number of requests that arrived within any second, except the seconds
// around some moments.
func (b *restless) MostPerSecond(except []time.Time) (most int) {
	log := b.oracle.Model.Log(sandbox.Filter{})
	slices.SortFunc(log, func(x, y sandbox.Request) int { return x.At.Compare(y.At) })
	first := 0
	for n, r := range log {
		for r.At.Sub(log[first].At) >= time.Second {
			first++
		}
		if !slices.ContainsFunc(except, func(at time.Time) bool { return r.At.Sub(at).Abs() < 2*time.Second }) {
			most = max(most, n-first+1)
		}
	}
	return most
}
