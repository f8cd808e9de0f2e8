package forward

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// line is a route of a line of the table.
func line(n int, r Receiver, agencies ...string) Route {
	return Route{Receiver: r, Line: n, Filter: Filter{Types: []string{"contact_request.created"}, Agencies: agencies}}
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

// reroute puts other routes into force while a forwarder runs.
func (w *world) reroute(f *Forwarder, routes ...Route) {
	w.t.Helper()
	w.must(f.Change(routes, time.Now()))
}

// TestWhatIsChangedInPlaceGoesOn has one receiver keep what it knows over two changes of the table.
func TestWhatIsChangedInPlaceGoesOn(t *testing.T) {
	other, cut := newScript("other", 1), false
	for name, c := range map[string]struct {
		answer error
		pace   func(context.Context) // of a Send
		wait   time.Duration         // before the changes
		check  func(t *testing.T, s *script, st WorkerStatus)
	}{
		"Retry-After": {
			answer: &Retry{After: 30 * time.Minute, Reason: "429"},
			check: func(t *testing.T, s *script, _ WorkerStatus) {
				if s.called() != 1 {
					t.Errorf("called %d times in its half an hour", s.called())
				}
			},
		},
		"what is perhaps delivered": {
			answer: &Retry{Unanswered: true, Reason: "no answer in time"}, wait: 2 * time.Second,
			check: func(t *testing.T, s *script, st WorkerStatus) {
				if s.called() != unanswered || st.DeadLetters != 1 {
					t.Errorf("called %d times, %d dead letters", s.called(), st.DeadLetters)
				}
			},
		},
		"since when it fails": {
			answer: &Retry{Receiver: true, Reason: "404"}, wait: time.Minute,
			check: func(t *testing.T, _ *script, st WorkerStatus) {
				if time.Since(st.FailingSince) < 20*time.Minute || time.Since(st.WaitingSince) < 20*time.Minute {
					t.Errorf("%+v", st)
				}
			},
		},
		"a send in hand": {
			pace: func(ctx context.Context) { cut = !sleep(ctx, 50*time.Second) }, wait: time.Second,
			check: func(t *testing.T, s *script, st WorkerStatus) {
				if s.called() != 1 || len(s.ids()) != 1 || st.Events != 1 || cut {
					t.Errorf("called %d times, took %d, cut: %v", s.called(), len(s.ids()), cut)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScript("a", 1)
				s.wait = c.pace
				s.will(func(Delivery) error { return c.answer })
				w := newWorld(t, line(1, s))
				f, _ := w.start()
				w.lead("A100")
				time.Sleep(c.wait)
				w.reroute(f, line(1, other, "Z"), line(2, s))
				time.Sleep(90 * time.Second)
				w.reroute(f, line(1, s))
				time.Sleep(25 * time.Minute)
				c.check(t, s, f.Status()[0])
			})
		})
	}
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
		for range 20 {
			w.lead("A100")
			w.lead("B 200")
		}
		time.Sleep(time.Minute)
		var ofOne, ofTwo []events.Event
		for _, e := range w.history {
			if e.AgencyID == "A100" {
				ofOne = append(ofOne, e)
			} else {
				ofTwo = append(ofTwo, e)
			}
		}
		wantIDs(t, one, ofOne)
		wantIDs(t, two, ofTwo)
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

func TestClocksMayDiffer(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Minute, func() {
			for n := range 3 { // of a daemon whose clock is behind
				e := w.stamp(&events.ContactRequestCreated{Common: events.Common{AgencyID: "A100"}, ContactRequestID: string(rune('a' + n))})
				w.publish(e.Stamp(e.Sequence, time.Now().Add(-time.Hour), "store"))
				time.Sleep(5 * time.Second)
			}
		})
		wantIDs(t, s, w.history)
	})
}

func TestWhatComesFromTheMomentOfTheOptionsOnIsNew(t *testing.T) {
	scene(t, 1, func(t *testing.T, w *world, s *script) {
		w.lead("A100")
		time.Sleep(time.Minute) // virtual: nobody forwards yet
		w.o.Since = time.Now()
		want := []events.Event{w.lead("A100")}
		time.Sleep(8 * time.Second) // virtual, as the forwarder begins later than the daemon
		w.run(time.Minute, func() { want = append(want, w.lead("A100")) })
		wantIDs(t, s, want)
	})
}
