package forward

import (
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// Two people of a line get other addresses at once. The mailbox of the second is full: one lead has
// reached the first only.
func TestWhatWaitsAtTheSecondOfTwoAddressesMovesToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := newScript("one", 1), newScript("two", 1)
		w := newWorld(t, leadsTo(one), leadsTo(two))
		two.will(func(Delivery) error { return &Retry{Receiver: true, Reason: "full"} })
		w.run(time.Minute, func() { w.lead("A100") })
		w.lead("A100")
		w.o.Routes = nil
		var moved []*script
		for _, name := range []string{"three", "four", "five"} {
			moved = append(moved, newScript(name, 1))
			w.o.Routes = append(w.o.Routes, leadsTo(moved[len(moved)-1]))
		}
		w.run(time.Minute, func() { w.lead("A100") })
		wantAll(t, one, w.history[:1])
		wantAll(t, moved[0], w.history[1:])
		wantAll(t, moved[1], w.history)
		wantAll(t, moved[2], w.history)
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

func TestADeadLetterIsDone(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.refuse(s, 2)
		w.rebuild()
		w.run(time.Minute, func() { w.lead("A 1") })
		wantIDs(t, s, w.history[2:])
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

// TestADoorbellThatGetsAnotherNameGoesOnWhereItStopped renames it while a lead waits. Its consumers keep their names.
func TestADoorbellThatGetsAnotherNameGoesOnWhereItStopped(t *testing.T) {
	for _, renamed := range [][2]string{{"", "staging"}, {"staging", "production"}, {"staging", ""}} {
		scene(t, 20, func(t *testing.T, w *world, s *script) {
			w.o.Instance = renamed[0]
			w.run(time.Minute, func() { w.lead("A100") })
			before := consumerNames(t, w)
			if want := strings.Replace(consumer("a"), "doorbell-", strings.TrimSuffix("doorbell-"+renamed[0], "-")+"-", 1); !slices.Contains(before, want) {
				t.Errorf("the consumers are %v, want %s", before, want)
			}
			w.lead("A100")
			w.o.Instance = renamed[1]
			w.run(time.Minute, func() { w.lead("A100") })
			wantIDs(t, s, w.history)
			if after := consumerNames(t, w); !slices.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
		})
	}
}

// line is a route of a line of the table.
func line(n int, r Receiver, agencies ...string) Route {
	return Route{Receiver: r, Line: n, Filter: Filter{Types: []string{"contact_request.created"}, Agencies: agencies}}
}

// TestATableThatIsEditedWhileLeadsWaitFloodsAndSkipsNothing changes the lines while the receivers take
// nothing, with leads waiting, and wants each lead once, where the last table sends it.
func TestATableThatIsEditedWhileLeadsWaitFloodsAndSkipsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(a, b, c, d Receiver) []Route
		want          map[string]string // the receiver that gets the waiting lead of an agency
	}{
		"a line is inserted above": {
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a, "A"), line(2, b)} },
			func(a, b, c, _ Receiver) []Route { return []Route{line(1, c, "A"), line(2, a, "A"), line(3, b)} },
			map[string]string{"A": "c", "B": "b"},
		},
		"two are swapped": {
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a, "A"), line(2, b)} },
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, b), line(2, a, "A")} },
			map[string]string{"A": "b", "B": "b"},
		},
		"an address is replaced": {
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a, "A"), line(2, b)} },
			func(_, b, c, _ Receiver) []Route { return []Route{line(1, c, "A"), line(2, b)} },
			map[string]string{"A": "c", "B": "b"},
		},
		"a line goes": {
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a, "A"), line(2, b)} },
			func(_, b, _, _ Receiver) []Route { return []Route{line(1, b)} },
			map[string]string{"A": "b", "B": "b"},
		},
		"two recipients become two others": {
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a), line(1, b)} },
			func(_, _, c, d Receiver) []Route { return []Route{line(1, c), line(1, d)} },
			map[string]string{"A": "c d", "B": "c d"},
		},
		"one of two recipients is replaced": {
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a), line(1, b)} },
			func(_, b, c, _ Receiver) []Route { return []Route{line(1, c), line(1, b)} },
			map[string]string{"A": "b c", "B": "b c"},
		},
		"a kind takes the place of another": {
			func(a, _, _, d Receiver) []Route { return []Route{line(1, a, "A"), of("email", line(2, d, "B"))} },
			func(a, _, c, _ Receiver) []Route { return []Route{of("email", line(1, c, "A")), line(2, a, "B")} },
			map[string]string{"A": "c", "B": "a"},
		},
		"one of two kinds goes": {
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a), of("email", line(1, b))} },
			func(_, _, c, _ Receiver) []Route { return []Route{of("email", line(1, c))} },
			map[string]string{"A": "c", "B": "c"},
		},
		"each kind gets another address": {
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a), of("email", line(2, b))} },
			func(_, _, c, d Receiver) []Route { return []Route{of("email", line(1, d)), line(2, c)} },
			map[string]string{"A": "c d", "B": "c d"},
		},
		"a kind is added": {
			func(a, _, _, _ Receiver) []Route { return []Route{line(1, a)} },
			func(a, b, _, _ Receiver) []Route { return []Route{of("email", line(1, b)), line(2, a)} },
			map[string]string{"A": "a", "B": "a"},
		},
		"a recipient is added": {
			func(a, _, _, _ Receiver) []Route { return []Route{line(1, a)} },
			func(a, b, _, _ Receiver) []Route { return []Route{line(1, a), line(1, b)} },
			map[string]string{"A": "a", "B": "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				all := map[string]*script{}
				for _, n := range []string{"a", "b", "c", "d"} {
					all[n] = newScript(n, 1)
					all[n].down()
				}
				w := newWorld(t, c.before(all["a"], all["b"], all["c"], all["d"])...)
				w.o.Forwarders = []string{"slack", "email"}
				f, stop := w.start()
				w.lead("A")
				w.lead("B")
				time.Sleep(time.Minute)
				for _, s := range all {
					s.up()
				}
				w.o.Routes = c.after(all["a"], all["b"], all["c"], all["d"])
				w.reroute(f, w.o.Routes...)
				time.Sleep(15 * time.Minute)
				w.must(stop())
				w.rebuild()
				w.run(15 * time.Minute)
				for n, s := range all {
					var want []events.Event
					for _, e := range w.history {
						if strings.Contains(c.want[e.AgencyID], n) {
							want = append(want, e)
						}
					}
					wantAll(t, s, want)
				}
			})
		})
	}
}

