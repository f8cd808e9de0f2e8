package poller_test

import (
	"fmt"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// TestAnUnchangedAnswerOpensNoTransaction takes the store away: whoever only looked into it would end the watch.
func TestAnUnchangedAnswerOpensNoTransaction(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.options.PollInterval, w.options.WalkInterval = time.Second, time.Hour
		w.publish("A100", "a#1##", "a#2##")
		w.write("A100", "a#1##", time.Hour)
		w.start()
		w.pass(20*time.Minute + time.Second) // what the schedule learned was just written
		before := w.model.Requests(sandbox.Filter{})
		w.must(w.store.Close())
		w.stop = nil // what it has to write at its end, it cannot
		w.pass(4 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{}) - before; n < 400 {
			t.Errorf("%d polls in four minutes without the store, want two a second", n)
		}
	})
}

func TestALateArrivalIsFoundWithinADayWhereOneQuestionADayMaySee(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		h := &hostile{}
		h.take(w)
		var references []string
		for n := range 8 {
			references = append(references, fmt.Sprintf("a#%d##", n))
		}
		w.publish("A100", references...)
		for _, r := range references {
			h.add(r, 60, 10*24*time.Hour)
		}
		w.options.PollInterval, w.options.WalkInterval = 15*time.Minute, 2*time.Hour
		w.start()
		w.pass(12 * time.Hour)
		var live []string
		for _, r := range references {
			live = append(live, h.add(r, 40, 0)...)
		}
		w.pass(20 * time.Minute)
		for _, r := range references {
			live = append(live, h.add(r, 1, 30*time.Minute)...) // below the forty
		}
		began := time.Now()
		w.pass(24*time.Hour + 15*time.Minute)
		h.judge(w, live)
		if got := announced(w.log("A100")); len(got) != len(live) {
			t.Errorf("%d of %d announced within a day", len(got), len(live))
		}
		w.restart() // not all of them at once
		h.spread(t, began, references)
		w.pass(24 * time.Hour)
		h.spread(t, began.Add(24*time.Hour), references)
	})
}

// spread holds the daily large questions of a day and a quarter of an hour: one an insertion, and never many in an hour.
func (h *hostile) spread(t *testing.T, since time.Time, references []string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	hours, each := map[int]int{}, map[string]int{}
	for _, q := range h.asked {
		if q.size != "20" && !q.at.Before(since) && q.at.Before(since.Add(24*time.Hour+15*time.Minute)) {
			hours[int(q.at.Sub(since)/time.Hour)]++
			each[q.reference]++
		}
	}
	for hour, n := range hours {
		if n > 4 {
			t.Errorf("%d large questions in hour %d", n, hour)
		}
	}
	for _, r := range references {
		if each[r] == 0 || each[r] > 2 {
			t.Errorf("%d large questions in a day for %s", each[r], r)
		}
	}
}

func TestALiftedCapEndsTheGap(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		h := &hostile{most: 20, total: func(all, _ int) int { return all }}
		h.take(w)
		w.publish("A100", "a#1##")
		h.add("a#1##", 5, 10*24*time.Hour)
		w.options.PollInterval, w.options.WalkInterval = 5*time.Minute, 2*time.Hour
		w.start()
		w.pass(time.Hour)
		live := h.add("a#1##", 200, 0)
		w.pass(time.Hour)
		w.restart()
		if gaps := gapsOf(w.log("A100")); len(gaps) != 1 || len(announced(w.log("A100"))) > 100 {
			t.Fatalf("setup: %v", gaps)
		}
		h.mu.Lock()
		h.most = 0
		h.mu.Unlock()
		w.pass(50 * time.Hour)
		h.judge(w, live)
		list := w.log("A100")
		if got := announced(list); len(got) != len(live) {
			t.Errorf("%d of %d announced two days after the cap was lifted", len(got), len(live))
		}
		recovered := 0
		for _, e := range list {
			if e.Type == "watch.recovered" && e.body["ends"] == "gap_detected" {
				recovered++
				gap := gapsOf(list)[0]
				if e.body["since"] != gap.body["observedAt"] {
					t.Errorf("recovered since %v, the gap was told at %v", e.body["since"], gap.body["observedAt"])
				}
			}
		}
		if recovered != 1 {
			t.Errorf("%d times recovered", recovered)
		}
	})
}
