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
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
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
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		var now atomic.Value
		now.Store(cutShort(map[string]int{"a": 20}))
		w.model.SetFault(onList(func(sandbox.Call) *sandbox.Fault { return now.Load().(*sandbox.Fault) }))
		w.start()
		w.pass(time.Hour)
		now.Store(cutShort(map[string]int{"b": 20}))
		w.pass(48 * time.Hour)
		if n := count(w.log("A100"), events.TypeInsertionAppeared); n != 20 {
			t.Errorf("%d of 20 are told after two days: %v", n, w.log("A100"))
		}
	})
}
