package torture

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/poller/sandbox"
)

// TestAPairOfDoorbellsTakesOver ends the one that works in each way that there is, while leads go on: both were
// started once, so it is always the other that works.
func TestAPairOfDoorbellsTakesOver(t *testing.T) {
	t.Parallel()
	far := doorbelltest.StartFar(t)
	b := doorbelltest.NewLeads(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 600)
	b.OfSeveral()
	place := doorbelltest.NewPlace(t)
	b.Environ = append(b.Environ, "NATS_URL="+far.URL(), "DOORBELL_STANDBY=pair", place.Webhook())
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
		working, other := n%2, (n+1)%2
		b.GoesOn(t, 50)
		stands(t, dirs[other], false)
		ended := time.Now()
		var how string
		switch n % 3 {
		case 0:
			how = "kill"
			both[working].End(t, syscall.SIGKILL)
		case 1:
			how = "suspension"
			signalTo(t, both[working], syscall.SIGSTOP)
		case 2:
			how = "clean end"
			both[working].Stop(t)
			ended = time.Now()
		}
		stands(t, dirs[other], true)
		b.GoesOn(t, 1)
		took[how] = append(took[how], time.Since(ended))
		if how == "suspension" {
			b.GoesOn(t, 20)
			signalTo(t, both[working], syscall.SIGCONT)
			stands(t, dirs[working], false)
		} else {
			both[working] = launch(working)
		}
	}
	last := (3 * *rounds) % 2
	published := b.Judge(t, both[1-last], far.URL())
	doubled := everyLeadIsDelivered(t, far, place)
	both[last].Stop(t)
	if most := 2 * *rounds; doubled > most { // the message in hand of each that did not end cleanly
		t.Errorf("%d leads were delivered twice in %d takeovers", doubled, 3**rounds)
	}
	for how, list := range took {
		slices.Sort(list)
		t.Logf("first request after a %s: median %s, longest %s of %d", how, list[len(list)/2].Round(time.Millisecond),
			list[len(list)-1].Round(time.Millisecond), len(list))
	}
	t.Logf("%d takeovers in %s, %d events, %d leads delivered twice", 3**rounds, time.Since(begin).Round(time.Second), published, doubled)
}

// stands waits until the doorbell of a data directory says that it works, or that the other one does.
func stands(t *testing.T, dir string, works bool) {
	t.Helper()
	client := ops.NewClient(filepath.Join(dir, daemon.SocketFile))
	doorbelltest.Eventually(t, "a turn", func() bool {
		s, err := client.Status(t.Context())
		return err == nil && s.Standby != nil && s.Standby.Works == works && s.Standby.Holder != ""
	})
}

func signalTo(t *testing.T, c *doorbelltest.Child, signal syscall.Signal) {
	t.Helper()
	if err := c.Cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// everyLeadIsDelivered waits until the webhook has every lead of the stream, and returns how many it got twice.
func everyLeadIsDelivered(t *testing.T, far *doorbelltest.FarServer, place *doorbelltest.Place) (doubled int) {
	t.Helper()
	all, err := doorbelltest.ReadStream(t.Context(), far.URL())
	if err != nil {
		t.Fatal(err)
	}
	created := string(events.TypeContactRequestCreated)
	all = slices.DeleteFunc(all, func(m doorbelltest.Message) bool { return m.Kind() != created })
	doorbelltest.Eventually(t, "every lead is delivered", func() bool {
		times := map[string]int{}
		doubled = 0
		for _, p := range place.Hooked(created) {
			if times[p.Header.Get("ce-id")]++; times[p.Header.Get("ce-id")] > 1 {
				doubled++
			}
		}
		return !slices.ContainsFunc(all, func(m doorbelltest.Message) bool { return times[m.Header.Get("ce-id")] == 0 })
	})
	return doubled
}

func TestTheDemoOfAPairShowsATakeover(t *testing.T) {
	t.Parallel()
	p := doorbelltest.Launch(t, nil, "demo", "--standby")
	if code := p.Exit(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Stderr.String())
	}
	doorbelltest.Has(t, p.Stdout.String(), "one is killed", "two has taken over", "0 lost, 0 doubled")
}
