package torture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
	"doorbell/schemas/skiptest"
)

// strikesInARound is how many calls are struck; [rounds] may exceed what there are, and then all are.
const strikesInARound = 8

// blow is what happens instead of calls from the at-th on.
type blow struct {
	at    int
	name  string
	errno syscall.Errno
	times int
}

var strikes = []blow{
	{name: "kill", times: 1},
	{name: "eio", errno: syscall.EIO, times: 1},
	{name: "enospc", errno: syscall.ENOSPC, times: 1},
	{name: "full", errno: syscall.ENOSPC, times: -1}, // no space until the restart
}

func (b blow) String() string { return fmt.Sprintf("%s:%d", b.name, b.at) }

// chooseBlows is a sample of n blows, or all of them if that is wanted.
func chooseBlows(calls, most int) (list []blow) {
	all := make([]blow, 0, calls*len(strikes))
	for at := 1; at <= calls; at++ {
		for _, b := range strikes {
			b.at = at
			all = append(all, b)
		}
	}
	if *only != "" {
		return slices.DeleteFunc(all, func(b blow) bool { return b.String() != *only })
	}
	if most >= len(all) {
		return all
	}
	for n := range most { // evenly over the calls, one strike after the other
		list = append(list, all[n*calls/most*len(strikes)+n%len(strikes)])
	}
	return list
}

// strikeCalls strikes calls that an untroubled run made, each in a run of its own.
func strikeCalls(t *testing.T, untroubled *tracer, least, most int, live func(*testing.T, *tracer)) {
	t.Helper()
	if untroubled.calls < least || !untroubled.status.Exited() || untroubled.status.ExitStatus() != exit.Done {
		t.Fatalf("an untroubled run makes %d calls and ends with %v", untroubled.calls, untroubled.status)
	}
	times := map[string]int{}
	for _, name := range untroubled.names {
		times[name]++
	}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		t.Logf("%4d %s", times[name], name)
	}
	var struck atomic.Int64
	blows := chooseBlows(untroubled.calls, most)
	atOnce(scenesAtOnce, blows, func(b blow) {
		t.Run(b.String(), func(t *testing.T) {
			tr := &tracer{at: b.at, times: b.times, errno: b.errno}
			defer func() {
				if tr.struck > 0 && t.Failed() {
					t.Logf("struck %s", tr.names[b.at-1])
				}
			}()
			if live(t, tr); tr.struck > 0 {
				struck.Add(1)
			}
		})
	})
	t.Logf("%d blows, %d of them struck one of %d calls: runs under load make fewer", len(blows), struck.Load(), untroubled.calls)
	if *only == "" && struck.Load() < int64(len(blows)/2) {
		t.Errorf("only %d of %d blows struck: runs differ too much", struck.Load(), len(blows))
	}
}

// mustRun begins a run of the program, and skips the test on a machine that forbids tracing.
func (t *tracer) mustRun(tb testing.TB, environ []string, output io.Writer, args ...string) {
	tb.Helper()
	err := t.run(environ, output, doorbelltest.Binary(tb), args...)
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS):
		skiptest.Skipf(tb, "this machine lets no program be traced: %v", err)
	case err != nil:
		tb.Fatal(err)
	}
}

// end kills the program.
func (t *tracer) end() {
	_ = syscall.Kill(t.pid, syscall.SIGKILL) // perhaps it has ended
	<-t.gone
}

// ends waits until the program has ended or all is over, but not for long once it was struck: it
// may have stopped asking.
func (t *tracer) ends(over <-chan struct{}) bool {
	hit, limit := t.hit, time.After(doorbelltest.Patience)
	for {
		select {
		case <-t.gone:
			return true
		case <-over:
			return false
		case <-limit:
			return false
		case <-hit:
			hit, limit = nil, time.After(2*time.Second)
		}
	}
}

// TestAFaultAtAnyCallThatChangesAFileLosesAndDoublesNothing runs the real program until everything
// was polled three times and strikes one call by which it changes its files, each of both stores; a
// second, untroubled life has to mend it. All of them:
// `go test ./cmd/doorbell/torture -run TestAFaultAtAnyCallThat -rounds 1000 -timeout 2h -v`.
func TestAFaultAtAnyCallThatChangesAFileLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	live := func(t *testing.T, tr *tracer) {
		p := newThreePolls(t)
		p.live(t, tr)
		p.mend(t)
	}
	first := &tracer{}
	live(t, first)
	strikeCalls(t, first, 100, strikesInARound**rounds, live)
}

// threePolls is a small world that changes with the requests it gets, so that every run of it is
// alike.
type threePolls struct {
	doorbelltest.Scene
	oracle doorbelltest.Oracle
	output bytes.Buffer

	mu    sync.Mutex
	polls int
	over  chan struct{} // closed when all has happened and was asked for
}

func newThreePolls(t *testing.T) *threePolls {
	t.Helper()
	p := &threePolls{Scene: doorbelltest.SceneOf(t, 3, []string{"A100"}), over: make(chan struct{})}
	p.oracle = doorbelltest.Oracle{Model: p.Model, From: time.Now().Truncate(time.Second)}
	all := p.Model.Truth().Insertions
	p.Model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		p.move(c, all)
		return nil
	})
	return p
}

// move makes the changes that are due at a request.
func (p *threePolls) move(c sandbox.Call, all []sandbox.InsertionTruth) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.oracle.Until.IsZero() {
		p.oracle.Until = time.Now() // the first request starts the watch
	}
	if c.Operation != sandbox.OperationContactRequests {
		return
	}
	ring := func(n int) {
		person := sandbox.ContactRequest{FirstName: "Nora", LastName: "Muster" + sandbox.Marker}
		_, _ = p.Model.AddContactRequest("A100", all[n].Reference, person)
	}
	p.polls++
	switch p.polls {
	case 3, 14:
		ring(0)
	case 5:
		_ = p.Model.Edit("A100", all[1].Reference, func(i *sandbox.Insertion) { i.AvailableFrom = "2027-01-01" })
	case 6:
		_ = p.Model.Withdraw("A100", all[2].Reference)
	case 8:
		ring(1)
	case 24:
		close(p.over)
	}
}

// live runs the program under the tracer until the world has come to rest, or the program has ended
// by itself.
func (p *threePolls) live(t *testing.T, tr *tracer) {
	t.Helper()
	tr.below = p.Dir
	tr.mustRun(t, p.Environ, &p.output, "run")
	if !tr.ends(p.over) {
		_ = syscall.Kill(tr.pid, syscall.SIGTERM)
		if !tr.ends(nil) {
			tr.end()
		}
	}
}

// mend starts it again, untroubled, and judges the stream when everything is published.
func (p *threePolls) mend(t *testing.T) {
	t.Helper()
	d := doorbelltest.Launch(t, p.Environ, "run")
	defer func() {
		_ = d.Cmd.Process.Kill()
		<-d.Gone
		if t.Failed() {
			t.Logf("the first run printed:\n%s\nthe second one:\n%s", p.output.String(), d.Stderr.String())
		}
		doorbelltest.HoldsNobody(t, p.output.String())
	}()
	url := doorbelltest.NatsURL(t, p.Dir)
	select {
	case <-p.over:
	case <-d.Gone:
		t.Fatalf("the second run exited by itself: %v", d.Cmd.ProcessState)
	case <-time.After(doorbelltest.Patience):
		t.Fatal("the second run sends no requests")
	}
	p.oracle.MustKeepItsPromises(t, url, doorbelltest.Patience)
}
