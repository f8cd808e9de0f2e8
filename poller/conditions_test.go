package poller_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// condition answers questions that are asked only if something has changed.
type condition struct {
	tag       func(body []byte) string     // of an answer
	unchanged func(asked, tag string) bool // whether it is left out
	asked     atomic.Int64                 // conditional questions
	left      atomic.Int64                 // answers that were left out
	whole     atomic.Int64                 // answers that were given
}

func bodyTag(body []byte) string { return fmt.Sprintf(`"%x"`, sha256.Sum256(body)) }

func (c *condition) before(inner http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		resp, err := inner.RoundTrip(r)
		if err != nil || resp.StatusCode != 200 || !strings.Contains(r.URL.Path, "ubm-contact-request") {
			return resp, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		tag, asked := c.tag(body), r.Header.Get("If-None-Match")
		if asked != "" {
			c.asked.Add(1)
		}
		resp.Header.Set("ETag", tag)
		if asked != "" && c.unchanged(asked, tag) {
			c.left.Add(1)
			resp.StatusCode, body = http.StatusNotModified, nil
			resp.ContentLength = 0
			resp.Header.Del("Content-Length")
		} else {
			c.whole.Add(1)
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil
	})
}

func equal(asked, tag string) bool { return asked == tag }

func conditional(t *testing.T, c *condition, test func(*world, *hostile)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.options.API.Transport = c.before(w.options.API.Transport)
		h := &hostile{}
		h.take(w)
		w.publish("A100", "a#1##")
		h.add("a#1##", 5, 10*24*time.Hour)
		w.start()
		w.pass(10 * time.Minute)
		test(w, h)
	})
}

func TestAnAnswerThatHasNotChangedIsNotSentAgain(t *testing.T) {
	c := &condition{tag: bodyTag, unchanged: equal}
	conditional(t, c, func(w *world, h *hostile) {
		commits := w.store.Commits()
		c.whole.Store(0)
		w.pass(10 * time.Hour)
		if whole, left := c.whole.Load(), c.left.Load(); whole < 10 || whole > 14 || left < 1000 {
			t.Errorf("%d whole answers and %d left out in ten hours without news, want one an hour", whole, left)
		}
		walks := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationInsertions})
		if n := int(w.store.Commits() - commits); n > walks {
			t.Errorf("%d commits in hours without news", n)
		}
		live := h.add("a#1##", 30, 0)
		w.pass(time.Minute)
		h.judge(w, live)
		if got := announced(w.log("A100")); len(got) != 30 {
			t.Errorf("%d of 30 announced in a minute", len(got))
		}
		left := c.left.Load()
		w.pass(10 * time.Minute)
		if c.left.Load() == left {
			t.Error("questions are not conditional any more after news")
		}
	})
}

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

func TestAnAPIThatLiesAboutChangesIsFoundOut(t *testing.T) {
	never := func(string, string) bool { return true }
	for name, c := range map[string]*condition{
		"one tag for everything":      {tag: func([]byte) string { return `"1"` }, unchanged: equal},
		"never any change":            {tag: bodyTag, unchanged: never},
		"one tag, and never a change": {tag: func([]byte) string { return `W/"1"` }, unchanged: never},
	} {
		t.Run(name, func(t *testing.T) {
			conditional(t, c, func(w *world, h *hostile) {
				live := h.add("a#1##", 1, 0)
				w.pass(61 * time.Minute)
				h.judge(w, live)
				if got := announced(w.log("A100")); len(got) != 1 {
					t.Error("not announced within an hour")
				}
				asked := c.asked.Load()
				live = append(live, h.add("a#1##", 1, 0)...)
				w.pass(time.Minute)
				h.judge(w, live)
				if got := announced(w.log("A100")); len(got) != 2 {
					t.Error("still taken in")
				}
				w.pass(2 * time.Hour)
				if c.asked.Load() != asked {
					t.Error("asked again whether anything had changed")
				}
			})
		})
	}
}

func TestALateArrivalIsFoundWithinADayWhereOneQuestionADayMaySee(t *testing.T) {
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
