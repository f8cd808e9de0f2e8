package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/listings"
	"doorbell/store"
)

var walkRules = WalkRules{Interval: 2 * time.Minute, HoldFor: 30 * time.Minute}

func noRecord(string) []byte { return []byte(`{}`) }

// listed is a set of references a0, a1, …
func listed(numbers ...int) map[string]struct{} {
	all := map[string]struct{}{}
	for _, n := range numbers {
		all[fmt.Sprint("a", n)] = struct{}{}
	}
	return all
}

// TestNothingIsGoneBeforeEnoughCompleteWalksMissedIt draws walks over a few insertions and counts for itself.
func TestNothingIsGoneBeforeEnoughCompleteWalksMissedIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const size = 8
		state := store.Agency{WatchStart: epoch, Baselined: true, CompleteWalks: 2, LastCompleteWalk: epoch}
		all := map[string]store.Insertion{}
		missed := map[string]int{} // by complete walks with time between them
		for r := range listed(0, 1, 2, 3, 4, 5, 6, 7) {
			all[r] = store.Insertion{Reference: r, FirstSeen: epoch}
		}
		now := epoch
		for range rapid.IntRange(1, 12).Draw(rt, "walks") {
			now = now.Add(time.Duration(rapid.IntRange(10, 300).Draw(rt, "seconds")) * time.Second)
			seen := listed(rapid.SliceOfNDistinct(rapid.IntRange(0, size-1), 3, size, rapid.ID).Draw(rt, "seen")...)
			v := listings.Verdict{Complete: rapid.Bool().Draw(rt, "complete"), Pages: 1, Reason: listings.ReasonCanceled, References: len(seen)}
			counts := v.Complete && now.Sub(state.LastCompleteWalk) >= walkRules.Interval/2
			for r := range seen { // as its page does
				i := all[r]
				i.Missing, i.LastSeen, i.GoneSince = 0, time.Time{}, time.Time{}
				all[r], missed[r] = i, 0
			}
			before := state
			e := EndWalk("A100", walkRules, state, func(yield func(store.Insertion) bool) {
				for _, i := range all {
					if !yield(i) {
						return
					}
				}
			}, noRecord, Walked{Verdict: v, Walk: &Walk{Began: now, Seen: seen}}, now)
			state = *e.State
			if !v.Complete {
				if len(e.Insertions)+len(e.Events) > 0 || e.State.LastCompleteWalk != before.LastCompleteWalk {
					rt.Fatalf("an incomplete walk decides: %+v", e)
				}
				continue
			}
			if got := e.State.LastCompleteWalk.Equal(now); got != counts {
				rt.Fatalf("counts %t, want %t", got, counts)
			}
			for _, i := range e.Insertions {
				all[i.Reference] = i
				if counts {
					missed[i.Reference]++
				}
			}
			for _, i := range e.Insertions {
				if isGone := !i.GoneSince.IsZero(); isGone != (missed[i.Reference] >= confirmingWalks) {
					rt.Fatalf("%s: gone %t after %d walks without it", i.Reference, isGone, missed[i.Reference])
				}
			}
		}
	})
}

func TestAHoldOfRedactionsDoesNotWaitForAnInsertionNoLongerPolled(t *testing.T) {
	gone := []store.Insertion{{Reference: "a", GoneSince: epoch}, {Reference: "b", GoneSince: epoch.Add(-LateArrivals)}}
	state := store.Agency{Baselined: true, Redaction: &store.Held{Since: epoch, Insertions: []string{"a", "b"}}}
	for _, c := range []struct {
		after time.Duration
		held  int
	}{{time.Hour, 1}, {LateArrivals, 1}, {LateArrivals + time.Hour, 0}} {
		now := epoch.Add(c.after)
		walked := Walked{Verdict: listings.Verdict{Complete: true, Pages: 1}, Walk: &Walk{Began: now, Seen: listed(1)}}
		e := EndWalk("A100", walkRules, state, slices.Values(gone), noRecord, walked, now)
		state = *e.State
		if h := state.Redaction; h == nil != (c.held == 0) || h != nil && len(h.Insertions) != c.held || len(e.Events) != 1-c.held {
			t.Errorf("after %s: %+v, %d events", c.after, h, len(e.Events))
		}
	}
}
