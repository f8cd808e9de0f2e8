package forward

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// fifty are as many leads, told one by one.
func (w *world) fifty() {
	for range 50 {
		w.lead("A100")
	}
}

func TestAStateThatIsBehindItsConsumerDoublesNothing(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *world, path string){
		"it could not be written": func(t *testing.T, w *world, path string) {
			block := path + ".new"
			w.run(5*time.Minute, func() {
				if err := os.Mkdir(block, 0o700); err != nil {
					t.Fatal(err)
				}
				w.fifty()
			})
			if err := os.Remove(block); err != nil {
				t.Fatal(err)
			}
		},
		"it is that of a backup": func(t *testing.T, w *world, path string) {
			backup, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w.run(5*time.Minute, w.fifty)
			if err := os.WriteFile(path, backup, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScript("a", 1)
				w := newWorld(t, leadsTo(s))
				w.run(time.Second, func() { w.lead("A100") })
				spoil(t, w, filepath.Join(w.o.Dir, "forward-slack.json"))
				w.run(5*time.Minute, func() { w.lead("A100") })
				wantIDs(t, s, w.history)
			})
		})
	}
}

func TestACopyOfTheDirectoryBesideTheFirstDoublesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, second := newScript("a", 1), newScript("a", 1)
		w := newWorld(t, leadsTo(first))
		w.run(time.Second, func() { w.lead("A100") })
		state, err := os.ReadFile(filepath.Join(w.o.Dir, "forward-slack.json"))
		if err != nil {
			t.Fatal(err)
		}
		_, stopFirst := w.start()
		w.o.Dir, w.o.Routes = tempDir(t), []Route{leadsTo(second)}
		if err := os.WriteFile(filepath.Join(w.o.Dir, "forward-slack.json"), state, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		_, stopSecond := w.start()
		for range 20 {
			time.Sleep(30 * time.Second)
			w.lead("A100")
		}
		time.Sleep(30 * time.Second)
		if err := stopFirst(); err != nil {
			t.Error(err)
		}
		if err := stopSecond(); err != nil {
			t.Error(err)
		}
		if n := len(first.ids()) + len(second.ids()); n != len(w.history) {
			t.Errorf("%d leads were sent, of %d", n, len(w.history))
		}
		if n := strings.Count(w.log.String(), "events come from NATS again"); n > 300 { // in eleven minutes, by both
			t.Errorf("the consumer was made anew %d times", n)
		}
	})
}

func TestAStateThatCannotBeWrittenKeepsNobodyFromForwarding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		w.run(time.Second, func() { w.lead("A100") })
		if err := os.Mkdir(filepath.Join(w.o.Dir, "forward-slack.json.new"), 0o700); err != nil {
			t.Fatal(err)
		}
		w.run(5*time.Minute, func() { w.lead("A100") })
		wantIDs(t, s, w.history)
	})
}

func TestARestartBeforeTheFirstLeadLosesNoneOfADaemonWhoseClockIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		time.Sleep(time.Second)
		w.run(time.Second)
		w.run(time.Minute, func() {
			e := w.stamp(&events.ContactRequestCreated{Common: events.Common{AgencyID: "A100"}, ContactRequestID: "a"}, "A100")
			w.publish(e.Stamp(e.Sequence, time.Now().Add(-time.Minute), "store").WithSequence(e.Sequence))
		})
		wantIDs(t, s, w.history)
	})
}
