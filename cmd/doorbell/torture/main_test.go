// Package torture kills, starves and deceives the whole program until it would lose, double or invent an event, and holds the
// stream against what the API knew. README.md lists the tests that run only by name, with their commands and last figures.
package torture

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"doorbell/cmd/doorbell/cli"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events/natsd/natsdtest"
)

// rounds multiplies the kills, strikes, days and happenings. One round is a smoke of seconds.
var rounds = flag.Int("rounds", 1, "how many rounds each test makes: 10 kills, 8 struck calls, 2 days, 10 happenings to an external server, "+
	"10 power cuts, 20,000 waiting events, 250 ms for each sync of a slow disk")

// only repeats what a failure names.
var only = flag.String("only", "", "strike only this call (kind:number), or live only this day (seed)")

// scenesAtOnce is how many scenes of one test run beside each other: mostly they wait.
const scenesAtOnce = 8

// runsByName skips a test unless -run is given: it takes root, a loop device or minutes.
func runsByName(t *testing.T) {
	t.Helper()
	if !natsdtest.Given("test.run") {
		t.Skip("runs only by name; see README.md beside it")
	}
}

func TestMain(m *testing.M) {
	if size := os.Getenv(cheapInsertions); size != "" {
		serveCheaply(size)
		return
	}
	if dir := os.Getenv(latencyLimit); dir != "" {
		fmt.Fprintln(os.Stderr, commitAndPublish(dir))
		os.Exit(1)
	}
	doorbelltest.RunTests(m, cli.Process, cli.Main, natsdtest.Given("rounds"))
}
