package torture

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
)

// away is the end of what happens while NATS is away.
const away = ", NATS away"

// TestAStoreThatIsLostOrRestoredAgainAndAgainLosesAndDoublesNoLead kills the daemon while leads go on, loses its store or puts a backup in
// its place, with NATS there or away at the next start, and gives no flag. The long form is
// `go test ./cmd/doorbell/torture -run TestAStoreThatIsLost -rounds 3 -v`.
func TestAStoreThatIsLostOrRestoredAgainAndAgainLosesAndDoublesNoLead(t *testing.T) {
	t.Parallel()
	far := doorbelltest.StartFar(t)
	b := doorbelltest.NewLeads(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 600) // each new store finds all of them again
	b.Environ = append(b.Environ, "NATS_URL="+far.URL())
	path, backup := filepath.Join(b.Dir, daemon.StoreFile), filepath.Join(t.TempDir(), "backup.db")
	p := doorbelltest.Launch(t, b.Environ, "run")
	doorbelltest.NatsURL(t, b.Dir)
	b.Begun()
	done := map[string]int{}
	// A store that begins again finds the leads of the last minutes, also those that the one before had lost. So the last one is restored.
	happenings := []string{
		"back up", "lose", "restore", "lose" + away, "restore" + away, "lose", "kill" + away, "back up", "kill", "restore" + away,
	}
	begin := time.Now()
	for n := range len(happenings) * *rounds {
		done[happenings[n%len(happenings)]]++
		what, alone := strings.CutSuffix(happenings[n%len(happenings)], away)
		b.GoesOn(t, rand.N(80)) // the moment is the point of the test
		if what == "back up" {
			doorbelltest.NatsURL(t, b.Dir)
			b.GoesOn(t, 20)
			if got := doorbelltest.Run(t, b.Environ, "backup", backup, "--force"); got.Code != exit.Done {
				t.Fatalf("%+v", got)
			}
			published(t, far, time.Now()) // or the backup would not be older than the stream
			continue
		}
		p.End(t, syscall.SIGKILL)
		if err := suffer(what, path, backup); err != nil {
			t.Fatal(err)
		}
		if alone {
			far.Stop()
		}
		p = doorbelltest.Launch(t, b.Environ, "run")
		if rand.N(2) == 0 { // or on a busy machine all that follows would hit a start
			doorbelltest.NatsURL(t, b.Dir)
		}
		if alone {
			if what == "restore" { // a store that has never watched an agency asks the stream first
				b.GoesOn(t, 40+rand.N(40))
			}
			far.Start(t)
		}
	}
	defer logIfFailed(t, p)
	events := b.Judge(t, p, far.URL())
	t.Logf("%v in %s, %d events", done, time.Since(begin).Round(time.Second), events)
}

// logIfFailed shows what daemons have logged, which holds no person.
func logIfFailed(t *testing.T, list ...*doorbelltest.Child) {
	if t.Failed() {
		for _, c := range list {
			t.Log(c.Stderr.String())
		}
	}
}

// published waits until the stream holds a lead that was made after a moment.
func published(t *testing.T, far *doorbelltest.FarServer, after time.Time) {
	t.Helper()
	_, js := doorbelltest.Connected(t, far.URL())
	doorbelltest.Eventually(t, "later leads are published", func() bool {
		s, err := js.Stream(t.Context(), "LISTINGS")
		if err != nil {
			return false
		}
		m, err := s.GetLastMsgForSubject(t.Context(), "listings.v1.*.contact_request.created")
		if err != nil {
			return false
		}
		var lead struct{ CreatedAt time.Time }
		return json.Unmarshal(m.Data, &lead) == nil && lead.CreatedAt.After(after)
	})
}

// suffer lets one thing happen to the store of a daemon that was killed.
func suffer(what, path, backup string) error {
	switch what {
	case "lose":
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) { // the start before did not come so far
			return err
		}
	case "restore":
		text, err := os.ReadFile(backup)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		return err
	}
	return nil
}

// TestTwoDoorbellsOnTheSameAgenciesLoseAndDoubleNoLead lets two publish to one stream, and kills them in turn. The long form is
// `go test ./cmd/doorbell/torture -run TestTwoDoorbells -rounds 12 -v`.
func TestTwoDoorbellsOnTheSameAgenciesLoseAndDoubleNoLead(t *testing.T) {
	t.Parallel()
	far := doorbelltest.StartFar(t)
	b := doorbelltest.NewRestless(t, 1, sandbox.Flat(), doorbelltest.ShortDir(t), 3000)
	b.OfSeveral()
	b.Environ = append(b.Environ, "NATS_URL="+far.URL())
	dirs := [2]string{b.Dir, doorbelltest.ShortDir(t)}
	launch := func(n int) *doorbelltest.Child {
		return doorbelltest.Launch(t, append(b.Environ[:len(b.Environ):len(b.Environ)], "DOORBELL_DATA_DIR="+dirs[n]), "run")
	}
	both := [2]*doorbelltest.Child{launch(0)}
	doorbelltest.NatsURL(t, dirs[0])
	b.Begun()
	both[1] = launch(1)
	doorbelltest.NatsURL(t, dirs[1])
	kills, begin := 10**rounds, time.Now()
	for n := range kills {
		b.GoesOn(t, rand.N(80)) // the moment of the kill is the point of the test
		both[n%2].End(t, syscall.SIGKILL)
		both[n%2] = launch(n % 2)
		doorbelltest.NatsURL(t, dirs[n%2])
	}
	defer logIfFailed(t, both[:]...)
	events := b.Judge(t, both[0], far.URL())
	both[1].Stop(t)
	t.Logf("%d kills in %s, %d events", kills, time.Since(begin).Round(time.Second), events)
}