func TestALineThatIsPutBackLaterBringsNothingOld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript("a", 1), newScript("b", 1)
		both := []Route{line(1, a, "A"), line(2, b)}
		w := newWorld(t, both...)
		w.o.Retention = 24 * time.Hour
		w.run(time.Minute, func() { w.lead("A") })
		w.o.Routes = both[1:]
		w.run(15*time.Minute, func() { w.lead("A") })
		time.Sleep(48 * time.Hour) // longer than a consumer is kept that is not used
		w.lead("A")                // waits, and so it goes where the table sends it now
		time.Sleep(time.Second)
		w.o.Routes = both
		w.run(2*time.Minute, func() { w.lead("A") })
		wantAll(t, a, []events.Event{w.history[0], w.history[2], w.history[3]})
		wantAll(t, b, w.history[1:2])
	})
}

// TestATableThatIsReadWhileNATSIsAwayDecidesFromThenOn has the events of the outage come when NATS is
// back, and before the forwarder has attached.
func TestATableThatIsReadWhileNATSIsAwayDecidesFromThenOn(t *testing.T) {
	for name, inPlace := range map[string]bool{"in place": true, "by a restart": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a, b := newScript("a", 1), newScript("b", 1)
				w := newWorld(t, line(1, a))
				f, stop := w.start()
				w.lead("A")
				time.Sleep(time.Minute)
				w.must(w.js.DeleteStream(t.Context(), "LISTINGS"))
				before := w.stampLead("A")
				w.history = append(w.history, before)
				time.Sleep(time.Second)
				w.o.Routes = []Route{line(1, b, "A"), line(2, a)}
				if inPlace {
					w.reroute(f, w.o.Routes...)
				} else if err := stop(); err != nil {
					t.Fatal(err)
				} else {
					w.start()
				}
				time.Sleep(10 * time.Minute)
				after := w.stampLead("A")
				w.makeStream()
				w.put(before, nil)
				w.publish(after)
				time.Sleep(2 * time.Minute)
				wantAll(t, a, w.history[:1])
				wantAll(t, b, w.history[1:])
			})
		})
	}
}

func TestALeadThatNoLineTakesAnyMoreWaitsAndIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript("a", 1), newScript("b", 1)
		a.down()
		w := newWorld(t, line(1, a))
		w.run(time.Minute, func() {
			w.lead("A")
			w.lead("B")
		})
		time.Sleep(time.Second)
		w.o.Routes = []Route{line(1, b, "B")}
		f, stop := w.start()
		time.Sleep(time.Hour)
		lost := uint64(0)
		for _, s := range f.Status() {
			lost += s.Lost
		}
		if lost != 1 {
			t.Errorf("%d leads are counted", lost)
		}
		w.must(stop())
		wantAll(t, b, w.history[1:])
		w.o.Routes = []Route{line(1, b)}
		w.run(time.Hour)
		wantAll(t, b, w.history)
	})
}
