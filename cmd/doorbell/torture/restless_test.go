package torture

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
)

// restless is an API that keeps moving, and doorbells that watch it, each on a data directory of
// its own.
type restless struct {
	t         *testing.T
	oracle    doorbelltest.Oracle
	environ   []string
	own       [2][]string // settings of one doorbell alone
	far       *doorbelltest.FarServer
	dirs      [2]string
	doorbells [2]*doorbelltest.Child

	rest  func() // brings the API to rest
	began time.Time
	done  map[string]int
}

// newRestless begins to move immediately, with the given numbers of contact requests and changes a minute.
// Without changes insertions stay as they are, and stores may be lost and set back.
func newRestless(t *testing.T, seed uint64, r sandbox.Rendering, dir string, requests, changes float64) *restless {
	t.Helper()
	agencies := []string{"A100", "B200"}
	model := sandbox.NewModel(sandbox.Options{Seed: seed})
	g := sandbox.NewGenerator(model, sandbox.GeneratorOptions{
		Seed: seed, Agencies: agencies, Insertions: 30, History: 3,
		ContactRequestsPerMinute: requests, ChangesPerMinute: changes,
	})
	g.Seed()
	model.AddKey(doorbelltest.TestKey, agencies...)
	api := httptest.NewServer(sandbox.New(model, r))
	t.Cleanup(api.Close)
	b := &restless{t: t, dirs: [2]string{dir, doorbelltest.ShortDir(t)}, began: time.Now(), done: map[string]int{}}
	// The Date header of a response has whole seconds.
	b.oracle = doorbelltest.Oracle{Model: model, From: time.Now().Truncate(time.Second), SetBack: changes == 0}
	// So much changes here that, where no walk is complete for long, it is held as too large to believe.
	b.environ = append(doorbelltest.RunEnviron(dir, api.URL, doorbelltest.TestKey, agencies...), "DOORBELL_HOLD_FOR=2s")
	moving, rest := context.WithCancel(t.Context())
	var world sync.WaitGroup
	world.Go(func() { g.Run(moving) })
	b.rest = func() {
		rest()
		world.Wait()
	}
	t.Cleanup(func() {
		b.rest()
		if t.Failed() {
			for _, d := range b.doorbells {
				if d != nil {
					t.Log(d.Stderr.String())
				}
			}
		}
	})
	return b
}

// newLeads is an API at which only contact requests are made, and doorbells that publish to a
// server of their own.
func newLeads(t *testing.T, requests float64) *restless {
	t.Helper()
	return newRestless(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), requests, 0).outside()
}

func (b *restless) outside() *restless {
	b.far = doorbelltest.StartFar(b.t)
	b.environ = append(b.environ, "NATS_URL="+b.far.URL())
	return b
}

func (b *restless) launch(n int) {
	b.t.Helper()
	b.doorbells[n] = doorbelltest.Launch(b.t, slices.Concat(b.environ, []string{"DOORBELL_DATA_DIR=" + b.dirs[n]}, b.own[n]), "run")
}

func (b *restless) kill(n int) { b.doorbells[n].End(b.t, syscall.SIGKILL) }

// up waits until a doorbell answers, and returns where its NATS listens.
func (b *restless) up(n int) string {
	b.t.Helper()
	url := doorbelltest.NatsURL(b.t, b.dirs[n])
	b.watching()
	return url
}

// watching records that the watch has begun by now.
func (b *restless) watching() {
	if b.oracle.Until.IsZero() {
		b.oracle.Until = time.Now()
	}
}

func (b *restless) status(n int) (ops.Status, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	return ops.NewClient(filepath.Join(b.dirs[n], daemon.SocketFile)).Status(ctx)
}

func (b *restless) asked() int { return b.oracle.Model.Requests(sandbox.Filter{}) }

// goesOn waits until the API has had n more requests.
func (b *restless) goesOn(times int) {
	b.t.Helper()
	from := b.asked()
	doorbelltest.Eventually(b.t, "the API is asked on", func() bool { return b.asked() >= from+times })
}

// happen runs everything of a list in each round.
func (b *restless) happen(list []string, do func(what string)) {
	for range *rounds {
		for _, what := range list {
			do(what)
			b.done[what]++
		}
	}
}

// settle waits until a doorbell has published everything, and compares the stream with the truth.
func (b *restless) settle(n int) (events []doorbelltest.Message) {
	b.t.Helper()
	url := b.up(n)
	b.rest()
	events = b.oracle.MustKeepItsPromises(b.t, url, time.Minute)
	b.t.Logf("%v in %s, %d events", b.done, time.Since(b.began).Round(time.Second), len(events))
	return events
}

// judge is settle, and the end of the doorbell.
func (b *restless) judge(n int) {
	b.t.Helper()
	b.settle(n)
	b.doorbells[n].Stop(b.t)
}
