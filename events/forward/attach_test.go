package forward

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// file is that of the worker for the leads of receiver a.
func (w *world) file() string { return filepath.Join(w.o.Dir, "forward", "slack.a.leads.json") }

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
				spoil(t, w, w.file())
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
		state, err := os.ReadFile(w.file())
		if err != nil {
			t.Fatal(err)
		}
		_, stopFirst := w.start()
		w.o.Dir, w.o.Routes = t.TempDir(), []Route{leadsTo(second)}
		if err := os.MkdirAll(filepath.Dir(w.file()), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.file(), state, 0o600); err != nil {
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

func TestARestartBeforeTheFirstLeadLosesNoneOfADaemonWhoseClockIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		time.Sleep(time.Second)
		w.run(time.Second)
		w.run(time.Minute, func() {
			e := w.stamp(&events.ContactRequestCreated{Common: events.Common{AgencyID: "A100"}, ContactRequestID: "a"})
			w.publish(e.Stamp(e.Sequence, time.Now().Add(-time.Minute), "store"))
		})
		wantIDs(t, s, w.history)
	})
}

func TestWhatComesInTheFirstSecondIsNews(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		if err := w.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
			t.Fatal(err)
		}
		w.start()
		time.Sleep(300 * time.Millisecond) // the daemon makes the stream a little later than the forwarder begins
		w.makeStream()
		w.lead("A100")
		w.publish(w.stamp(&events.WatchBaselined{Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}}))
		time.Sleep(time.Minute)
		if len(s.ids()) != 2 {
			t.Errorf("%d of 2 events came", len(s.ids()))
		}
	})
}

// runIn has the forwarder with this directory at work.
func (w *world) runIn(dir string, meanwhile ...func()) {
	w.t.Helper()
	w.o.Dir = dir
	w.run(time.Minute, meanwhile...)
}

func TestAForwarderWithoutAStateOrWithAnOlderOneGoesOnWhereItsConsumerStands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		var want []events.Event
		one, two := w.o.Dir, t.TempDir()
		leads := func() { want = append(want, w.lead("A100"), w.lead("A100")) }
		w.runIn(one, leads)
		w.runIn(two, leads)
		w.runIn(two) // a consumer made again that has acknowledged nothing
		w.runIn(one, leads)
		wantIDs(t, s, want)
	})
}

func TestWhatComesFromTheMomentOfTheOptionsOnIsNew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		w.lead("A100")
		time.Sleep(time.Minute) // virtual: nobody forwards yet
		w.o.Since = time.Now()
		want := []events.Event{w.lead("A100")}
		time.Sleep(8 * time.Second) // virtual, as the forwarder begins later than the daemon
		w.run(time.Minute, func() { want = append(want, w.lead("A100")) })
		wantIDs(t, s, want)
	})
}
