package poller_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// readings answers requests for the list: show says what the reading with this number, beginning with 1, is answered.
func (w *world) readings(show func(n int) *sandbox.Fault) {
	var mu sync.Mutex
	var n int
	var now *sandbox.Fault
	w.model.SetFault(onList(func(c sandbox.Call) *sandbox.Fault {
		mu.Lock()
		defer mu.Unlock()
		if c.Query.Get("page") == "" {
			n++
			now = show(n)
		}
		return now
	}))
}

// shows is an answer with so many references of each kind on its one page.
func shows(of map[string]int) *sandbox.Fault {
	var records []string
	for kind, all := range of {
		for n := range all {
			records = append(records, fmt.Sprintf(`{"propertyReferenceId":"%s#%d##"}`, kind, n))
		}
	}
	return &sandbox.Fault{Body: fmt.Appendf(nil, `{"results":[%s],"total":%d}`, strings.Join(records, ","), len(records))}
}

func TestWhatAppearsIsToldWhereSomeReadingsDoNotShowIt(t *testing.T) {
	for name, between := range map[string]*sandbox.Fault{
		"every other reading lags":        shows(map[string]int{"a": 60}),
		"every other reading shows a few": shows(map[string]int{"a": 60, "c": 10}),
		"every other reading fails":       {Status: 500},
	} {
		for _, news := range []int{10, 40, 400} {
			if raced && news != 40 {
				continue
			}
			t.Run(fmt.Sprint(name, ", ", news), func(t *testing.T) {
				inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
					var grown atomic.Bool
					w.readings(func(n int) *sandbox.Fault {
						switch {
						case !grown.Load():
							return shows(map[string]int{"a": 60})
						case n%2 == 0:
							return between
						}
						return shows(map[string]int{"a": 60, "b": news})
					})
					w.options.PollInterval = time.Hour // only the list is judged
					w.start()
					w.pass(10 * time.Minute)
					grown.Store(true)
					w.pass(time.Hour)
					told := 0
					for _, e := range w.log("A100") {
						if e.Type == events.TypeInsertionAppeared && strings.HasPrefix(e.body["propertyReferenceId"].(string), "b#") {
							told++
						}
					}
					if told != news {
						t.Errorf("%d of %d are told", told, news)
					}
				})
			})
		}
	}
}

// A reading that begins in our list and ends in that of somebody else is confirmed by no other that is wrong.
func TestAWrongListAfterAMixedOneTellsNothing(t *testing.T) {
	ours, mixed := shows(map[string]int{"a": 60}), shows(map[string]int{"a": 60, "b": 40})
	foreign, short := shows(map[string]int{"b": 60}), shows(map[string]int{"a": 10, "b": 20})
	for name, c := range map[string]struct {
		first []*sandbox.Fault
		after time.Duration
		then  []*sandbox.Fault
	}{
		"all foreign at once":       {first: []*sandbox.Fault{mixed, foreign, foreign}},
		"all foreign in a row":      {first: []*sandbox.Fault{foreign, foreign, mixed}},
		"cut short at once":         {first: []*sandbox.Fault{mixed, short, short}},
		"all foreign a day later":   {[]*sandbox.Fault{mixed}, 24 * time.Hour, []*sandbox.Fault{foreign, foreign}},
		"mixed again a day later":   {[]*sandbox.Fault{mixed}, 24 * time.Hour, []*sandbox.Fault{mixed}},
		"cut short some walks on":   {[]*sandbox.Fault{mixed}, 5 * time.Minute, []*sandbox.Fault{short}},
		"all foreign some walks on": {[]*sandbox.Fault{mixed}, 5 * time.Minute, []*sandbox.Fault{foreign}},
		"another mixed one":         {[]*sandbox.Fault{mixed}, 10 * time.Minute, []*sandbox.Fault{shows(map[string]int{"a": 60, "c": 40})}},
	} {
		if raced && c.after != 5*time.Minute {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				wrong := make(chan *sandbox.Fault, 5)
				w.readings(func(int) *sandbox.Fault {
					select {
					case wrong := <-wrong:
						return wrong
					default:
						return ours
					}
				})
				w.options.PollInterval = time.Hour // only the list is judged
				w.start()
				w.pass(10 * time.Minute)
				for _, fault := range c.first {
					wrong <- fault
				}
				w.pass(c.after)
				for _, fault := range c.then {
					wrong <- fault
				}
				w.pass(time.Hour)
				if told := count(w.log("A100"), events.TypeInsertionAppeared); told > 0 || len(wrong) > 0 {
					t.Errorf("%d appeared; %d readings were not made", told, len(wrong))
				}
			})
		})
	}
}

