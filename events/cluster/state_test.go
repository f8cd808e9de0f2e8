package cluster

import (
	"fmt"
	"testing"
	"time"

	"doorbell/events"

	"pgregory.net/rapid"
)

// at is a moment of a machine whose clocks both go right.
func at(d time.Duration) moment { return moment{d, epoch.Add(d)} }

// shownMembers is a state that was shown members with permits.
func shownMembers(names ...string) *state {
	s := newState(defaults("me"), "run")
	s.observe(update{key: configurationKey, entry: entry{revision: 1, value: value{Digest: "d", Generation: 1}}}, at(0))
	for i, name := range names {
		come(s, name, i+1, at(0))
	}
	s.observe(update{end: true}, at(0))
	return s
}

var revisions uint64 = 1

func show(s *state, key string, e entry, now moment) {
	revisions++
	e.revision = revisions
	s.observe(update{key: key, entry: e}, now)
}

// come shows that a member has come and holds permit n, which no other one has.
func come(s *state, name string, n int, now moment) {
	show(s, memberKey(name), entry{value: value{Member: name, Run: name, Digest: "d", Generation: 1}}, now)
	show(s, permitKey(n), entry{value: value{Member: name, Run: name}}, now)
}

func leave(s *state, name string, n int, now moment) {
	show(s, permitKey(n), entry{gone: true}, now)
	show(s, memberKey(name), entry{gone: true}, now)
}

func agencies(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("A", i))
	}
	return all
}

func owners(s *state, now moment) map[string]string {
	v, all := s.view(now), map[string]string{}
	for _, a := range agencies(200) {
		all[a] = v.wanted(a)
	}
	return all
}

func TestOnlyTheAgenciesOfAMemberMoveWhenItGoesOrComes(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	s := shownMembers(names...)
	before := owners(s, at(0))
	count := map[string]int{}
	for _, owner := range before {
		count[owner]++
	}
	for _, name := range names {
		if count[name] < 20 {
			t.Errorf("%s owns %d of 200 agencies", name, count[name])
		}
	}
	for i, gone := range names {
		leave(s, gone, i+1, at(time.Second))
		for agency, owner := range owners(s, at(time.Second)) {
			if was := before[agency]; was != gone && owner != was || owner == gone || owner == "" {
				t.Errorf("%s went, and %s moved from %s to %s", gone, agency, was, owner)
			}
		}
		come(s, gone, i+1, at(2*time.Second))
		for agency, owner := range owners(s, at(2*time.Second)) {
			if owner != before[agency] {
				t.Errorf("%s came back, and %s is at %s, not %s", gone, agency, owner, before[agency])
			}
		}
	}
}

func TestAMemberWithoutAPermitOrOfAnotherConfigurationOwnsNothing(t *testing.T) {
	s := shownMembers("a", "b")
	show(s, permitKey(2), entry{gone: true}, at(0))
	for agency, owner := range owners(s, at(0)) {
		if owner != "a" {
			t.Errorf("%s belongs to %q", agency, owner)
		}
	}
	show(s, memberKey("a"), entry{value: value{Member: "a", Run: "a", Digest: "other", Generation: 1}}, at(0))
	for agency, owner := range owners(s, at(0)) {
		if owner != "" {
			t.Errorf("%s belongs to %q", agency, owner)
		}
	}
	if v := s.view(at(0)); len(v.Members) != 2 || v.Members[0].Equal || !v.Members[1].Equal {
		t.Errorf("%+v", v.Members)
	}
}

// TestAMemberThatComesAndGoesMovesNoAgency: whatever it does, as long as it never holds permits for a whole TTL. Once it does, exactly its
// agencies move.
func TestAMemberThatComesAndGoesMovesNoAgency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shownMembers("me", "b")
		now, settled := 25*time.Second, s.o.TTL
		mine := map[string]bool{}
		for agency, owner := range owners(s, at(now)) {
			mine[agency] = owner == "me"
		}
		released := func() (all int) {
			v := s.view(at(now))
			for agency, own := range mine {
				if r := v.release("me", agency, now, settled); own && r {
					all++
				} else if !own && !r && v.wanted(agency) == "b" {
					t.Fatalf("%s is wanted by b, and not released", agency)
				}
			}
			return all
		}
		for range rapid.IntRange(1, 20).Draw(t, "visits") {
			come(s, "flapping", 3, at(now))
			for left := time.Duration(rapid.Int64Range(1, int64(settled)-1).Draw(t, "stays")); left > 0; {
				part := min(left, 3*time.Second)
				now, left = now+part, left-part
				show(s, memberKey("flapping"), s.seen[memberKey("flapping")], at(now)) // renewals are no news
				show(s, permitKey(3), s.seen[permitKey(3)], at(now))
				if n := released(); n > 0 {
					t.Fatalf("%d agencies are released at %s", n, now)
				}
			}
			if rapid.Bool().Draw(t, "only the permit") {
				show(s, permitKey(3), entry{gone: true}, at(now))
			} else {
				leave(s, "flapping", 3, at(now))
			}
			now += time.Duration(rapid.Int64Range(1, int64(settled)).Draw(t, "is away"))
		}
		come(s, "flapping", 3, at(now))
		now += settled
		v, want := s.view(at(now)), 0
		for agency, own := range mine {
			if own && v.wanted(agency) == "flapping" {
				want++
			}
		}
		if n := released(); n != want || n == 0 {
			t.Fatalf("%d agencies are released, not the %d that it should own", n, want)
		}
	})
}

