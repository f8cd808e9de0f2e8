package watch

import (
	"cmp"
	"fmt"
	"maps"
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
)

// refusedList is a refusal of the list.
func refusedList(x Access) *listings.StatusError {
	return &listings.StatusError{
		Request: listings.Request{Operation: listings.OperationInsertions, AgencyID: x.AgencyID, Key: x.Key.Fingerprint()}, Status: 403, Body: listings.BodyNone,
	}
}

// askedOf is a request for contact requests.
func askedOf(reference string) listings.Request {
	return listings.Request{Operation: listings.OperationContactRequests, AgencyID: "A100", Reference: reference, Key: oneKey.Fingerprint()}
}

// refusedAt is the access after contact requests of insertions were refused, each a minute after the one before it.
func refusedAt(references ...string) Access {
	x := Access{AgencyID: "A100", Key: oneKey}
	for n, reference := range references {
		at := epoch.Add(time.Duration(n) * time.Minute)
		x = x.Observed(askedOf(reference), &listings.StatusError{Status: 403, Request: askedOf(reference)}, at, at)
	}
	return x
}

// TestNoOrderOfResponsesAsksAHaltedScope draws what can happen to an agency's access.
func TestNoOrderOfResponsesAsksAHaltedScope(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := Access{AgencyID: "A100", Key: oneKey}
		stored := map[Scope]store.Halt{}
		references := []string{"a#1##", "a#2##", "a#3##", "a#4##"}
		for n := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			now := epoch.Add(time.Duration(n) * time.Minute)
			reference := rapid.SampledFrom(references).Draw(rt, "reference")
			before, old := fmt.Sprint(x), x
			var c Effects
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				c = x.Refuse(refusedList(x), nil, now)
			case 1:
				refused := &listings.StatusError{Status: 403, Request: askedOf(reference)}
				x = x.Observed(askedOf(reference), refused, now, now)
				if _, err := x.Allow(askedOf(reference), now); err == nil {
					rt.Fatalf("%s was refused, and may be asked", reference)
				}
				c = x.Retried(reference, now)
			case 2:
				c = x.Answered(askedOf(reference), now)
			case 3:
				c, _ = x.Decide(Listing{Complete: true, Began: now, Seen: set(references...), Published: len(references)}, nil, now)
			case 4:
				c = x.Resume(map[bool]string{true: reference}[rapid.Bool().Draw(rt, "one")], now)
			}
			if fmt.Sprint(old) != before {
				rt.Fatal("a decision has changed what it was made of")
			}
			x = x.After(c, epoch)
			for _, h := range c.Halted {
				stored[scopeOf(h)] = h
			}
			for _, h := range c.Ended {
				delete(stored, scopeOf(h))
			}
			if !maps.Equal(stored, x.Halts) && len(stored)+len(x.Halts) > 0 {
				rt.Fatalf("stored %v, in force %v", stored, x.Halts)
			}
			for s := range x.Halts {
				q := askedOf(cmp.Or(s.Reference, references[0]))
				if _, err := x.Allow(q, now); err == nil {
					rt.Fatalf("%v is halted, but may be asked", s)
				}
			}
			remembered := RestoreAccess("A100", slices.Collect(maps.Values(stored)), now)
			if again := remembered.Configure(oneKey, now); len(again.Ended) > 0 || len(remembered.Halts) != len(x.Halts) {
				rt.Fatalf("after a restart %+v, before %+v", again, x)
			}
			if again := remembered.Configure(otherKey, now); len(again.Ended) != len(stored) || len(again.Events) != len(x.List()) {
				rt.Fatalf("after a restart with another key %+v, before %+v", again, x)
			}
		}
	})
}

func TestAClockThatIsSetBackLengthensNoHalt(t *testing.T) {
	h := store.Halt{Scope: events.ScopeInsertion, Reference: "a#1##", Tried: epoch.AddDate(1, 0, 0)}
	x := RestoreAccess("A100", []store.Halt{h}, epoch)
	if _, err := x.Allow(askedOf("a#1##"), epoch.Add(RetryRefused)); err != nil {
		t.Error("after a restart it is not tried again in a day")
	}
	now := time.Now()
	for name, c := range map[string]Effects{
		"halted": Access{}.Refuse(&listings.StatusError{Status: 403}, nil, now), "tried again": x.Retried("a#1##", now),
	} {
		if h := c.Halted[0]; h.Tried != now { // == compares the monotonic clock, too
			t.Errorf("%s: %v has no monotonic reading of its own", name, h.Tried)
		}
	}
}

// TestAHaltOfAllContactRequestsCoversARefusalReadMeanwhile reads a refusal between the decision and
// the moment from which it is in force.
func TestAHaltOfAllContactRequestsCoversARefusalReadMeanwhile(t *testing.T) {
	refuse := func(x Access, reference string) Access {
		return x.Observed(askedOf(reference), &listings.StatusError{Status: 403, Request: askedOf(reference)}, epoch, epoch)
	}
	x := refuse(refuse(refuse(Access{AgencyID: "A100"}, "a"), "b"), "c")
	l := Listing{Complete: true, Began: epoch, Seen: set("a", "b", "c", "d", "e"), Published: 5}
	c, _ := x.Decide(l, nil, epoch)
	x = refuse(x, "d").After(c, epoch)
	if again, _ := x.Decide(l, nil, epoch.Add(2*time.Hour)); len(c.Events) != 1 || len(again.Events) != 0 {
		t.Errorf("announced %v, and then %v", c.Events, again.Events)
	}
}