func TestAMassAppearanceConfirmsNoOther(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		lists := []*sandbox.Fault{shows(map[string]int{"a": 60}), shows(map[string]int{"a": 60, "b": 40}), shows(map[string]int{"a": 60, "b": 40, "c": 60})}
		var now, wrong atomic.Int64 // the list that is shown, and how often the next one is
		w.readings(func(int) *sandbox.Fault {
			if wrong.Add(-1) >= 0 {
				return lists[now.Load()+1]
			}
			return lists[now.Load()]
		})
		w.options.PollInterval = time.Hour // only the list is judged
		w.start()
		w.pass(10 * time.Minute)
		now.Store(1)
		w.pass(5 * time.Minute)
		wrong.Store(1)
		w.pass(time.Hour)
		if told := count(w.log("A100"), events.TypeInsertionAppeared); told != 40 || wrong.Load() >= 0 {
			t.Errorf("%d appeared, want 40", told)
		}
	})
}

func TestMoreThanCanWaitIsToldByTheWalkThatFollows(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.options.PollInterval = time.Hour // only the list is judged
		w.start()
		w.pass(10 * time.Minute)
		var body strings.Builder
		fmt.Fprintf(&body, `{"results":[{"propertyReferenceId":"a#1##"}`)
		for n := range 60 {
			fmt.Fprintf(&body, `,{"propertyReferenceId":"z#%d##","t":%q}`, n, strings.Repeat("x", 400<<10))
		}
		body.WriteString(`]}`)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation != sandbox.OperationInsertions {
				return &sandbox.Fault{Body: []byte(`[]`)}
			}
			if c.Query.Get("page") != "" {
				return &sandbox.Fault{Delay: 10 * time.Second}
			}
			return &sandbox.Fault{Body: []byte(body.String()), Delay: 10 * time.Second}
		})
		told := func() int { return count(w.log("A100"), events.TypeInsertionAppeared) }
		for left := 60; told() == 0 && left > 0; left-- { // each walk reads 24 MB
			w.pass(10 * time.Second)
		}
		if first := told(); first == 0 || first == 60 {
			t.Fatalf("%d appeared at first", first)
		}
		if w.pass(45 * time.Second); told() != 60 {
			t.Errorf("%d appeared", told())
		}
	})
}

// cutShort is a list that says of itself that there is more.
func cutShort(of map[string]int) *sandbox.Fault {
	f := shows(of)
	f.Body = append(bytes.TrimSuffix(f.Body, []byte("}")), '0', '}')
	return f
}

