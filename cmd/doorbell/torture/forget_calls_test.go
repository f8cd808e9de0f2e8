package torture

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/people"
	"doorbell/schemas/skiptest"
)

// TestAFaultAtAnyCallOfForgetIsFinishedByTheNextStart strikes one call by which `doorbell forget` changes a file; the next start has to
// finish what has begun. All of them: `go test ./cmd/doorbell/torture -run TestAFaultAtAnyCallOfForget -rounds 1000 -timeout 2h -v`.
func TestAFaultAtAnyCallOfForgetIsFinishedByTheNextStart(t *testing.T) {
	t.Parallel()
	m, d, _, _ := newErasureSceneOf(t, 20_000) // more pages of the store would be more calls of one kind
	d.Stop(t)
	first := &tracer{}
	untroubled := m.struck(t, first)
	if err := untroubled.tracing; untraceable(err) {
		skiptest.Skipf(t, "this machine lets no program be traced: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if first.calls < 20 || !first.status.Exited() || first.status.ExitStatus() != exit.Done {
		t.Fatalf("an untroubled forget makes %d calls and exits with %d: %s", first.calls, first.status.ExitStatus(), untroubled.output)
	}
	t.Logf("%d calls: %v", first.calls, tally(first.names))
	blows := chooseBlows(first.calls, strikesInARound**rounds/2)
	atOnce(scenesAtOnce, blows, func(b blow) {
		t.Run(b.String(), func(t *testing.T) {
			tr := &tracer{at: b.at, times: b.times, errno: b.errno}
			after := m.struck(t, tr)
			if after.tracing != nil {
				t.Fatal(after.tracing)
			}
			after.finish(t)
			if t.Failed() && tr.struck > 0 {
				t.Logf("struck %s; forget said:\n%s", tr.names[b.at-1], after.output.String())
			}
		})
	})
}

// TestAKilledDaemonFinishesItsErasureAtTheNextStart kills it while it erases: each third time soon after it was asked to, else after the
// receipt stands.
func TestAKilledDaemonFinishesItsErasureAtTheNextStart(t *testing.T) {
	t.Parallel()
	m, d, _, _ := newErasureSceneOf(t, 20_000)
	d.Stop(t)
	for n := range 3 * *rounds {
		s := m.copied(t)
		d := doorbelltest.Launch(t, s.Environ, "run")
		doorbelltest.NatsURL(t, s.Dir)
		asks := doorbelltest.Launch(t, s.Environ, "forget", "--email", m.gone.email, "--yes")
		if n%3 > 0 {
			doorbelltest.Eventually(t, "a receipt", func() bool { return len(s.receipts(t)) > 0 })
		}
		time.Sleep(rand.N(60 * time.Millisecond)) // the moment of the kill is the point of the test
		d.End(t, syscall.SIGKILL)
		<-asks.Gone
		t.Logf("receipts: %d", len(s.receipts(t)))
		s.finish(t)
	}
}

// struckForget is a scene in which a forget was struck.
type struckForget struct {
	erasureScene
	tracing error
	output  *bytes.Buffer
}

// copied is the scene in a copy of the data directory.
func (m erasureScene) copied(t *testing.T) struckForget {
	t.Helper()
	s := struckForget{erasureScene: m, output: &bytes.Buffer{}}
	s.Dir = doorbelltest.ShortDir(t)
	if err := os.CopyFS(s.Dir, os.DirFS(m.Dir)); err != nil {
		t.Fatal(err)
	}
	s.Environ = m.With("DOORBELL_DATA_DIR=" + s.Dir)
	return s
}

func (m erasureScene) receipts(t *testing.T) []people.Receipt {
	t.Helper()
	all, err := people.Receipts(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// struck lets forget run under the tracer, in a copy.
func (m erasureScene) struck(t *testing.T, tr *tracer) struckForget {
	t.Helper()
	s := m.copied(t)
	tr.below = s.Dir
	if s.tracing = tr.run(s.Environ, s.output, doorbelltest.Binary(t), "forget", "--email", m.gone.email, "--yes"); s.tracing == nil {
		<-tr.gone
		doorbelltest.HoldsNobody(t, s.output.String())
	}
	return s
}

// finish starts the daemon, which finishes what has begun; what had not begun yet is begun again.
func (s struckForget) finish(t *testing.T) {
	t.Helper()
	d := doorbelltest.Launch(t, s.Environ, "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	if len(s.receipts(t)) == 0 {
		receiptOf(t, doorbelltest.Run(t, s.Environ, "forget", "--email", s.gone.email, "--yes", "--json"))
	}
	doorbelltest.Eventually(t, "the end of the erasure", func() bool { return !s.receipts(t)[0].Finished.IsZero() })
	s.mustBeErased(t, url)
	if got := doorbelltest.Run(t, s.Environ, "verify"); got.Code != exit.Done {
		t.Errorf("%+v", got)
	}
	d.Stop(t)
	if got := doorbelltest.Run(t, s.Environ, "export", "--email", s.gone.email); got.Code != exit.CodeFailed { // opens the store, and so compacts it
		t.Errorf("there is something to export: exit %d", got.Code)
	}
	if !s.interrupted(t) {
		s.mustBeGone(t, "after the next start")
		return
	}
	s.mustBeGoneFrom(t, "after the next start", func(file string) bool { return !strings.HasPrefix(file, "jetstream/") })
	if err := os.RemoveAll(filepath.Join(s.Dir, "jetstream")); err != nil { // as the receipt says
		t.Fatal(err)
	}
	d = doorbelltest.Launch(t, s.Environ, "run")
	url = doorbelltest.NatsURL(t, s.Dir)
	s.mustBeErased(t, url)
	d.Stop(t)
	s.mustBeGone(t, "after the stream was filled again")
}

// interrupted reports whether the receipt says that the server may have been interrupted between
// deleting a message and overwriting it, which no request to it can make good.
func (m erasureScene) interrupted(t *testing.T) bool {
	t.Helper()
	return slices.ContainsFunc(m.receipts(t)[0].OutOfReach, func(what string) bool { return strings.Contains(what, "interrupted") })
}
