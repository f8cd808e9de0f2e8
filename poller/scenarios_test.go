package poller_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// outcome is what a scenario must lead to, besides what all of them must: how often an event is announced, over all
// agencies; negative: at least once.
type outcome map[events.Type]int

var outcomes = map[string]outcome{
	"zurich-hot":          {events.TypeWatchSchemaDrifted: 0},
	"day-in-a-minute":     {events.TypeWatchSchemaDrifted: 0},
	"key-rotation":        {events.TypeAccessHalted: 0},
	"agency-revoked":      {events.TypeAccessHalted: 1, events.TypeWatchStale: 0},
	"insertion-forbidden": {events.TypeAccessHalted: 1, events.TypeWatchStale: 0},
	"slow-and-flaky":      {events.TypeAccessHalted: 0},
	"schema-shift":        {events.TypeWatchSchemaDrifted: -1, events.TypeInsertionChanged: 0, events.TypeInsertionDisappeared: 0},
	"replica-lag":         {events.TypeInsertionDisappeared: 0, events.TypeWatchStale: 0},
	"page-shift":          {events.TypeAccessHalted: 0},
	"relist":              {events.TypeInsertionReappeared: 5},
	"mass-vanish":         {events.TypeWatchChangeHeld: -1},
	"gdpr-null":           {events.TypeContactRequestRedacted: -1, events.TypeContactRequestChanged: 0},
}

// TestEveryScenarioComesOutAsItsStorySays plays all scenarios of the sandbox to the poller, in virtual time.
func TestEveryScenarioComesOutAsItsStorySays(t *testing.T) {
	for _, s := range sandbox.Scenarios() {
		want, written := outcomes[s.Name]
		if !written {
			t.Errorf("scenario %s has no expected events", s.Name)
		}
		if long := s.Lasts > 3*time.Hour || len(s.Agencies) == 1; raced && long {
			continue // of one agency nothing runs side by side that shorter tests do not have
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, sandbox.Options{}, sandbox.Flat(), nil, func(w *world) { w.tell(s, want) })
		})
	}
}

func (w *world) tell(s sandbox.Scenario, want outcome) {
	play := s.Open(sandbox.ScenarioOptions{Seed: 1, Key: testKey, NextKey: newKey, Speed: 1})
	w.model = play.Model
	w.serve(play.Handler)
	for _, id := range s.Agencies {
		w.options.Agencies = append(w.options.Agencies, keyed(id, testKey))
	}
	var running sync.WaitGroup
	defer running.Wait()
	w.options.PollInterval = max(8*time.Minute, s.Lasts/60)
	w.options.WalkInterval = max(w.options.WalkInterval, s.Lasts/200)
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	began := time.Now()
	w.start()
	running.Go(func() { play.Run(ctx) })
	if s.Name == "key-rotation" {
		w.pass(s.Lasts / 4) // both keys work
		w.configure(keyed(s.Agencies[0], newKey), keyed(s.Agencies[1], newKey))
		w.pass(s.Lasts / 4 * 3)
	} else {
		w.pass(s.Lasts)
	}
	w.pass(31*time.Minute + 8*w.options.WalkInterval)
	w.judge(began)
	counts := map[events.Type]int{}
	for _, id := range s.Agencies {
		for _, e := range w.log(id) {
			counts[e.Type]++
		}
	}
	for kind, n := range want {
		if got := counts[kind]; n < 0 && got == 0 || n >= 0 && got != n {
			w.t.Errorf("%s was announced %d times, want %d; all: %v", kind, got, n, counts)
		}
	}
	w.halt() // before the API ends
}

// judge compares what was published with what was true.
func (w *world) judge(began time.Time) {
	told := map[string]int{}
	truth := w.model.Truth()
	for _, id := range truth.Agencies {
		for _, e := range w.log(id) {
			switch e.Type {
			case events.TypeContactRequestCreated:
				told[e.body["contactRequestId"].(string)]++
			case events.TypeInsertionDisappeared:
				i, _ := truth.Insertion(id, e.Reference)
				if last, err := time.Parse(time.RFC3339, e.body["lastSeenAt"].(string)); err != nil || !i.AbsentBetween(last, e.Time) {
					w.t.Errorf("%s of %s was there all the time (%v)", e.Reference, id, err)
				}
			}
		}
	}
	for _, r := range truth.ContactRequests {
		late := r.VisibleFrom.After(began) // visible only later than it was made
		switch n := told[r.ID] + told[sandbox.NumberID(r.ID)]; {
		case n > 1:
			w.t.Errorf("%s was announced %d times", r.ID, n)
		case n == 1 && r.CreatedAt.Before(began.Truncate(time.Second)) && !late:
			w.t.Errorf("%s is %s older than the watch and was announced", r.ID, began.Sub(r.CreatedAt))
		case n == 0 && r.Served > 0 && !r.CreatedAt.Before(began):
			w.t.Errorf("%s of %s %q was shown and not announced", r.ID, r.AgencyID, r.Reference)
		}
	}
}