// The list was never complete, and is days later.
func TestWhatTheFirstCompleteWalkShowsBringsTheContactRequestsOfTheWholeWatch(t *testing.T) {
	long(t)
	for _, news := range []int{3, 10, 40} {
		t.Run(fmt.Sprint(news), func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				for n := range 20 {
					w.publish("A100", fmt.Sprintf("a#%d##", n))
				}
				w.options.PollInterval, w.options.WalkInterval = time.Hour, 30*time.Minute
				partial := cutShort(map[string]int{"a": 20})
				w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault { return partial }))
				w.start()
				w.pass(24 * time.Hour)
				if n := count(w.log("A100"), events.TypeWatchBaselined); n != 1 {
					t.Fatalf("%v", w.log("A100"))
				}
				var ids []string
				for n := range news {
					w.publish("A100", fmt.Sprintf("b#%d##", n))
					ids = append(ids, w.write("A100", fmt.Sprintf("b#%d##", n), 0))
				}
				w.pass(96 * time.Hour)
				w.model.SetFault(nil)
				w.pass(6 * time.Hour)
				got, lost := announced(w.log("A100")), 0
				for _, id := range ids {
					if got[id] != 1 {
						lost++
					}
				}
				if lost > 0 {
					t.Errorf("%d of %d leads are lost", lost, news)
				}
				for _, e := range w.log("A100") {
					if after, is := e.body["observedAfter"]; e.Type == events.TypeInsertionAppeared && is {
						t.Errorf("appeared after %s, when no walk was complete", after)
						break
					}
				}
			})
		})
	}
}

func TestTheShortListOfSomebodyElseTellsNothing(t *testing.T) {
	for _, foreign := range []int{10, 17, 30} {
		t.Run(fmt.Sprint(foreign), func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				var wrong atomic.Bool
				w.readings(func(int) *sandbox.Fault {
					if wrong.Load() {
						return shows(map[string]int{"z": foreign})
					}
					return shows(map[string]int{"a": 60})
				})
				w.options.PollInterval = time.Hour // only the list is judged
				w.start()
				w.pass(10 * time.Minute)
				wrong.Store(true)
				w.pass(5 * time.Minute)
				wrong.Store(false)
				w.pass(time.Hour)
				if told := count(w.log("A100"), events.TypeInsertionAppeared); told > 0 || count(w.log("A100"), events.TypeWatchChangeHeld) != 1 {
					t.Errorf("%v", w.log("A100"))
				}
			})
		})
	}
}

func TestWhatReplacesMostOfAListThatIsNeverCompleteIsTold(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		var now atomic.Value
		now.Store(cutShort(map[string]int{"a": 20}))
		w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault { return now.Load().(*sandbox.Fault) }))
		w.options.PollInterval = time.Hour // only the list is judged
		w.start()
		w.pass(time.Hour)
		now.Store(cutShort(map[string]int{"b": 20}))
		w.pass(48 * time.Hour)
		if n := count(w.log("A100"), events.TypeInsertionAppeared); n != 20 {
			t.Errorf("%d of 20 are told after two days: %v", n, w.log("A100"))
		}
	})
}

// appeared counts the insertions of a kind that are told as appeared.
func (w *world) appeared(kind string) (n int) {
	for _, e := range w.log("A100") {
		reference, _ := e.body["propertyReferenceId"].(string)
		if e.Type == events.TypeInsertionAppeared && len(reference) > 1 && reference[:2] == kind+"#" {
			n++
		}
	}
	return n
}

func TestWhatStaysOfAListThatChangesEachTimeIsTold(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		var grown atomic.Bool
		w.readings(func(n int) *sandbox.Fault {
			if !grown.Load() {
				return shows(map[string]int{"a": 60})
			}
			return shows(map[string]int{"a": 60, "b": 20, fmt.Sprint("c", n): 30})
		})
		w.options.PollInterval = time.Hour // only the list is judged
		w.start()
		w.pass(10 * time.Minute)
		grown.Store(true)
		w.pass(10 * time.Minute)
		if n := w.appeared("b"); n != 20 {
			t.Errorf("%d of 20 are told", n)
		}
		for n := range 100 {
			if told := w.appeared(fmt.Sprint("c", n)); told > 0 {
				t.Errorf("%d are told that only one reading has shown", told)
			}
		}
	})
}

func TestAListThatGrowsFasterThanItIsReadIsTold(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		var since atomic.Int64
		w.readings(func(n int) *sandbox.Fault {
			grown := 0
			if s := since.Load(); s > 0 {
				for grown = 40; s < int64(n) && grown < 1<<13; s++ {
					grown = 3 * grown
				}
			}
			since.CompareAndSwap(-1, int64(n))
			return shows(map[string]int{"a": 60, "b": grown})
		})
		w.options.PollInterval = time.Hour // only the list is judged
		w.start()
		w.pass(10 * time.Minute)
		since.Store(-1)
		w.pass(5 * time.Minute)
		if n := w.appeared("b"); n < 40 {
			t.Errorf("%d are told", n)
		}
	})
}

