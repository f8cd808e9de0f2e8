package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go/jetstream"
)

// of has a route belong to another forwarder than the usual one.
func of(forwarder string, r Route) Route {
	r.Forwarder = forwarder
	return r
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

// TestALeadThatNoLineTakesIsCountedUntilOneDoes restarts between the steps too, as a daemon does.
func TestALeadThatNoLineTakesIsCountedUntilOneDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript("a", 1), newScript("b", 1)
		w := newWorld(t, line(1, a, "A100"))
		w.o.Untaken = true
		w.o.Agencies = func() []string { return []string{"A100", "B200"} }
		w.lead("B200") // before there were routes
		time.Sleep(time.Second)
		f, stop := w.start()
		counts := func(want uint64, when string) {
			t.Helper()
			for _, s := range f.Status() {
				if s.Destination == "" && (s.Lost != want || s.Problem != "") {
					t.Errorf("%s: %+v", when, s)
				}
			}
		}
		time.Sleep(2 * time.Second)
		w.lead("A100")
		w.halt("B200", "k")
		w.lead("C300") // another doorbell's
		time.Sleep(time.Minute)
		counts(0, "all are taken")
		for _, name := range consumerNames(t, w) { // the one that is made again begins with the stream
			w.must(w.js.DeleteConsumer(t.Context(), "LISTINGS", name))
		}
		time.Sleep(time.Minute)
		counts(0, "a consumer that was made again")
		w.lead("B200")
		w.lead("B200")
		time.Sleep(2 * time.Second)
		counts(2, "two")
		w.reroute(f, line(1, a, "A100"), line(2, b, "X"))
		time.Sleep(time.Minute)
		counts(2, "another line")
		w.must(stop())
		f, _ = w.start()
		time.Sleep(time.Minute)
		counts(2, "after a restart")
		w.erase(1)
		time.Sleep(time.Minute)
		counts(1, "after an erasure")
		w.reroute(f, line(1, a, "A100"), line(2, b, "B200"))
		time.Sleep(time.Minute)
		counts(0, "a line that fits")
		w.lead("B200")
		time.Sleep(time.Minute)
		wantIDs(t, a, w.history[1:2])
		wantIDs(t, b, w.history[len(w.history)-1:]) // nothing old
	})
}

// TestTwoDoorbellsWithOtherReceiversNeedNoNames has each count its own leads that no line takes.
func TestTwoDoorbellsWithOtherReceiversNeedNoNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, line(1, newScript("a", 1), "A"))
		w.o.Untaken = true
		var all []*Forwarder
		for n, agency := range []string{"B", "C"} {
			w.o.Dir, w.o.Agencies = t.TempDir(), func() []string { return []string{agency} }
			w.o.Routes = []Route{line(1, newScript([]string{"a", "b"}[n], 1), "A")}
			f, _ := w.start()
			all = append(all, f)
		}
		time.Sleep(2 * time.Second)
		w.lead("B")
		w.lead("C")
		time.Sleep(2 * time.Second)
		for _, f := range all {
			for _, s := range f.Status() {
				if s.Problem != "" || s.Destination == "" && s.Lost != 1 {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}

// TestLeadsThatNoLineTakesAnyMoreHoldUpNoOther has more of them than a worker fetches.
func TestLeadsThatNoLineTakesAnyMoreHoldUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript("a", 1), newScript("b", 1)
		a.down()
		w := newWorld(t, line(1, a))
		f, _ := w.start()
		w.leads(maxPending+5, "A")
		last := w.lead("B")
		time.Sleep(time.Second)
		w.reroute(f, line(1, b, "B"))
		time.Sleep(2 * time.Minute)
		wantIDs(t, b, []events.Event{last})
	})
}

// TestTheReceiverOfALineThatIsGoneStaysWhileThePublisherIsBehind has the lead come late.
func TestTheReceiverOfALineThatIsGoneStaysWhileThePublisherIsBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript("a", 1), newScript("b", 1)
		w := newWorld(t, line(1, a))
		var behind atomic.Bool
		behind.Store(true)
		w.o.Behind = behind.Load
		f, stop := w.start()
		late := w.stampLead("A")
		time.Sleep(time.Second)
		w.reroute(f, line(1, b))
		time.Sleep(2 * leaving)
		w.publish(late)
		time.Sleep(time.Minute)
		wantIDs(t, b, []events.Event{late})
		behind.Store(false)
		time.Sleep(leaving + time.Minute)
		w.must(stop())
		if names := consumerNames(t, w); !slices.Equal(names, []string{consumer("b")}) {
			t.Errorf("consumers %q", names)
		}
	})
}

