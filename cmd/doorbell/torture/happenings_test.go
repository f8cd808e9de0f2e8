package torture

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
)

// TestWhateverHappensToAnExternalServerNothingIsLostOrDoubled restarts it, takes the end of the
// stream away, deletes the stream or all of them, and kills the daemon, while the API keeps moving.
// The long form is `go test ./cmd/doorbell/torture -run TestWhateverHappens -rounds 30 -v`.
func TestWhateverHappensToAnExternalServerNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	b := newRestless(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 3000, 300).outside()
	b.launch(0)
	b.up(0)
	happenings := strings.Fields("restart restart copy cut cut delete delete lose kill kill")
	for range *rounds { // all of them, in any order
		rand.Shuffle(len(happenings), func(i, j int) { happenings[i], happenings[j] = happenings[j], happenings[i] })
		for _, what := range happenings {
			b.done[what]++
			time.Sleep(rand.N(600 * time.Millisecond)) // the moment is the point of the test
			if what != "kill" {
				b.far.Suffer(t, what)
				continue
			}
			b.kill(0)
			b.launchPerhapsUp(0)
		}
	}
	b.judge(0)
}

// launchPerhapsUp waits for a start every other time: on a busy machine everything that follows would
// otherwise hit a start.
func (b *restless) launchPerhapsUp(n int) {
	b.t.Helper()
	if b.launch(n); rand.N(2) == 0 {
		b.up(n)
	}
}

// away is the end of what happens while NATS is away.
const away = ", NATS away"

// TestAStoreThatIsLostOrRestoredAgainAndAgainLosesAndDoublesNoLead kills the daemon while leads go
// on, loses its store or puts a backup in its place, with NATS there or away at the next start, and
// gives no flag. The long form is
// `go test ./cmd/doorbell/torture -run TestAStoreThatIsLost -rounds 3 -v`.
func TestAStoreThatIsLostOrRestoredAgainAndAgainLosesAndDoublesNoLead(t *testing.T) {
	t.Parallel()
	b := newLeads(t, 600) // each new store finds all of them again
	backup := filepath.Join(t.TempDir(), "backup.db")
	b.launch(0)
	b.up(0)
	// A store that begins again finds the leads of the last minutes, also those that the one before
	// had lost. So the last one is restored.
	b.happen([]string{
		"back up", "lose", "restore", "lose" + away, "restore" + away, "lose", "kill" + away, "back up", "kill", "restore" + away,
	}, func(happening string) {
		what, alone := strings.CutSuffix(happening, away)
		b.goesOn(rand.N(80)) // the moment is the point of the test
		if what == "back up" {
			b.up(0)
			b.goesOn(20)
			if got := doorbelltest.Run(t, b.environ, "backup", backup, "--force"); got.Code != exit.Done {
				t.Fatalf("%+v", got)
			}
			b.published(time.Now()) // or the backup would not be older than the stream
			return
		}
		b.kill(0)
		b.suffer(what, backup)
		if alone {
			b.far.Stop()
		}
		b.launchPerhapsUp(0)
		if alone {
			if what == "restore" { // a store that has never watched an agency reads the stream first
				b.goesOn(40 + rand.N(40))
			}
			b.far.Start(t)
		}
	})
	b.judge(0)
}

// suffer makes one incident happen to the store of a killed daemon.
func (b *restless) suffer(what, backup string) {
	b.t.Helper()
	path := filepath.Join(b.dirs[0], daemon.StoreFile)
	var err error
	switch what {
	case "lose":
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) { // the start before did not come so far
			err = nil
		}
	case "restore":
		var text []byte
		if text, err = os.ReadFile(backup); err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
	}
	must(b.t, err)
}

// published waits until the stream holds a lead that was made after a moment.
func (b *restless) published(after time.Time) {
	b.t.Helper()
	_, js := doorbelltest.Connected(b.t, b.far.URL())
	doorbelltest.Eventually(b.t, "later leads are published", func() bool {
		s, err := js.Stream(b.t.Context(), "LISTINGS")
		if err != nil {
			return false
		}
		m, err := s.GetLastMsgForSubject(b.t.Context(), "listings.v1.*.contact_request.created")
		var lead struct{ CreatedAt time.Time }
		return err == nil && json.Unmarshal(m.Data, &lead) == nil && lead.CreatedAt.After(after)
	})
}

// TestTwoDoorbellsOnTheSameAgenciesLoseAndDoubleNoLead lets two publish to one stream, and kills
// them in turn. The long form is
// `go test ./cmd/doorbell/torture -run TestTwoDoorbells -rounds 12 -v`.
func TestTwoDoorbellsOnTheSameAgenciesLoseAndDoubleNoLead(t *testing.T) {
	t.Parallel()
	b := newRestless(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 3000, 300).outside()
	b.oracle.Several = true
	for n := range b.doorbells {
		b.launch(n)
		b.up(n)
	}
	turn := 0
	b.happen(strings.Fields(strings.Repeat("kill ", 10)), func(string) {
		b.goesOn(rand.N(80)) // the moment of the kill is the point of the test
		b.kill(turn)
		b.launch(turn)
		b.up(turn)
		turn = 1 - turn
	})
	b.judge(0)
	b.doorbells[1].Stop(t)
}
