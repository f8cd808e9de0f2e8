package watch

import (
	"fmt"
	"slices"
	"strings"
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

// refusedList is a refusal of the list.
func refusedList(x Access, at time.Time) Refused {
	return Refused{At: at, StatusError: &listings.StatusError{
		Request: listings.Request{Operation: listings.OperationInsertions, AgencyID: x.AgencyID, Key: x.Key.Fingerprint()}, Status: 403, Body: listings.BodyNone,
	}}
}

func TestARefusalOfWhatIsHaltedChangesNothing(t *testing.T) {
	x := Access{AgencyID: "A100", Key: oneKey}
	halted := x.Refuse(whole, refusedList(x, epoch))
	if len(halted.Halted) != 1 || len(halted.Events) != 1 {
		t.Fatalf("%+v", halted)
	}
	again := halted.Refuse(whole, refusedList(x, epoch.Add(time.Minute)))
	if again.Agency() != halted.Agency() || len(again.Halted)+len(again.Events) != 0 {
		t.Errorf("%+v", again)
	}
}

// TestADeadKeyIsBlamedOnNoAgency lets a key die under agencies, each of which was answered well a moment ago: the first halt names
// both causes, all others the key.
func TestADeadKeyIsBlamedOnNoAgency(t *testing.T) {
	all := make([]Other, 20)
	for n := range all {
		all[n].Access = Access{AgencyID: fmt.Sprintf("A%d", n), Key: oneKey}
		all[n].KeyAnswers = KeyAnswers{Good: epoch, GoodKey: oneKey.Fingerprint()}
	}
	for n := range all {
		r := refusedList(all[n].Access, epoch.Add(time.Duration(n+1)*time.Second))
		r.Others = slices.Delete(slices.Clone(all), n, n+1)
		c := all[n].Refuse(whole, r)
		all[n].Access = c.Access
		want := map[bool]string{true: "unknown", false: "key_rejected"}[n == 0]
		if got := c.Events[0].(*events.AccessHalted).ProbableReason; got != want {
			t.Errorf("halt %d is explained by %s, want %s", n+1, got, want)
		}
	}
}

// TestNoOrderOfAnswersAsksAHaltedScope draws what can happen to an agency's access.
func TestNoOrderOfAnswersAsksAHaltedScope(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := Access{AgencyID: "A100", Key: oneKey}
		halted := map[Scope]int{}
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
				r.Operation = operation[s.Scope]
				c = x.Refuse(s, r)
			case 2:
				c = x.Answered(s.Reference, now)
			case 3:
				c = x.Resume(s.Reference, now)
			}
			x = c.Access
			if fmt.Sprint(old) != before {
				rt.Fatal("a decision has changed what it was made of")
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
			remembered := RestoreAccess("A100", x.List(""), now)
			if again := remembered.Configure(oneKey, now); len(again.Ended) > 0 || len(again.Halts) != len(x.Halts) {
				rt.Fatalf("after a restart %+v, before %+v", again, x)
			}
			if again := remembered.Configure(otherKey, now); len(again.Halts) > 0 || len(again.Events) < len(x.Halts) {
				rt.Fatalf("after a restart with another key %+v, before %+v", again, x)
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
	x := RestoreAccess("A100", []store.Halt{h}, epoch)
	if !x.IsHalted(asked, epoch.Add(RetryRefused-1)) || x.IsHalted(asked, epoch.Add(RetryRefused)) {
		t.Error("after a restart it is not tried again in a day")
	}
	now := time.Now()
	asked.Key = Access{}.Key.Fingerprint()
	refused := Refused{StatusError: &listings.StatusError{Status: 403, Request: asked}, At: now}
	for name, c := range map[string]AccessChange{
		"halted": Access{}.Refuse(Scope{events.ScopeInsertion, "a#1##"}, refused), "tried again": x.Retried("a#1##", now),
	} {
		if h, _ := c.Insertion("a#1##"); h.Tried != now { // == compares what the monotonic clock says too
			t.Errorf("%s: %v has no monotonic reading of its own", name, h.Tried)
		}
	}
}

// refusedAt is what an agency remembers after contact requests of insertions were refused, each a minute after the one before it.
func refusedAt(references ...string) *Refusals {
	r := &Refusals{}
	for n, reference := range references {
		at := epoch.Add(time.Duration(n) * time.Minute)
		r.refuse(reference, &listings.StatusError{Status: 403, Request: listings.Request{Reference: reference}}, at, at)
	}
	return r
}

func set(references ...string) map[string]struct{} {
	all := map[string]struct{}{}
	for _, reference := range references {
		all[reference] = struct{}{}
	}
	return all
}

func TestACompleteWalkDecidesAboutRefusedInsertions(t *testing.T) {
	later := epoch.Add(time.Hour)
	all := set("a", "b", "c", "d")
	b := store.Halt{Scope: events.ScopeInsertion, Reference: "b"}
	for name, test := range map[string]struct {
		refused    *Refusals
		access     Access
		walk       Listing
		halt, gone string
	}{
		"one of four, nothing answered since":         {refusedAt("a"), Access{}, Listing{later, all, nil, 4}, "[]", "[]"},
		"three of four, nothing answered since":       {refusedAt("c", "b", "a"), Access{}, Listing{later, all, nil, 4}, "[contact_requests]", "[]"},
		"the only one":                                {refusedAt("a"), Access{}, Listing{later, set("a"), nil, 1}, "[insertion a]", "[]"},
		"the only one that is not halted":             {refusedAt("a"), Access{}.With(b), Listing{later, set("a", "b"), nil, 2}, "[insertion a]", "[]"},
		"no longer listed, not gone yet":              {refusedAt("a"), Access{}, Listing{later, set("b"), nil, 2}, "[]", "[]"},
		"no longer listed, gone":                      {refusedAt("a"), Access{}, Listing{later, set("b"), set("a"), 1}, "[]", "[a]"},
		"one gone, another one listed alone":          {refusedAt("a", "b"), Access{}, Listing{later, set("b"), set("a"), 1}, "[insertion b]", "[a]"},
		"refused while the walk was under way":        {refusedAt("a"), Access{}, Listing{epoch.Add(-time.Second), set("a"), nil, 1}, "[]", "[]"},
		"two before the walk and one while under way": {refusedAt("a", "b", "c"), Access{}, Listing{epoch.Add(90 * time.Second), all, nil, 4}, "[]", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			halts, gone := test.refused.Decide(test.access, test.walk)
			if got := scopes(halts); got != test.halt || fmt.Sprint(gone) != test.gone {
				t.Errorf("halts %v, gone %v; want %v and %v", got, gone, test.halt, test.gone)
			}
		})
	}
}

func scopes(halts []HaltDue) string {
	list := []string{}
	for _, h := range halts {
		if h.StatusError == nil || h.Scope.Reference != "" && h.Request.Reference != h.Scope.Reference {
			return "the refusal of another one"
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s", h.Scope.Scope, h.Scope.Reference)))
	}
	return fmt.Sprint(list)
}

func TestWhereOthersAreAnsweredEachRefusedInsertionHalts(t *testing.T) {
	r := refusedAt("c", "b", "a")
	r.LastAnswer = epoch.Add(time.Second)
	halts, _ := r.Decide(Access{}, Listing{epoch.Add(time.Hour), set("a", "b", "c", "d"), nil, 4})
	if got := scopes(halts); got != "[insertion a insertion b insertion c]" {
		t.Error(got)
	}
}

func TestThreeRefusalsWithoutAnAnswerBetweenLetAllWaitForTheWalk(t *testing.T) {
	r := refusedAt("a", "b")
	if r.AllWait {
		t.Error("two")
	}
	r.LastAnswer = epoch.Add(30 * time.Second) // between the two
	answer := &listings.StatusError{Status: 403}
	for n, reference := range []string{"b", "c", "d"} {
		r.refuse(reference, answer, epoch.Add(time.Hour), epoch.Add(time.Hour))
		if want := n == 2; r.AllWait != want {
			t.Errorf("%d refused since an answer: all wait is %v", n+1, r.AllWait)
		}
	}
	if !r.Walked() || r.AllWait || r.Walked() || len(r.Waiting) != 4 {
		t.Errorf("after the walk: %+v", r)
	}
}

func TestWhatWasAskedBeforeAHaltEndedDecidesNothing(t *testing.T) {
	x := Access{AgencyID: "A100", Key: oneKey}
	for scope, decides := range map[events.Scope]bool{events.ScopeAgency: false, events.ScopeContactRequests: false, events.ScopeInsertion: true} {
		r := refusedAt("a", "b")
		halted := x.With(store.Halt{Scope: scope, Reference: map[bool]string{true: "a"}[decides]})
		ended := epoch.Add(time.Hour)
		over := r.Follow(halted.Resume("", ended), ended)
		if _, waits := r.Waiting["b"]; waits != decides || !slices.Contains(over, "a") {
			t.Errorf("%s: %v wait no longer", scope, over)
		}
		q := listings.Request{Operation: listings.OperationContactRequests, Reference: "a", Key: oneKey.Fingerprint()}
		for asked, decides := range map[time.Duration]bool{-time.Second: decides, time.Second: true} {
			r.Observe(q, &listings.StatusError{Status: 403}, ended.Add(asked), ended.Add(2*time.Second))
			if _, waits := r.Waiting["a"]; waits != decides {
				t.Errorf("%s: refused %s after its end: waits is %v", scope, asked, waits)
			}
			delete(r.Waiting, "a")
		}
	}
}

func TestNoRequestIsAllowedAfterARefusalWasRead(t *testing.T) {
	x := Access{AgencyID: "A100", Key: oneKey}
	key := oneKey.Fingerprint()
	list := listings.Request{Operation: listings.OperationInsertions, AgencyID: "A100", Key: key}
	poll := func(reference string) listings.Request {
		return listings.Request{Operation: listings.OperationContactRequests, AgencyID: "A100", Reference: reference, Key: key}
	}
	allowed := func(r *Refusals, x Access, q listings.Request) bool { return r.Allow(x, q, epoch) == nil }
	r := refusedAt("a")
	if allowed(r, x, poll("a")) || !allowed(r, x, poll("b")) || !allowed(r, x, list) {
		t.Error("one insertion was refused")
	}
	no := &listings.StatusError{Status: 403}
	r.Observe(poll("b"), no, epoch, epoch)
	if allowed(r, x, poll("b")) || !allowed(r, x, poll("c")) || !allowed(r, x, list) {
		t.Error("another one was refused")
	}
	r.Observe(list, no, epoch, epoch)
	if allowed(r, x, poll("d")) || allowed(r, x, list) {
		t.Error("the list was refused, and it is not decided yet what follows")
	}
	if r.Walked(); !allowed(r, x, list) {
		t.Error("it is decided")
	}
}

// TestAdviceIsTrueWhereverTheKeyComesFrom: it may be in a file, in the environment, of one agency or of all.
func TestAdviceIsTrueWhereverTheKeyComesFrom(t *testing.T) {
	for _, reason := range []string{"key_rejected", "unknown"} {
		advice := Advice(reason, "A100", "")
		if strings.Contains(advice, "DOORBELL_") || !strings.Contains(advice, "file") || !strings.Contains(advice, "environment") {
			t.Errorf("%s: %s", reason, advice)
		}
	}
}