func TestTheClockThatSaysMoreCounts(t *testing.T) {
	g := &grant{acts: true, sent: at(time.Hour), leases: map[string]lease{permitKey(1): {sent: at(time.Hour)}}}
	const grace = 15 * time.Second
	for name, c := range map[string]struct {
		mono, wall time.Duration
		alive      bool
	}{
		"just in time":                        {grace - 1, grace - 1, true},
		"at the deadline":                     {grace, grace, false},
		"suspended":                           {time.Second, grace, false},
		"the clock was set back":              {grace, -time.Hour, false},
		"the clock was set back a little ago": {time.Second, -time.Hour, true},
	} {
		now := moment{time.Hour + c.mono, epoch.Add(time.Hour + c.wall)}
		if n := g.permits(now, grace); g.alive(now, grace) != c.alive || n > 0 != c.alive {
			t.Errorf("%s: alive %t, %d permits", name, g.alive(now, grace), n)
		}
	}
	late := at(time.Hour + time.Minute)
	g.sent = late
	if n := g.permits(late, grace); !g.alive(late, grace) || n != 0 {
		t.Errorf("%d permits are used of which one was renewed a minute ago", n)
	}
}

// TestABucketThatIsPurgedOrMadeAgainLetsNoPermitBeUsedTwice: who comes then sees nobody, and takes all; those that were there notice it at their
// next renewal.
func TestABucketThatIsPurgedOrMadeAgainLetsNoPermitBeUsedTwice(t *testing.T) {
	w := calm(t, 3)
	for i := range 20 {
		w.run(w.between(50*time.Second, 60*time.Second))
		w.settled()
		clear(w.keys) // without a message to those who watch
		w.log = nil
		if i%2 == 0 {
			w.revision = 0
		}
		for _, p := range w.members {
			p.watched = 0
		}
		w.members[w.IntN(3)].stop(0)
	}
}

func TestAPauseOnlyGrowsLongerAndIsReadByEachClock(t *testing.T) {
	w := calm(t, 3)
	w.ahead = 3 * time.Second
	for i, p := range w.members {
		p.set = time.Duration(5*i) * time.Second
	}
	ends := func(when string, want time.Duration) {
		t.Helper()
		for _, p := range w.members {
			v := p.state.view(p.clock())
			if len(v.Pauses) != 1 || v.Pauses[0].Scope != "key:1f" || v.Pauses[0].Why != "retry-after" {
				t.Fatalf("%s: %s sees %+v", when, p.name, v.Pauses)
			}
			if off := v.Pauses[0].Until.Sub(epoch.Add(want + p.set)); off < 0 || off > time.Second {
				t.Errorf("%s: the pause of %s ends %s too late", when, p.name, off)
			}
		}
	}
	w.run(10 * time.Second)
	pause := func(p *process, until time.Duration) {
		p.state.pause(Pause{"key:1f", epoch.Add(until + p.set), "retry-after"})
	}
	pause(w.members[0], time.Minute)
	w.run(5 * time.Second)
	ends("one", time.Minute)
	pause(w.members[1], 50*time.Second)
	w.run(5 * time.Second)
	ends("a shorter one", time.Minute)
	pause(w.members[1], 2*time.Minute)
	pause(w.members[2], 90*time.Second)
	w.run(5 * time.Second)
	ends("two at once", 2*time.Minute)
	w.run(30 * time.Second)
	w.members[0].stop(0)
	w.run(25 * time.Second) // it waits for its own lease to expire, and learns from the next one how late it is there
	ends("after a restart", 2*time.Minute)
	w.run(2 * time.Minute)
	for _, p := range w.members {
		if v := p.state.view(p.clock()); len(v.Pauses) > 0 || len(p.state.pauses) > 0 {
			t.Errorf("%s still sees %+v", p.name, v.Pauses)
		}
	}
}

func TestOfOneNameTheSecondEnds(t *testing.T) {
	w := calm(t, 1)
	first, second := w.members[0], &process{w: w, name: "m0", generation: 1, down: 3 * time.Second, runs: 100}
	w.members = append(w.members, second)
	for w.now < 40*time.Second && (second.state == nil || !second.state.twin) {
		w.advance()
	}
	if !second.state.twin || first.state.twin || w.now < 20*time.Second {
		t.Errorf("at %s: first %t, second %t", w.now, first.state.twin, second.state.twin)
	}
	if second.grant.alive(second.clock(), second.state.o.Grace) || !first.grant.alive(first.clock(), first.state.o.Grace) {
		t.Error("the second lives")
	}
}

