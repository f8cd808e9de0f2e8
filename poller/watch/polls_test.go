package watch

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/listings"
	"doorbell/store"
)

// TestAnAnswerThatIsJudgedAgainChangesNothing draws answers, and what was known before.
func TestAnAnswerThatIsJudgedAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := leads(rt, rapid.IntRange(0, 20).Draw(rt, "n"))
		a := Answer{Requests: list, Identities: IdentitiesOf("a#b##", list), Asked: 50, SortBy: "createdAt", Descending: true, Total: rapid.SampledFrom([]int{-1, len(list)}).Draw(rt, "total")}
		prior := Prior{
			State:     store.Agency{Baselined: true, IDField: "id", IdentityLearned: true, MostReturned: 100},
			Insertion: store.Insertion{Reference: "a#b##", Start: epoch.Add(-10 * time.Minute), Baseline: rapid.Bool().Draw(rt, "baseline")},
		}
		p := Poll{AgencyID: "A100", Rules: NewRules(nil, nil), Before: NewPolls(), Sizes: SizesOf(prior.State, epoch)}
		for n := range 3 {
			p.CatchUp = NewCatchUp()
			j := Judge(p, prior, a, epoch.Add(time.Duration(n)*time.Minute))
			if j.Verdict == Open {
				rt.Skip("asks on")
			}
			if n > 0 && !j.Empty() {
				rt.Fatalf("judged for the %d. time: %+v", n+1, j.Effects)
			}
			if n == 0 && len(j.Insertions) == 0 {
				rt.Fatal("a first poll is not written")
			}
			prior.Known = append(slices.Clone(prior.Known), j.Contacts...)
			if len(j.Insertions) > 0 {
				prior.Insertion = j.Insertions[0]
			}
			p.Before.Ended(&listings.ContactRequestsPage{}, j.Rules, j.CatchUp, j.Verdict, p.Sizes, epoch, epoch)
		}
	})
}

func TestALargerNumberThatFailsThreeTimesIsLeftAloneForAnHour(t *testing.T) {
	p, now := NewPolls(), epoch
	slow := &listings.TransportError{Stage: listings.StageTimeout}
	p.LargerFailed(&listings.StatusError{Status: 403}, 100, now)
	for n := range slowLimit {
		if p.Slow != nil && p.Slow.Failures != n || !p.MayAsk(100, now) {
			t.Fatalf("after %d failures: %+v", n, p.Slow)
		}
		p.LargerFailed(slow, 100, now)
		now = now.Add(time.Minute)
	}
	if p.MayAsk(100, now) || p.MayAsk(200, now) || !p.MayAsk(50, now) {
		t.Errorf("%+v", p.Slow)
	}
	if now = now.Add(80 * time.Minute); !p.MayAsk(100, now) {
		t.Error("an hour later it is not asked for")
	}
	if p.LargerFailed(slow, 100, now); p.MayAsk(100, now.Add(time.Minute)) {
		t.Error("it fails as before, and is asked for again at once")
	}
	if p.LargerAnswered(50); p.MayAsk(100, now.Add(time.Minute)) {
		t.Error("the answer to a smaller number says nothing")
	}
	if p.LargerAnswered(100); !p.MayAsk(200, now) {
		t.Error("it was answered")
	}
}

func TestATotalThatCountsSomethingElseIsLookedAtLessAndLess(t *testing.T) {
	p, now := NewPolls(), epoch
	p.total = 10
	looks := 0
	for total := 11; now.Before(epoch.Add(24 * time.Hour)); total++ {
		if p.Grew(total, 0, now) {
			looks++
			p.Widened(true, total, 0, now.Add(widestEvery), now)
		}
		now = now.Add(time.Minute)
	}
	if looks < 6 || looks > 14 {
		t.Errorf("%d looks in a day", looks)
	}
	p.Widened(true, 5000, 1, now.Add(widestEvery), now)
	if !p.Grew(5001, 0, now) || p.Grew(5000, 0, now) || p.Grew(12, 2, now) {
		t.Error("a look that found something makes the next growth a reason again")
	}
}