func TestWhatAppearsIsToldWhereAWalkTakesLongerThanAHold(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 20 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.HoldFor, w.options.WalkInterval = time.Minute, 10*time.Second
		w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Delay: 25 * time.Second} }))
		w.options.PollInterval = time.Hour // only the list is judged
		w.start()
		w.pass(time.Hour)
		for n := range 20 {
			w.publish("A100", fmt.Sprintf("b#%d##", n))
		}
		w.pass(2 * time.Hour)
		if n := w.appeared("b"); n != 20 {
			t.Errorf("%d of 20 are told", n)
		}
	})
}

// A person, or the time of the hold, believes all that the list shows.
func TestWhatReplacesAListIsToldWithWhatDisappears(t *testing.T) {
	for _, approved := range []bool{false, true} {
		t.Run(fmt.Sprint("approved ", approved), func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				for n := range 20 {
					w.publish("A100", fmt.Sprintf("a#%d##", n))
				}
				w.options.PollInterval = time.Hour // only the list is judged
				w.start()
				w.pass(10 * time.Minute)
				for n := range 20 {
					w.must(w.model.Withdraw("A100", fmt.Sprintf("a#%d##", n)))
					w.publish("A100", fmt.Sprintf("b#%d##", n))
				}
				w.pass(5 * time.Minute)
				ids := []string{w.write("A100", "b#1##", 0)}
				w.pass(15 * time.Minute)
				ids = append(ids, w.write("A100", "b#2##", 0))
				if n := w.appeared("b"); n > 0 {
					t.Fatalf("%d are told while the change is held", n)
				}
				if approved {
					if held, err := w.poller.Approve("A100"); err != nil || !held {
						t.Fatalf("approve: %t, %v", held, err)
					}
					w.pass(150 * time.Second)
				} else {
					w.pass(15*time.Minute + 30*time.Second)
				}
				if gone, came := count(w.log("A100"), events.TypeInsertionDisappeared), w.appeared("b"); gone != 20 || came != 20 {
					t.Errorf("%d disappeared, %d appeared", gone, came)
				}
				w.pass(5 * time.Minute)
				for _, id := range ids {
					if announced(w.log("A100"))[id] != 1 {
						t.Errorf("a lead that was written during the hold is not told")
					}
				}
			})
		})
	}
}

func TestARestartWhileWhatAppearsWaitsLosesNothing(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		for n := range 20 {
			w.publish("A100", fmt.Sprintf("a#%d##", n))
		}
		w.options.PollInterval = time.Hour // only the list is judged
		w.start()
		w.pass(10 * time.Minute)
		var ids []string
		for n := range 20 {
			w.publish("A100", fmt.Sprintf("b#%d##", n))
			ids = append(ids, w.write("A100", fmt.Sprintf("b#%d##", n), 0))
		}
		walked := make(chan struct{}, 1)
		w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault {
			select {
			case walked <- struct{}{}:
				return nil
			default:
				return &sandbox.Fault{Status: 500} // the walk that would confirm it
			}
		}))
		w.pass(5 * time.Minute)
		if n := w.appeared("b"); n > 0 {
			t.Fatalf("%d are told by one walk", n)
		}
		w.stop()
		w.model.SetFault(nil)
		w.pass(72 * time.Hour)
		w.start()
		w.pass(15 * time.Minute)
		got := announced(w.log("A100"))
		for _, id := range ids {
			if got[id] != 1 {
				t.Errorf("a lead is told %d times", got[id])
			}
		}
		if n := w.appeared("b"); n != 20 {
			t.Errorf("%d of 20 are told", n)
		}
	})
}
