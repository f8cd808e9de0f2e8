package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

var (
	oneKey   = listings.NewKey("11111111-2222-4333-8444-555555555555")
	otherKey = listings.NewKey("99999999-2222-4333-8444-555555555555")
	whole    = Scope{Scope: events.ScopeAgency}
)

// refusedList is a refusal of the list, to the key that is shown.
func refusedList(x Access, at time.Time) Refused {
	key := x.Keys.Shown(listings.OperationInsertions).Fingerprint()
	return Refused{At: at, KeyAnswers: KeyAnswers{RefusedAsked: at}, StatusError: &listings.StatusError{
		Request: listings.Request{Operation: listings.OperationInsertions, AgencyID: x.AgencyID, Key: key}, Status: 403, Body: listings.BodyNone,
	}}
}

func TestARefusalOfWhatIsHaltedChangesNothing(t *testing.T) {
	x := Access{AgencyID: "A100", Keys: NewKeys(oneKey, listings.Key{})}
	r := refusedList(x, epoch)
	r.Others = []Other{{Access: x}} // is still asked
	halted := x.Refuse(whole, r)
	if len(halted.Halted) != 1 || halted.Agency().Asked.IsZero() || len(halted.Events) != 0 {
		t.Fatalf("%+v", halted)
	}
	again := halted.Refuse(whole, refusedList(x, epoch.Add(time.Minute)))
	if again.Agency() != halted.Agency() || len(again.Halted)+len(again.Events) != 0 {
		t.Errorf("%+v", again)
	}
}

func TestAHaltThatEndsBeforeItsReasonIsKnownIsAnnouncedFirst(t *testing.T) {
	x := Access{AgencyID: "A100", Keys: NewKeys(oneKey, listings.Key{})}
	r := refusedList(x, epoch)
	r.Others = []Other{{Access: x}}
	c := x.Refuse(whole, r).Resume("", epoch.Add(time.Second))
	if len(c.Halts) != 0 || len(c.Events) != 2 || fmt.Sprintf("%T %T", c.Events[0], c.Events[1]) != "*events.AccessHalted *events.AccessResumed" {
		t.Errorf("%+v", c)
	}
}

// TestADeadKeyIsBlamedOnNoneOfTwoHundred lets a key die under two hundred agencies, each of which was answered well a moment ago.
func TestADeadKeyIsBlamedOnNoneOfTwoHundred(t *testing.T) {
	all := make([]Other, 200)
	for n := range all {
		all[n].Access = Access{AgencyID: fmt.Sprintf("A%d", n), Keys: NewKeys(oneKey, listings.Key{})}
		all[n].KeyAnswers = KeyAnswers{Good: epoch, GoodKey: oneKey.Fingerprint(), GoodAsked: epoch.Add(-time.Second)}
	}
	others := func(n int) []Other { return slices.Delete(slices.Clone(all), n, n+1) }
	announced := map[string]int{}
	count := func(list []events.Payload) {
		for _, p := range list {
			announced[p.(*events.AccessHalted).ProbableReason]++
		}
	}
	for n := range all {
		r := refusedList(all[n].Access, epoch.Add(time.Duration(n+1)*time.Second))
		all[n].RefusedAsked = r.RefusedAsked
		r.Others = others(n)
		c := all[n].Refuse(whole, r)
		all[n].Access = c.Access
		count(c.Events)
	}
	for n := range all {
		c, waits := all[n].Explain(all[n].KeyAnswers, others(n), false)
		if waits {
			t.Fatalf("%s waits although all were refused", all[n].AgencyID)
		}
		count(c.Events)
	}
	if announced["key_rejected"] != len(all) || len(announced) != 1 {
		t.Errorf("%v", announced)
	}
}