// TestAReceiverThatIsGoneForGoodMayComeBack puts a line back whose consumer has been deleted.
func TestAReceiverThatIsGoneForGoodMayComeBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript("a", 1), newScript("b", 1)
		w := newWorld(t, line(1, a))
		f, _ := w.start()
		w.reroute(f, line(1, b))
		time.Sleep(leaving + time.Minute)
		for _, worker := range f.Status() {
			if time.Since(worker.Turned) > time.Minute {
				t.Errorf("the status lists a worker that runs no more: %+v", worker)
			}
		}
		w.lead("A")
		time.Sleep(time.Minute)
		w.reroute(f, line(1, a))
		time.Sleep(2 * time.Second)
		if c, err := w.js.Consumer(t.Context(), "LISTINGS", consumer("a")); err != nil || c.CachedInfo().Config.DeliverPolicy == jetstream.DeliverAllPolicy {
			t.Errorf("it reads what it has read before, or %v", err)
		}
		w.lead("A")
		time.Sleep(time.Minute)
		wantIDs(t, b, w.history[:1])
		wantIDs(t, a, w.history[1:])
	})
}

// TestAnAddressIsExchangedWithOneOfItsKind has the lead wait at one of two kinds that both get another.
func TestAnAddressIsExchangedWithOneOfItsKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, c, d := newScript("a", 1), newScript("b", 1), newScript("c", 1), newScript("d", 1)
		b.down()
		w := newWorld(t, line(1, a), of("email", line(2, b)))
		w.o.Forwarders = []string{"slack", "email"}
		f, _ := w.start()
		w.lead("A")
		time.Sleep(2 * time.Second)
		w.reroute(f, of("email", line(1, d)), line(2, c))
		time.Sleep(time.Minute)
		wantIDs(t, a, w.history)
		wantIDs(t, c, nil)
		wantIDs(t, d, w.history)
	})
}

func TestTypesThatAreAddedBeginWithWhatIsNew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, line(1, s))
		f, _ := w.start()
		gone := func() {
			w.publish(w.stamp(&events.InsertionDisappeared{Common: events.Common{AgencyID: "A", ObservedAt: time.Now()}, PropertyReferenceID: fmt.Sprint(len(w.history))}))
		}
		w.lead("A")
		gone()
		time.Sleep(time.Second)
		more := line(1, s)
		more.Filter.Types = []string{"contact_request.created", "insertion.>"}
		w.reroute(f, more)
		time.Sleep(time.Minute)
		gone()
		time.Sleep(time.Minute)
		wantIDs(t, s, []events.Event{w.history[0], w.history[2]})
	})
}

func TestRoutesThatCannotWorkChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newScript("a", 1)
		w := newWorld(t, line(1, a))
		f, _ := w.start()
		odd := line(1, a)
		odd.Filter.Types = []string{"lead"}
		if err := f.Change([]Route{odd}, time.Now()); !errors.Is(err, ErrOptions) {
			t.Error(err)
		}
		w.lead("A")
		time.Sleep(time.Minute)
		wantIDs(t, a, w.history)
	})
}

// TestALeadThatTwoAddressesTakeOverComesToEachOnce changes the table while the second of them is down.
func TestALeadThatTwoAddressesTakeOverComesToEachOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, c, d := newScript("a", 1), newScript("c", 1), newScript("d", 1)
		a.down()
		d.down()
		w := newWorld(t, line(1, a))
		f, _ := w.start()
		w.lead("A")
		time.Sleep(2 * time.Second)
		w.reroute(f, line(1, c), line(1, d))
		time.Sleep(2 * time.Minute)
		w.reroute(f, line(1, c), line(1, d), line(2, a, "X"))
		time.Sleep(2 * time.Minute)
		d.up()
		time.Sleep(10 * time.Minute)
		wantIDs(t, c, w.history)
		wantIDs(t, d, w.history)
	})
}

// TestATableThatChangesBeforeTheForwarderHasBegunLosesNothing has the lead come to a stream that was just made.
func TestATableThatChangesBeforeTheForwarderHasBegunLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript("a", 1), newScript("b", 1)
		w := newWorld(t, line(1, a))
		w.must(w.js.DeleteStream(t.Context(), "LISTINGS"))
		f, _ := w.start()
		time.Sleep(time.Minute)
		w.makeStream()
		w.lead("A")
		time.Sleep(time.Millisecond) // in a longer time the forwarder may begin, and deliver to a
		w.reroute(f, line(1, b))
		time.Sleep(time.Minute)
		wantIDs(t, b, w.history)
	})
}