func TestASilentHaltWithAFutureStartIsDecided(t *testing.T) {
	h := store.Halt{Scope: events.ScopeInsertion, Reference: "a#1##", Since: epoch.AddDate(1, 0, 0), Silent: true}
	x := RestoreAccess("A100", []store.Halt{h}, epoch)
	if c, _ := x.Decide(Listing{Began: epoch.Add(time.Hour)}, nil, epoch.Add(2*time.Hour)); len(c.Events) != 1 {
		t.Errorf("neither asked nor announced: %+v", c)
	}
}

func set(references ...string) map[string]struct{} {
	all := map[string]struct{}{}
	for _, reference := range references {
		all[reference] = struct{}{}
	}
	return all
}

func TestAWalkDecidesAboutRefusedInsertions(t *testing.T) {
	later := epoch.Add(30 * time.Minute)
	all := set("a", "b", "c", "d")
	b := store.Halt{Scope: events.ScopeInsertion, Reference: "b"}
	for name, test := range map[string]struct {
		access     Access
		walk       Listing
		halt, gone string
	}{
		"one of four, nothing answered since":         {refusedAt("a"), Listing{true, later, all, nil, 4}, "[]", "[]"},
		"three of four, nothing answered since":       {refusedAt("c", "b", "a"), Listing{true, later, all, nil, 4}, "[contact_requests]", "[]"},
		"the only one":                                {refusedAt("a"), Listing{true, later, set("a"), nil, 1}, "[insertion a]", "[]"},
		"the only one that is not halted":             {refusedAt("a").With(b), Listing{true, later, set("a", "b"), nil, 2}, "[insertion a]", "[]"},
		"no longer listed, not gone yet":              {refusedAt("a"), Listing{true, later, set("b"), nil, 2}, "[]", "[]"},
		"no longer listed, gone":                      {refusedAt("a"), Listing{true, later, set("b"), set("a"), 1}, "[]", "[a]"},
		"one gone, another one listed alone":          {refusedAt("a", "b"), Listing{true, later, set("b"), set("a"), 1}, "[insertion b]", "[a]"},
		"refused while the walk was under way":        {refusedAt("a"), Listing{true, epoch.Add(-time.Second), set("a"), nil, 1}, "[]", "[]"},
		"two before the walk and one while under way": {refusedAt("a", "b", "c"), Listing{true, epoch.Add(90 * time.Second), all, nil, 4}, "[]", "[]"},
		"a partial walk":                              {refusedAt("a"), Listing{false, later, nil, nil, 0}, "[]", "[]"},
		"a partial walk after an hour":                {refusedAt("a"), Listing{false, epoch.Add(time.Hour), nil, nil, 0}, "[insertion a]", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			c, gone := test.access.Decide(test.walk, nil, test.walk.Began)
			if got := scopes(c); got != test.halt || fmt.Sprint(gone) != test.gone {
				t.Errorf("halts %v, gone %v; want %v and %v", got, gone, test.halt, test.gone)
			}
		})
	}
}

func scopes(c Effects) string {
	list := []string{}
	for _, h := range c.Halted {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s", h.Scope, h.Reference)))
	}
	slices.Sort(list)
	return fmt.Sprint(list)
}

func TestWhatWasAskedBeforeAHaltEndedDecidesNothing(t *testing.T) {
	x := Access{AgencyID: "A100", Key: oneKey}
	for scope, decides := range map[events.Scope]bool{events.ScopeAgency: false, events.ScopeContactRequests: false, events.ScopeInsertion: true} {
		halted := x.With(store.Halt{Scope: scope, Reference: map[bool]string{true: "b"}[decides]})
		ended := epoch.Add(time.Hour)
		after := halted.After(halted.Resume("", ended), ended)
		for asked, decides := range map[time.Duration]bool{-time.Second: decides, time.Second: true} {
			got := after.Observed(askedOf("a"), &listings.StatusError{Status: 403}, ended.Add(asked), ended.Add(2*time.Second))
			if _, waits := got.Insertion("a"); waits != decides {
				t.Errorf("%s: refused %s after its end: halted is %v", scope, asked, waits)
			}
		}
	}
}

func TestTheReasonFollowsFromTheOtherAgenciesOfTheKey(t *testing.T) {
	for _, c := range []struct {
		body                      string
		working, refused, unknown int
		want                      string
	}{
		{"json", 0, 0, 0, "unknown"}, // no other agency has the key
		{"json", 0, 0, 9, "unknown"},
		{"json", 9, 0, 0, "unknown"}, // they were answered before: the key may have died since
		{"json", 1, 1, 8, "key_rejected"},
		{"json", 0, 9, 0, "key_rejected"},
		{"html", 0, 9, 0, "edge_challenge"},
	} {
		e := events.Evidence{Body: c.body, OtherAgenciesOfKey: events.AgenciesOfKey{Working: c.working, Refused: c.refused, Unknown: c.unknown}}
		if got := Reason(events.ScopeAgency, e); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