func TestALeaseCountsFromTheSendingOfWhatWasAcknowledged(t *testing.T) {
	s := shownMembers()
	alive := func(now moment) bool { return s.grant().alive(now, s.o.Grace) }
	used := func(now moment) int { return s.grant().permits(now, s.o.Grace) }
	minute, late := at(time.Minute), at(time.Minute+1900*time.Millisecond)
	for _, w := range s.due(minute) {
		revisions++
		s.acknowledged(w, revisions, minute, late)
	}
	if deadline := minute.mono + s.o.Grace; !alive(at(deadline-1)) || alive(at(deadline)) {
		t.Error("the member's deadline is another")
	}
	for _, w := range s.due(late) {
		if w.key == permitKey(1) {
			w.revision = 7 // of a marker
		}
		if w.key == permitKey(1) || w.key == permitKey(2) {
			revisions++
			s.acknowledged(w, revisions, minute, late)
		}
	}
	for after, want := range map[time.Duration]int{s.pace - 1: 0, s.pace: 1, s.o.Renew + s.pace - 1: 1, s.o.Renew + s.pace: 2} {
		if n := used(at(late.mono + after)); n != want {
			t.Errorf("%d permits are used %s after they were taken, want %d", n, after, want)
		}
	}

	show(s, permitKey(3), entry{value: s.me}, late) // taken, but the answer was lost
	if n := used(at(late.mono + 10*time.Second)); n != 2 {
		t.Errorf("%d permits are used of which one was not acknowledged", n)
	}
	key := permitKey(3)
	s.acknowledged(write{key: key, value: s.me, revision: s.seen[key].revision}, s.seen[key].revision+1, late, late)
	if n := used(at(late.mono + 10*time.Second)); n != 3 {
		t.Errorf("%d permits are used once that was renewed", n)
	}
	s.observe(update{key: key, entry: entry{revision: 1, gone: true}}, late) // a replica that is behind
	if n := used(at(late.mono + 10*time.Second)); n != 3 {
		t.Errorf("%d permits are used after a replica spoke that was behind", n)
	}
}

func TestALowerGenerationNeverActsEvenWhereTheBucketForgetsTheHigherOne(t *testing.T) {
	s := shownMembers()
	if show(s, configurationKey, entry{value: value{Digest: "d", Generation: 2}}, at(0)); s.acts() {
		t.Error("it acts")
	}
	show(s, configurationKey, entry{gone: true}, at(0))
	if show(s, configurationKey, entry{value: value{Digest: "d", Generation: 1}}, at(0)); s.acts() {
		t.Error("it acts again")
	}
}

func TestARestartOverTwoCrashedRunsIsNoTwin(t *testing.T) {
	s := shownMembers()
	for i, run := range []string{"first", "second"} {
		now := at(time.Duration(i) * 30 * time.Second)
		show(s, s.key, entry{value: value{Member: "me", Run: run}, created: now.wall}, now)
	}
	if s.twin {
		t.Error("it believes that another one has its name")
	}
}

func TestWhatAMemberDeclinesFallsToAnotherOneAtOnceAsLongAsThereIsOne(t *testing.T) {
	const agency = "A 1"
	s := shownMembers("a", "b")
	owner := s.view(at(0)).wanted(agency)
	other := map[string]string{"a": "b", "b": "a"}[owner]
	decline := func(name string) *View {
		e := s.seen[memberKey(name)]
		e.value.Declines = "Z9 " + events.Token(agency)
		show(s, memberKey(name), e, at(time.Second))
		return s.view(at(time.Second))
	}
	if s.view(at(0)).release(owner, agency, time.Second, time.Hour) {
		t.Error("it is released, and nobody declines it")
	}
	v := decline(owner)
	if v.wanted(agency) != other || !v.release(owner, agency, time.Second, time.Hour) || v.release(other, agency, time.Second, time.Hour) {
		t.Errorf("%s has declined it, and it is %s's", owner, v.wanted(agency))
	}
	if v = decline(other); v.wanted(agency) != owner {
		t.Errorf("both have declined it, and it is %s's", v.wanted(agency))
	}
	leave(s, other, map[string]int{"a": 1, "b": 2}[other], at(2*time.Second))
	if v = s.view(at(2 * time.Second)); v.wanted(agency) != owner || v.release(owner, agency, 2*time.Second, time.Hour) {
		t.Errorf("nobody else is there, and it is %s's", v.wanted(agency))
	}
}

func TestWhatIsDeclinedIsWrittenBeforeTheNextRenewal(t *testing.T) {
	s := shownMembers()
	do := func(now moment) (written []string) {
		for _, w := range s.due(now) {
			s.acknowledged(w, s.seen[w.key].revision+100, now, now)
			if w.key == s.key {
				written = append(written, w.value.Declines)
			}
		}
		return written
	}
	do(at(0))
	s.me.Declines = "A1"
	if got := do(at(time.Millisecond)); len(got) != 1 || got[0] != "A1" {
		t.Errorf("written: %q", got)
	}
	if got := do(at(2 * time.Millisecond)); len(got) != 0 {
		t.Errorf("written again: %q", got)
	}
}
