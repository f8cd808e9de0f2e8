package torture

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
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

// strike is what happens instead of calls from the n-th on.
type strike struct {
	name  string
	errno syscall.Errno
	times int
}

var strikes = []strike{
	{"kill", 0, 1},
	{"eio", syscall.EIO, 1},
	{"enospc", syscall.ENOSPC, 1},
	{"full", syscall.ENOSPC, -1}, // no space until the restart
}

// blow is one strike at one call.
type blow struct {
	strike
	at int
}

func (b blow) String() string { return fmt.Sprintf("%s:%d", b.name, b.at) }

// TestAFaultAtAnyCallThatChangesAFileLosesAndDoublesNothing runs the real program until everything was polled three times
// and strikes one call by which it changes its files, each of both stores; a second, untroubled life has to mend it. All
// of them: `go test ./cmd/doorbell/torture -run TestAFaultAtAnyCallThat -rounds 1000 -timeout 2h -v`.
func TestAFaultAtAnyCallThatChangesAFileLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	first := &tracer{}
	play := newThreePolls(t)
	if err := play.live(t, first); untraceable(err) {
		skiptest.Skipf(t, "this machine lets no program be traced: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	play.mend(t)
	if first.calls < 100 || !first.status.Exited() || first.status.ExitStatus() != exit.Done {
		t.Fatalf("an untroubled run makes %d calls and ends with %v", first.calls, first.status)
	}
	t.Logf("%d calls: %v", first.calls, tally(first.names))
	var struck atomic.Int64
	blows := chooseBlows(first.calls, strikesInARound**rounds)
	atOnce(scenesAtOnce, blows, func(b blow) {
		t.Run(b.String(), func(t *testing.T) {
			tr := &tracer{at: b.at, times: b.times, errno: b.errno}
			play := newThreePolls(t)
			if err := play.live(t, tr); err != nil {
				t.Fatal(err)
			}
			if tr.struck > 0 {
				struck.Add(1)
			}
			play.mend(t)
			if t.Failed() && tr.struck > 0 {
				t.Logf("struck %s; the troubled life said:\n%s", tr.names[b.at-1], play.output.String())
			}
		})
	})
	t.Logf("%d blows, %d of them struck a call: runs under load make fewer", len(blows), struck.Load())
	if *only == "" && struck.Load() < int64(len(blows)/2) {
		t.Errorf("only %d of %d blows struck: runs differ too much", struck.Load(), len(blows))
	}
}

// atOnce does all of a list, so many at once.
func atOnce[T any](n int, list []T, do func(T)) {
	work := make(chan T)
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for one := range work {
				do(one)
			}
		})
	}
	for _, one := range list {
		work <- one
	}
	close(work)
	workers.Wait()
}

// chooseBlows is a sample of so many blows, or all of them if that is wanted.
func chooseBlows(calls, most int) (list []blow) {
	for at := 1; at <= calls; at++ {
		for _, s := range strikes {
			if b := (blow{s, at}); *only == "" || *only == b.String() {
				list = append(list, b)
			}
		}
	}
	if *only != "" || most >= len(list) {
		return list
	}
	sample := make([]blow, 0, most)
	for n := range most { // evenly over the calls, one strike after the other
		sample = append(sample, blow{strikes[n%len(strikes)], 1 + n*calls/most})
	}
	return sample
}

// tally counts calls by kind of call and file.
func tally(names []string) []string {
	counts := map[string]int{}
	for _, n := range names {
		counts[n]++
	}
	list := make([]string, 0, len(counts))
	for n, c := range counts {
		list = append(list, fmt.Sprintf("\n%4d %s", c, n))
	}
	slices.Sort(list)
	return list
}

// threePolls is a small world that moves with the questions it is asked, so that every run of it is alike.
type threePolls struct {
	oracle  doorbelltest.Oracle
	url     string
	dir     string
	environ []string
	output  bytes.Buffer

	mu    sync.Mutex
	polls int
	over  chan struct{} // closed when all has happened and was asked for
}

func newThreePolls(t *testing.T) *threePolls {
	t.Helper()
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	g := sandbox.NewGenerator(model, sandbox.GeneratorOptions{Seed: 1, Agencies: []string{"A100"}, Insertions: 3, History: 1})
	g.Seed()
	model.AddKey(doorbelltest.TestKey, "A100")
	p := &threePolls{oracle: doorbelltest.Oracle{Model: model, From: time.Now().Truncate(time.Second)}, over: make(chan struct{})}
	all := model.Truth().Insertions
	model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		p.move(c, all)
		return nil
	})
	server := httptest.NewServer(sandbox.New(model, sandbox.Flat()))
	t.Cleanup(server.Close)
	p.url, p.dir = server.URL, doorbelltest.ShortDir(t)
	p.environ = doorbelltest.RunEnviron(p.dir, server.URL, doorbelltest.TestKey, "A100")
	return p
}

// move lets happen what is due at a question.
func (p *threePolls) move(c sandbox.Call, all []sandbox.InsertionTruth) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.oracle.Until.IsZero() {
		p.oracle.Until = time.Now() // who asks has begun to watch
	}
	if c.Operation != sandbox.OperationContactRequests {
		return
	}
	m := p.oracle.Model
	ring := func(n int) {
		_, _ = m.AddContactRequest("A100", all[n].Reference, sandbox.ContactRequest{FirstName: "Nora", LastName: "Muster" + sandbox.Marker})
	}
	p.polls++
	switch p.polls {
	case 3, 14:
		ring(0)
	case 5:
		_ = m.Edit("A100", all[1].Reference, func(i *sandbox.Insertion) { i.AvailableFrom = "2027-01-01" })
	case 6:
		_ = m.Withdraw("A100", all[2].Reference)
	case 8:
		ring(1)
	case 24:
		close(p.over)
	}
}

// live runs the program under the tracer until the world has come to rest, or the program has ended by itself.
func (p *threePolls) live(t *testing.T, tr *tracer) error {
	tr.below = p.dir
	if err := tr.run(p.environ, &p.output, doorbelltest.Binary(t), "run"); err != nil {
		return err
	}
	if tr.ends(p.over) {
		return nil
	}
	_ = syscall.Kill(tr.pid, syscall.SIGTERM)
	if !tr.ends(nil) {
		_ = syscall.Kill(tr.pid, syscall.SIGKILL)
		<-tr.gone
	}
	return nil
}

// ends waits until the program has ended or all is over, but not for long once it was struck: it may have stopped asking.
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

// mend starts it again, untroubled, and judges what the stream holds when all is told.
func (p *threePolls) mend(t *testing.T) {
	t.Helper()
	d := doorbelltest.Launch(t, p.environ, "run")
	defer func() {
		_ = d.Cmd.Process.Kill()
		<-d.Gone
		if t.Failed() {
			t.Logf("the second life said:\n%s", d.Stderr.String())
		}
		doorbelltest.HoldsNobody(t, p.output.String())
	}()
	url := doorbelltest.NatsURL(t, p.dir)
	select {
	case <-p.over:
	case <-d.Gone:
		t.Fatalf("the second life ended by itself: %v", d.Cmd.ProcessState)
	case <-time.After(doorbelltest.Patience):
		t.Fatal("the second life does not ask")
	}
	p.oracle.MustKeepItsPromises(t, url, doorbelltest.Patience)
}

// untraceable says whether a machine lets no program be traced.
func untraceable(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS)
}
