// Package torture kills, starves and deceives the whole program until it would lose, double or
// invent an event, and compares the stream with what the API knew. README.md lists the tests that
// run only by name, with their commands and last figures.
package torture

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server/ats"

	"doorbell/cmd/doorbell/cli"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events/natsd/natsdtest"
)

// rounds multiplies the kills, strikes, days and happenings. One round is a smoke of seconds.
var rounds = flag.Int("rounds", 1, "how many rounds each test makes: 10 kills, 8 struck calls, 2 days, "+
	"10 happenings to an external server, 10 power cuts, 20,000 waiting events, 250 ms for each sync of a slow disk")

// only repeats what a failure names.
var only = flag.String("only", "", "strike only this call (kind:number), or live only this day (seed)")

// scenesAtOnce is how many scenes of one test run beside each other: mostly they wait.
const scenesAtOnce = 8

func TestMain(m *testing.M) {
	doorbelltest.RunTests(m, cli.Process, cli.Main, natsdtest.Given("rounds"))
}

// runsByName skips a test unless -run is given: it takes root, a loop device or minutes.
func runsByName(t *testing.T) {
	t.Helper()
	if !natsdtest.Given("test.run") {
		t.Skip("runs only by name; see README.md beside it")
	}
}

// atOnce does something with all of a list, n at a time.
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

// orders tells a process of a test what to do.
const orders = "TORTURE_ORDERS"

// again reruns a test, in a process of its own with these orders. The NATS client keeps
// timers for the next one that needs some, also across bubbles, which the runtime does not allow:
// so everything in virtual time runs in processes of its own, one bubble after the other.
func again(t *testing.T, order string) ([]byte, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "0",
		"-rounds", fmt.Sprint(*rounds), "-only", *only)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400", orders+"="+order)
	return cmd.CombinedOutput()
}

// inBubble runs something in virtual time, with a directory in memory, and keeps nothing
// for the next bubble of the process.
func inBubble(t *testing.T, live func(t *testing.T, dir string)) {
	ats.Register() // here, not in the bubble: its ticker would keep the clock from moving
	defer ats.Unregister()
	dir, err := os.MkdirTemp(natsdtest.InMemory(), "db")
	must(t, err)
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) { live(t, dir) })
	runtime.GC()
	runtime.GC() // what was kept for the next is gone after the second
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