// TestNoOrderOfAnswersAsksAHaltedScopeOrSwitchesTwice draws what can happen to an agency's access.
func TestNoOrderOfAnswersAsksAHaltedScopeOrSwitchesTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := Access{AgencyID: "A100", Keys: NewKeys(oneKey, otherKey)}
		halted, switches := map[Scope]int{}, 0
		operation := map[events.Scope]listings.Operation{
			events.ScopeAgency: listings.OperationInsertions, events.ScopeContactRequests: listings.OperationContactRequests,
			events.ScopeInsertion: listings.OperationContactRequests,
		}
		for n := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			now := epoch.Add(time.Duration(n) * time.Minute)
			s := Scope{Scope: rapid.SampledFrom([]events.Scope{events.ScopeAgency, events.ScopeContactRequests, events.ScopeInsertion}).Draw(rt, "scope")}
			if s.Scope == events.ScopeInsertion {
				s.Reference = rapid.SampledFrom([]string{"a#1##", "a#2##"}).Draw(rt, "reference")
			}
			before, c := fmt.Sprint(x), AccessChange{}
			old := x
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0, 1:
				r := refusedList(x, now)
				r.Operation, r.Request.Key = operation[s.Scope], x.Keys.Shown(operation[s.Scope]).Fingerprint()
				c = x.Refuse(s, r)
			case 2:
				c = x.Answered(operation[s.Scope], s.Reference, x.Keys.Shown(operation[s.Scope]), now)
			case 3:
				c = x.Resume(s.Reference, now)
				if KeyWasRefused(c.Ended) {
					switches = 0
				}
			}
			x = c.Access
			if fmt.Sprint(old) != before {
				rt.Fatal("a decision has changed what it was made of")
			}
			if c.KeyWorks {
				if switches++; switches > 1 {
					rt.Fatal("switched twice")
				}
			}
			for _, h := range c.Ended {
				halted[scopeOf(h)]--
			}
			for _, h := range c.Halted {
				halted[scopeOf(h)]++
			}
			for s, n := range halted {
				if h, is := x.Halts[s]; n > 1 || (n == 1) != is {
					rt.Fatalf("%v: halted %d times, %+v", s, n, h)
				}
				asked := listings.Request{Operation: operation[s.Scope], AgencyID: "A100", Reference: s.Reference}
				if n == 1 && !x.IsHalted(asked, now) {
					rt.Fatalf("%v is halted, but may be asked", s)
				}
			}
			again := RestoreAccess("A100", x.Keys.Stored(), x.List(""), now).Configure(oneKey, otherKey, now)
			if KeyWasRefused(again.Ended) || again.Keys.Active() != x.Keys.Active() || again.Keys.Known.Trying != x.Keys.Known.Trying {
				rt.Fatalf("after a restart %+v, before %+v", again, x)
			}
		}
	})
}

func TestAHaltedInsertionIsAskedOnceADay(t *testing.T) {
	h := store.Halt{Scope: events.ScopeInsertion, Reference: "a#1##", Tried: epoch}
	x := Access{}.With(h)
	asked := listings.Request{Operation: listings.OperationContactRequests, Reference: "a#1##"}
	if !x.IsHalted(asked, epoch.Add(RetryRefused-1)) || x.IsHalted(asked, epoch.Add(RetryRefused)) {
		t.Error("not after a day")
	}
	if c := x.Retried("a#1##", epoch.Add(RetryRefused)); !c.IsHalted(asked, epoch.Add(RetryRefused+time.Hour)) || len(c.Events) != 0 {
		t.Errorf("tried again in vain: %+v", c)
	}
}

func TestAClockThatIsSetBackLengthensNoHalt(t *testing.T) {
	asked := listings.Request{Operation: listings.OperationContactRequests, Reference: "a#1##"}
	h := store.Halt{Scope: events.ScopeInsertion, Reference: "a#1##", Tried: epoch.AddDate(1, 0, 0)}
	x := RestoreAccess("A100", store.Keys{}, []store.Halt{h}, epoch)
	if !x.IsHalted(asked, epoch.Add(RetryRefused-1)) || x.IsHalted(asked, epoch.Add(RetryRefused)) {
		t.Error("after a restart it is not tried again in a day")
	}
	now := time.Now()
	refused := Refused{StatusError: &listings.StatusError{Status: 403, Request: asked}, At: now}
	for name, c := range map[string]AccessChange{
		"halted": Access{}.Refuse(Scope{events.ScopeInsertion, "a#1##"}, refused), "tried again": x.Retried("a#1##", now),
	} {
		if h, _ := c.Insertion("a#1##"); h.Tried != now { // == compares what the monotonic clock says too
			t.Errorf("%s: %v has no monotonic reading of its own", name, h.Tried)
		}
	}
}
