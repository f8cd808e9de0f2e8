package forward

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"doorbell/events"
)

func TestWhatWaitsMovesToTheNewAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := newScript("one", 20), newScript("two", 20)
		w := newWorld(t, leadsTo(one))
		w.lead("A100")
		time.Sleep(time.Second)
		w.run(time.Minute, func() { w.lead("A100") })
		one.down()
		w.run(time.Minute, func() { w.lead("A100") })
		w.lead("B200")
		w.o.Routes = []Route{leadsTo(two)} // the URL of the channel is another one now
		w.run(time.Minute, func() { w.lead("A100") })
		wantIDs(t, one, w.history[1:2])
		wantAll(t, two, w.history[2:])
		w.rebuild()
		w.run(time.Minute)
		wantAll(t, two, w.history[2:])
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
		f, stop := w.start(func(f *Forwarder) {
			f.tables.Tables[1].From = time.Now().Add(time.Hour)
		})
		time.Sleep(time.Second)
		w.lead("B200")
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err, f.Status())
		}
		wantIDs(t, s, []events.Event{w.history[0], w.history[2]})
	})
}

func TestAClockThatIsAheadLosesNothingOfAnAgencyThatIsAddedWhileNATSIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, leadsTo(s, "A100"))
		w.run(time.Minute, func() { w.lead("A100") })
		if err := w.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
			t.Fatal(err)
		}
		before := w.stamp(&events.ContactRequestCreated{Common: events.Common{AgencyID: "B200", ObservedAt: time.Now()}, ContactRequestID: "1"})
		time.Sleep(time.Second)
		w.o.Routes = []Route{leadsTo(s, "A100", "B200")}
		w.start(func(f *Forwarder) {
			f.tables.Tables[1].From = time.Now().Add(time.Hour)
		})
		time.Sleep(20 * time.Minute)
		after := w.stamp(&events.ContactRequestCreated{Common: events.Common{AgencyID: "B200", ObservedAt: time.Now()}, ContactRequestID: "2"})
		time.Sleep(20 * time.Minute)
		w.makeStream()
		w.publish(before)
		w.publish(after)
		time.Sleep(time.Minute)
		wantIDs(t, s, []events.Event{w.history[0], after})
	})
}

func TestAnAgencyThatGetsAnAddressOfItsOwnTakesAlongWhatWaits(t *testing.T) {
	for _, order := range []string{"the old one last", "the old one first"} {
		t.Run(order, func(t *testing.T) { takesAlong(t, order == "the old one first") })
	}
}

func takesAlong(t *testing.T, oldFirst bool) {
	bubble(t, func(t *testing.T) {
		all, own := newScript("all", 20), newScript("own", 20)
		w := newWorld(t, leadsTo(all))
		w.run(time.Minute, func() {
			w.lead("A100")
			w.lead("B200")
		})
		w.lead("A100")
		w.lead("B200")
		rest := leadsTo(all)
		rest.Filter.Except = []string{"A100"}
		w.o.Routes = []Route{leadsTo(own, "A100"), rest}
		if oldFirst {
			slices.Reverse(w.o.Routes)
		}
		w.run(time.Minute, func() {
			w.lead("A100")
			w.lead("B200")
		})
		w.rebuild()
		w.run(time.Minute)
		wantIDs(t, own, []events.Event{w.history[2], w.history[4]})
		wantIDs(t, all, []events.Event{w.history[0], w.history[1], w.history[3], w.history[5]})
		// and back
		all.down()
		own.down()
		w.run(time.Minute, func() {
			w.lead("B200")
			w.lead("A100")
		})
		all.up()
		w.o.Routes = []Route{leadsTo(all)}
		w.run(10*time.Minute, func() { w.lead("A100") })
		wantIDs(t, own, []events.Event{w.history[2], w.history[4]})
		wantAll(t, all, []events.Event{w.history[0], w.history[1], w.history[3], w.history[5], w.history[6], w.history[7], w.history[8]})
		w.run(12 * time.Minute)
		names := consumerNames(t, w)
		if !slices.Equal(names, []string{consumer("all")}) {
			t.Errorf("consumers %q", names)
		}
	})
}

func TestWhatTheNewHomeHasPassedIsSentAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, c := newScript("a", 20), newScript("b", 20), newScript("c", 20)
		other := leadsTo(c, "C300") // so that the consumers keep their names
		w := newWorld(t, leadsTo(a, "A100"), leadsTo(b, "B200"), other)
		a.down()
		w.run(time.Minute, func() {
			w.lead("A100") // waits with a
			w.lead("B200") // b is past it
		})
		w.o.Routes = []Route{leadsTo(b, "A100", "B200"), other}
		w.run(time.Minute)
		wantIDs(t, b, []events.Event{w.history[1], w.history[0]})
	})
}

