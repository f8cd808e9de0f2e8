package poller_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

func TestNoInsertionWaitsLongerThanIsAllowed(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(8)...)
		var mu sync.Mutex
		asked := map[string][]time.Time{}
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			mu.Lock()
			defer mu.Unlock()
			if c.Operation == sandbox.OperationContactRequests {
				asked[c.Reference] = append(asked[c.Reference], c.At)
			}
			return nil
		})
		w.options.PollInterval, w.options.MaxStaleness = time.Minute, 10*time.Second
		w.start()
		w.pass(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for reference, moments := range asked {
			for i, at := range moments[1:] {
				if gap := at.Sub(moments[i]); gap > 10*time.Second {
					t.Errorf("%s waited %v", reference, gap)
				}
			}
			if n := len(moments); n > 80 {
				t.Errorf("%s was asked %d times in ten minutes", reference, n)
			}
		}
		if len(asked) != 8 {
			t.Errorf("%d insertions were asked", len(asked))
		}
	})
}

// journal is what was logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) lines(with string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

func TestMoreInsertionsThanTheAllowedStalenessHasTimeForAreSaidOnce(t *testing.T) {
	inWorld(t, sandbox.Options{WithdrawnStatus: 404}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", references(70)...)
		j := &journal{}
		w.options.Logger = slog.New(slog.NewTextHandler(j, nil))
		w.options.MaxStaleness = 10 * time.Second
		w.start()
		w.pass(5 * time.Minute)
		const over, held = "more insertions than can be polled", "can be held again"
		said := j.lines(over)
		if len(said) != 1 || !strings.Contains(said[0], "level=WARN") {
			t.Fatalf("it was said: %q", said)
		}
		for _, want := range []string{"insertions=70", "allowed=10s", "reached=14s", "requests_per_second=5", "needed=7"} {
			if !strings.Contains(said[0], want) {
				t.Errorf("%s is not in %s", want, said[0])
			}
		}
		w.restart()
		if again := j.lines(over); len(again) != 2 {
			t.Errorf("after a restart it was said: %q", again)
		}
		if got := j.lines(held); len(got) != 0 {
			t.Errorf("it was taken back: %q", got)
		}
		for _, reference := range references(21) {
			w.must(w.model.Withdraw("A100", reference))
		}
		for range 40 { // walks get little of the budget here, and each that is gone is asked for once more
			if w.pass(time.Minute); len(j.lines(held)) > 0 {
				break
			}
		}
		w.pass(5 * time.Minute)
		if got := j.lines(held); len(got) != 1 {
			t.Errorf("it was taken back: %q", got)
		}
	})
}
