package forward

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

func TestTheStateIsForNobodyElseToRead(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Minute, func() { w.lead("A100") })
		path := filepath.Join(w.o.Dir, "forward", "slack.json")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v %v", info.Mode(), err)
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "ecret") || !strings.Contains(string(text), `"tables":[{"from":"`) {
			t.Errorf("%s %v", text, err)
		}
	})
}

func TestASecondForwarderOfTheSameNameIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, leadsTo(newScript("a", 20)))
		first := w.forwarder()
		if _, err := New(w.o); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "slack") {
			t.Fatal(err)
		}
		first.Close()
		w.forwarder().Close()
	})
}

func TestADamagedStateIsRefusedAndLeftAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, leadsTo(newScript("a", 20)))
		path := filepath.Join(w.o.Dir, "forward", "slack.json")
		w.must(os.MkdirAll(filepath.Dir(path), 0o700))
		const rules = `"tables":[{"rules":[]}]`
		for _, text := range []string{
			"", "{", "null", `{"version":3,"name":"slack"}`, `{"version":3,"name":"mail",` + rules + `}`,
			`{"version":2,"name":"slack",` + rules + `}`, `{"version":3,"name":"slack",` + rules + `}x`,
		} {
			w.must(os.WriteFile(path, []byte(text), 0o600))
			if _, err := New(w.o); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", text, err)
			}
			if now, _ := os.ReadFile(path); string(now) != text {
				t.Errorf("%s became %s", text, now)
			}
		}
	})
}

// TestTwoDoorbellsWithTheSameReceiversDoNotTakeEachOthersLeads has two with disjoint agencies on one
// stream. The second is refused until it has a name of its own.
func TestTwoDoorbellsWithTheSameReceiversDoNotTakeEachOthersLeads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := newScript("a", 1), newScript("a", 1)
		w := newWorld(t, leadsTo(one))
		w.o.Agencies = func() []string { return []string{"A100"} }
		w.start()
		w.o.Routes, w.o.Dir = []Route{leadsTo(two)}, t.TempDir()
		w.o.Agencies = func() []string { return []string{"B 200"} }
		second, stop := w.start()
		w.lead("A100")
		time.Sleep(2 * time.Second)
		if p := second.Status()[0].Problem; !strings.Contains(p, "DOORBELL_INSTANCE") {
			t.Errorf("the second one says %q", p)
		}
		w.must(stop())
		w.o.Instance, w.o.Dir = "second", t.TempDir()
		w.start()
		of := map[string][]events.Event{"A100": w.history}
		for range 20 {
			for _, agency := range []string{"A100", "B 200"} {
				of[agency] = append(of[agency], w.lead(agency))
			}
		}
		time.Sleep(time.Minute)
		wantIDs(t, one, of["A100"])
		wantIDs(t, two, of["B 200"])
	})
}

func TestAClockThatIsAheadLosesNothingOfAnAgencyThatIsAdded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, leadsTo(s, "A100"))
		w.run(time.Minute, func() { w.lead("A100") })
		w.lead("B200")
		time.Sleep(time.Second)
		w.o.Routes = []Route{leadsTo(s, "A100", "B200")}
		w.start(func(f *Forwarder) { f.tables.Tables[1].From = time.Now().Add(time.Hour) })
		time.Sleep(time.Second)
		w.lead("B200")
		time.Sleep(time.Minute)
		wantIDs(t, s, []events.Event{w.history[0], w.history[2]})
	})
}

// TestAMessageLostOnTheWayIsNotDoneWithThoseBehindIt has messages that the server has sent and the
// worker never got, as when a connection breaks and is restored. The server offers them again after
// half a minute, when the worker has delivered more behind them than a checkpoint lists.
func TestAMessageLostOnTheWayIsNotDoneWithThoseBehindIt(t *testing.T) {
	for _, digest := range []int{1, 200} {
		scene(t, digest, func(t *testing.T, w *world, s *script) {
			s.traits.Pace = 20 * time.Millisecond
			s.will(func(d Delivery) error {
				if d.Events[0].Sequence > 1 {
					return nil
				}
				w.leads(3*recent, "A100")
				c, err := w.js.Consumer(t.Context(), "LISTINGS", consumer("a"))
				w.must(err)
				lost, err := c.FetchNoWait(3)
				w.must(err)
				n := 0
				for range lost.Messages() {
					n++
				}
				if n != 3 {
					t.Errorf("%d messages are lost", n)
				}
				return nil
			})
			w.run(2*time.Minute, func() { w.lead("A100") })
			ids := map[string]bool{}
			for _, id := range s.ids() {
				ids[id] = true
			}
			if len(ids) != len(w.history) || len(s.ids()) != len(ids) {
				t.Errorf("%d deliveries of %d leads, of %d", len(s.ids()), len(ids), len(w.history))
			}
		})
	}
}

// TestWhatFailsIsShown has a stream that is missing for minutes, and a receiver that is down.
func TestWhatFailsIsShown(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.must(w.js.DeleteStream(t.Context(), "LISTINGS"))
		f, _ := w.start()
		time.Sleep(20 * time.Second) // it may be just being made
		if p := f.Status()[0].Problem; p != "" || strings.Contains(w.log.String(), "WARN") {
			t.Errorf("%s, %s", p, w.log.String())
		}
		time.Sleep(10 * time.Minute)
		if p := f.Status()[0].Problem; !strings.Contains(p, "missing") || strings.Count(w.log.String(), "no events from NATS; retrying") != 1 {
			t.Errorf("%s, %s", p, w.log.String())
		}
		w.makeStream()
		s.down()
		w.leads(2, "A100")
		time.Sleep(time.Hour)
		st := f.Status()[0]
		if st.Waiting != 2 || st.LastError != "down" || st.Attempts < 10 || st.Failed["busy"] < uint64(st.Attempts) ||
			st.DeadLetters != 0 || time.Since(st.FailingSince) < 55*time.Minute || s.called() > 60 {
			t.Errorf("%+v, called %d times", st, s.called())
		}
		s.up()
		time.Sleep(7 * time.Minute)
		if st := f.Status()[0]; st.Waiting != 0 || st.LastError != "" || st.Events != 2 || st.Attempts != 0 || !st.FailingSince.IsZero() {
			t.Errorf("%+v", st)
		}
	})
}

func TestErrorsOfReceiversAreNotQuotedUnlessTheyAreOurs(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		s.will(func(Delivery) error { return fmt.Errorf("Post https://hooks.example/s3cret: %w", context.Canceled) })
		f, stop := w.start()
		w.lead("A100")
		time.Sleep(time.Minute)
		text := fmt.Sprintf("%+v", f.Status())
		w.must(stop())
		if strings.Contains(text+w.log.String(), "s3cret") {
			t.Error("a secret is shown")
		}
		s.will(func(Delivery) error {
			return &Refused{Certain: true, Reason: "ä\r\nx: y" + strings.Repeat("z", 10_000)}
		})
		w.run(10 * time.Minute)
		if l := w.letters(); len(l) != 1 || strings.ContainsAny(l[0].Reason, "\r\nä") || len(l[0].Reason) > 300 {
			t.Errorf("%+v", l)
		}
	})
}