func TestAnAddressThatWasTakenAwayBeginsAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := newScript("one", 20), newScript("two", 20)
		w := newWorld(t, leadsTo(one, "A100"), leadsTo(two, "B200"))
		w.run(time.Minute, func() { w.lead("A100") })
		w.o.Routes = []Route{leadsTo(two, "B200")}
		w.run(time.Minute, func() { w.lead("A100"); w.lead("B200") })
		w.o.Routes = []Route{leadsTo(one, "A100"), leadsTo(two, "B200")}
		w.run(time.Minute, func() { w.lead("A100") })
		wantIDs(t, one, []events.Event{w.history[0], w.history[3]})
		wantIDs(t, two, []events.Event{w.history[2]})
	})
}

func TestAnAgencyThatIsAddedBringsNothingOld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("s", 20)
		w := newWorld(t, leadsTo(s, "A100"))
		w.run(time.Minute, func() {
			w.lead("A100")
			w.lead("B200")
			w.lead("C300")
		})
		w.o.Routes = []Route{leadsTo(s, "A100", "B200")}
		w.run(time.Minute, func() { w.lead("B200") })
		want := []events.Event{w.history[0], w.history[3]}
		wantIDs(t, s, want)
		w.rebuild()
		w.run(time.Minute)
		wantIDs(t, s, want)
		w.o.Routes = []Route{leadsTo(s)} // and now all
		w.run(time.Minute)
		w.rebuild()
		w.run(time.Minute, func() { w.lead("C300") })
		wantIDs(t, s, append(want, w.history[4]))
	})
}

// wantAll wants exactly these events, in any order: what waited at another address comes by another
// worker.
func wantAll(t *testing.T, s *script, want []events.Event) {
	t.Helper()
	var ids []string
	for _, e := range want {
		ids = append(ids, e.ID)
	}
	got := s.ids()
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("%s took %d events, want %d", s.traits.Destination, len(got), len(ids))
	}
}

func consumerNames(t *testing.T, w *world) (names []string) {
	t.Helper()
	s, err := w.js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.ConsumerNames(t.Context()).Name() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestAnotherAddressForAnotherAgencyInheritsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := newScript("one", 20), newScript("two", 20)
		w := newWorld(t, leadsTo(one, "A100"))
		w.run(time.Minute, func() { w.lead("A100") })
		w.lead("B200")
		time.Sleep(time.Second)
		w.o.Routes = []Route{leadsTo(two, "B200")} // its consumer has the name of the one before
		w.run(time.Minute, func() { w.lead("B200") })
		wantIDs(t, two, w.history[2:])
	})
}

func TestADeadLetterIsDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, leadsTo(s))
		w.refuse(s, 2)
		w.rebuild()
		w.run(time.Minute, func() { w.lead("A 1") })
		wantIDs(t, s, w.history[2:])
	})
}

func TestWhatWasNotWantedWhenItCameIsNotSentLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := newScript("one", 20), newScript("two", 20)
		least := func(score float64) []Route {
			r := leadsTo(one, "A100")
			r.Filter.MinScore = &score
			return []Route{r, leadsTo(two, "B200")}
		}
		w := newWorld(t, least(50)...)
		scored := func(score string) {
			w.publish(w.stamp(&events.ContactRequestCreated{
				Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, ContactRequestID: fmt.Sprint(len(w.history)), Score: []byte(score),
			}))
		}
		two.down()
		w.run(time.Minute, func() {
			w.lead("B200") // waits, so that all go back behind it
			scored("10")
			scored("60")
		})
		w.o.Routes = least(5)
		w.run(time.Minute, func() { scored("10") })
		wantIDs(t, one, w.history[2:])
		two.up()
		w.o.Routes = []Route{leadsTo(two, "B200")}
		w.run(time.Minute)
		w.o.Routes = least(5)
		w.run(time.Minute)
		wantIDs(t, one, w.history[2:])
		wantIDs(t, two, w.history[:1])
	})
}

func TestAStateThatIsBehindDoublesNothingThoughTheRoutesChangeToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("s", 1)
		w := newWorld(t, leadsTo(s, "A100"))
		w.run(time.Second, func() { w.lead("A100") })
		path := filepath.Join(w.o.Dir, "forward", "slack.s.leads.json")
		backup, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w.run(5*time.Minute, w.fifty)
		if err := os.WriteFile(path, backup, 0o600); err != nil {
			t.Fatal(err)
		}
		w.o.Routes = []Route{leadsTo(s, "A100", "B200")}
		w.run(5*time.Minute, func() {
			w.lead("A100")
			w.lead("B200")
		})
		wantIDs(t, s, w.history)
	})
}

func TestAChangeOfRoutesAfterTheStreamWasMadeAnewLosesNothingThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, c := newScript("a", 1), newScript("b", 1), newScript("c", 1)
		w := newWorld(t, leadsTo(a, "A100"), leadsTo(b, "B200"))
		w.run(5*time.Minute, func() {
			for range 20 {
				w.lead("A100")
				w.lead("B200")
			}
		})
		a.down()
		w.history = nil // the stream begins anew, and so do its numbers
		w.rebuild()
		w.run(5*time.Minute, func() {
			w.lead("A100")
			w.lead("B200")
			w.lead("B200")
		})
		w.o.Routes = []Route{leadsTo(c, "A100"), leadsTo(b, "B200")}
		w.run(5 * time.Minute)
		wantIDs(t, c, w.history[:1])
	})
}
