package torture

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
)

// TestAPairOfDoorbellsTakesOver ends the one that works in each way that there is, while leads go on: both were
// started once, so it is always the other that works.
func TestAPairOfDoorbellsTakesOver(t *testing.T) {
	t.Parallel()
	far := doorbelltest.StartFar(t)
	b := doorbelltest.NewLeads(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 600)
	b.OfSeveral()
	b.Environ = append(b.Environ, "NATS_URL="+far.URL(), "DOORBELL_STANDBY=pair")
	dirs := [2]string{b.Dir, doorbelltest.ShortDir(t)}
	launch := func(n int) *doorbelltest.Child {
		return doorbelltest.Launch(t, append(b.Environ[:len(b.Environ):len(b.Environ)], "DOORBELL_DATA_DIR="+dirs[n]), "run")
	}
	both := [2]*doorbelltest.Child{launch(0)}
	defer func() { logIfFailed(t, both[:]...) }()
	b.GoesOn(t, 50)
	b.Begun()
	both[1] = launch(1)
	took := map[string][]time.Duration{}
	begin := time.Now()
	for n := range 3 * *rounds {
		working := n % 2
		b.GoesOn(t, 50)
		ended := time.Now()
		var how string
		switch n % 3 {
		case 0:
			how = "clean end"
			both[working].Stop(t)
			ended = time.Now()
		case 1:
			how = "kill"
			both[working].End(t, syscall.SIGKILL)
		case 2:
			how = "suspension"
			signalTo(t, both[working], syscall.SIGSTOP)
		}
		b.GoesOn(t, 1)
		took[how] = append(took[how], time.Since(ended))
		if how == "suspension" {
			b.GoesOn(t, 20)
			signalTo(t, both[working], syscall.SIGCONT)
			both[working].Stderr.Await(t, "the lease is lost")
		} else {
			both[working] = launch(working)
		}
	}
	last := (3 * *rounds) % 2
	events := b.Judge(t, both[last], far.URL())
	both[1-last].Stop(t)
	for how, list := range took {
		slices.Sort(list)
		t.Logf("first request after a %s: median %s, longest %s of %d", how, list[len(list)/2].Round(time.Millisecond),
			list[len(list)-1].Round(time.Millisecond), len(list))
	}
	t.Logf("%d takeovers in %s, %d events", 3**rounds, time.Since(begin).Round(time.Second), events)
}

func signalTo(t *testing.T, c *doorbelltest.Child, signal syscall.Signal) {
	t.Helper()
	if err := c.Cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
