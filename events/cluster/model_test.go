package cluster

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	schedules = flag.Int("schedules", 50, "how many drawn schedules of faults a model of the bucket and its members goes through")
	onlySeed  = flag.Uint64("schedules.seed", 0, "go through this schedule alone, and print it")
)

const (
	step    = 50 * time.Millisecond
	faulty  = 4 * time.Minute // of each schedule, in virtual time
	healing = 90 * time.Second
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func defaults(member string) Options {
	return Options{
		Name: "c", Member: member, Digest: "d", Generation: 1, Ceiling: 5, TTL: 20 * time.Second, Renew: 4 * time.Second, Grace: 15 * time.Second, Replicas: 3,
	}
}

// bucket is what servers do, as far as members depend on it.
type bucket struct {
	now      time.Duration // true time
	ahead    time.Duration // of the leader's clock
	election time.Duration // there is no leader until
	revision uint64
	keys     map[string]stored
	log      []shown // what watches see
}

type stored struct {
	entry
	forever bool
	at      time.Duration // by the leader's clock
}

type shown struct {
	key   string
	entry entry
	at    time.Duration // true time
}

func (b *bucket) put(key string, e entry, forever bool) uint64 {
	b.revision++
	e.revision, e.created = b.revision, epoch.Add(b.now+b.ahead)
	b.keys[key] = stored{e, forever, b.now + b.ahead}
	b.log = append(b.log, shown{key, e, b.now})
	return b.revision
}

func (b *bucket) expire() {
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		switch s := b.keys[key]; {
		case s.forever || b.now < b.election || b.now+b.ahead-s.at < 20*time.Second:
		case s.gone:
			delete(b.keys, key)
		default:
			b.put(key, entry{gone: true}, false)
		}
	}
}

// request is a write under way.
type request struct {
	write
	sent     moment
	arrives  time.Duration // when the server carries it out
	answer   time.Duration // when the sender knows
	lost     bool          // it never arrives
	unsaid   bool          // its answer is lost
	revision uint64        // 0: refused
	found    entry         // why
}

func (b *bucket) carryOut(r *request) {
	if has := b.keys[r.key]; has.revision == r.write.revision {
		r.revision = b.put(r.key, entry{gone: r.delete, value: r.value}, r.forever)
	} else {
		r.found = has.entry
	}
}

// process is a member with clocks of its own, and what the shell does for its state.
type process struct {
	w          *world
	name       string
	generation uint64
	state      *state // nil: it does not run
	grant      *grant
	runs       int
	down       time.Duration // there is none until
	cut        time.Duration // nothing passes until
	unlucky    string        // all writes of this key are lost
	asleep     time.Duration // suspended until
	slept      time.Duration // what its monotonic clock lacks
	set        time.Duration // how much its wall clock is ahead
	leave      bool
	broken     bool // its watch
	watched    int  // how far, of the bucket's log
	waiting    []*request
	timeout    time.Duration
}

func (p *process) clock() moment { return moment{p.w.now - p.slept, epoch.Add(p.w.now + p.set)} }

func (p *process) start() {
	o := defaults(p.name)
	o.Generation, o.Digest, o.Ceiling = p.generation, fmt.Sprint("d", p.generation), p.w.ceiling
	p.runs++
	p.state, p.grant, p.leave, p.broken, p.waiting = newState(o, fmt.Sprint(p.name, "/", p.runs)), &grant{}, false, true, nil
	p.w.tell("%s starts with generation %d", p.name, p.generation)
}

func (p *process) stop(pause time.Duration) { p.state, p.down = nil, p.w.now+pause }

// turn is one of the loop of a process.
func (p *process) turn() {
	if slices.ContainsFunc(p.waiting, func(r *request) bool { return r.answer > p.w.now }) && p.w.now < p.timeout {
		return // for all of them, as the shell does
	}
	for _, r := range p.waiting {
		switch {
		case r.answer > p.w.now || p.w.now < p.cut || r.answer > p.timeout:
		case r.revision > 0:
			p.state.acknowledged(r.write, r.revision, r.sent, p.clock())
		default:
			p.state.refused(r.write, r.found, p.clock())
			p.w.did["conflict"]++
		}
	}
	answered := len(p.waiting) > 0
	p.waiting = nil
	if !p.watch() && !answered && p.w.now%(5*step) > 0 {
		return // it wakes by its ticker, or when there is something to do
	}
	p.state.leaving = p.leave
	todo := p.state.due(p.clock())
	p.grant = p.state.grant()
	p.timeout = p.w.now + 2*time.Second
	for _, write := range todo {
		p.waiting = append(p.waiting, p.w.send(p, write))
	}
	switch {
	case p.state.left():
		p.w.tell("%s has left", p.name)
		p.w.did["leave"]++
		p.stop(p.w.between(time.Second, time.Minute))
	case p.state.twin && p.runs < 100:
		p.w.fail("%s believes that another one has its name", p.name)
	}
}

// watch shows what the log has, with some delay; a watch that begins again reads a replica that may be behind.
func (p *process) watch() (seen bool) {
	if p.w.now < p.cut {
		p.broken = true
		return false
	}
	late := p.w.faults(20*step, 4)
	if p.broken {
		if p.w.now < p.w.election {
			return false
		}
		p.broken = false
		behind := p.w.now - p.w.faults(3*time.Second, 3)
		last := map[string]entry{}
		for p.watched = 0; p.watched < len(p.w.log) && p.w.log[p.watched].at <= behind; p.watched++ {
			s := p.w.log[p.watched]
			last[s.key] = s.entry
		}
		for _, key := range slices.Sorted(maps.Keys(last)) {
			if e := last[key]; !e.gone || p.w.now+p.w.ahead-e.created.Sub(epoch) < 15*time.Second { // a marker expires too
				p.state.observe(update{key: key, entry: e}, p.clock())
			}
		}
		p.state.observe(update{end: true}, p.clock())
		p.w.did["watch begun"]++
	}
	for p.watched < len(p.w.log) && p.w.log[p.watched].at <= p.w.now-late {
		s := p.w.log[p.watched]
		p.watched++
		p.state.observe(update{key: s.key, entry: s.entry}, p.clock())
		seen = true
	}
	return seen
}

type world struct {
	*bucket
	*rand.Rand
	t       *testing.T
	seed    uint64
	members []*process
	under   []*request
	ceiling float64
	last    map[string]use // of each permit
	did     map[string]int
	healed  bool
	story   []string
}

// newWorld has no members yet.
func newWorld(t *testing.T, seed uint64, did map[string]int) *world {
	return &world{
		bucket: &bucket{keys: map[string]stored{}}, Rand: rand.New(rand.NewPCG(seed, 1)), t: t, seed: seed, ceiling: 5, last: map[string]use{}, did: did,
	}
}

// calm is a world without faults.
func calm(t *testing.T, members int) *world {
	w := newWorld(t, 1, map[string]int{})
	w.healed = true
	for i := range members {
		w.members = append(w.members, &process{w: w, name: fmt.Sprint("m", i), generation: 1})
	}
	return w
}

func (w *world) run(d time.Duration) {
	for end := w.now + d; w.now < end; {
		w.advance()
	}
}

type use struct {
	run string
	at  time.Duration
}

func (w *world) tell(format string, a ...any) {
	w.story = append(w.story, fmt.Sprintf("%10s  ", w.now)+fmt.Sprintf(format, a...))
}

func (w *world) fail(format string, a ...any) {
	w.t.Helper()
	w.t.Fatalf("schedule %d at %s: %s\n%s", w.seed, w.now, fmt.Sprintf(format, a...), strings.Join(w.story, "\n"))
}

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.Int64N(int64(high-low)))
}

// faults is a delay of at most so much in one case of n while there are faults.
func (w *world) faults(most time.Duration, n int) time.Duration {
	if w.healed || w.IntN(n) > 0 {
		return 0
	}
	return w.between(0, most)
}

func (w *world) send(p *process, what write) *request {
	r := &request{write: what, sent: p.clock(), arrives: w.now + w.between(0, 3*step), lost: w.now < p.cut}
	r.arrives += w.faults(10*time.Second, 15) // it stays in some buffer and arrives when nobody expects it
	r.unsaid = w.faults(15, 15) > 0
	r.lost = r.lost || w.faults(15, 15) > 0 || what.key == p.unlucky && !w.healed
	r.answer = time.Hour
	w.under = append(w.under, r)
	return r
}

// advance is one step of everything.
func (w *world) advance() {
	w.now += step
	w.expire()
	w.under = slices.DeleteFunc(w.under, func(r *request) bool {
		if w.now < r.arrives {
			return false
		}
		if !r.lost && w.now >= w.election {
			w.carryOut(r)
			if !r.unsaid {
				r.answer = w.now + w.faults(time.Second, 10)
			}
		}
		return true
	})
	for _, p := range w.members {
		switch {
		case p.state == nil && w.now >= p.down:
			p.start()
		case p.state != nil && w.now < p.asleep:
			p.slept += step
		case p.state != nil:
			if w.Int64N(10) == 0 {
				w.check() // the first thing that it does may be a request
			}
			p.turn()
		}
	}
	w.check()
}

// check is the promise: each permit is used by one member, and by the next one not before a pace has passed.
func (w *world) check() {
	sum := 0
	for _, p := range w.members {
		if p.state == nil || w.now < p.asleep {
			continue
		}
		sum += p.grant.permits(p.clock(), p.state.o.Grace)
		if !p.grant.alive(p.clock(), p.state.o.Grace) {
			continue
		}
		if p.state.inForce.Generation != p.generation {
			w.fail("%s acts under generation %d", p.name, p.generation)
		}
		for key, l := range p.grant.leases {
			if !l.inUse(p.clock(), p.state.o.Grace) {
				continue
			}
			before, ok := w.last[key]
			if ok && before.run != p.state.me.Run {
				w.did["permit moved"]++
				if w.now-before.at < p.state.pace {
					w.fail("%s uses %s, which %s has used %s before", p.state.me.Run, key, before.run, w.now-before.at)
				}
			}
			w.last[key] = use{p.state.me.Run, w.now}
		}
	}
	if sum > Permits {
		w.fail("%d permits are used", sum)
	}
}

// disturb lets something happen.
func (w *world) disturb() {
	p := w.members[w.IntN(len(w.members))]
	switch w.IntN(10) {
	case 0, 1:
		if p.state != nil {
			w.tell("%s crashes", p.name)
			p.stop(w.between(time.Second, time.Minute))
		}
	case 2:
		w.tell("%s leaves", p.name)
		p.leave = p.state != nil
	case 3, 4:
		p.cut = w.now + w.between(time.Second, time.Minute)
		w.tell("%s is cut off until %s", p.name, p.cut)
	case 5:
		w.election = w.now + w.between(3*time.Second, 10*time.Second)
		w.ahead = w.between(-2*time.Second, 2*time.Second)
		w.tell("the leader dies; the next one has a clock %s ahead", w.ahead)
	case 6:
		if w.seed%2 == 0 { // a machine that sleeps while its clock is set back cannot know how late it is
			p.asleep = w.now + w.between(time.Second, 40*time.Second)
			w.tell("%s is suspended until %s", p.name, p.asleep)
		} else {
			p.set += w.between(-30*time.Second, 30*time.Second)
			w.tell("the clock of %s is set to %s ahead", p.name, p.set)
		}
	case 7:
		p.broken = true
	case 9:
		p.unlucky = permitKey(1 + w.IntN(Permits))
		w.tell("%s can write %s no more", p.name, p.unlucky)
	case 8:
		if w.seed%5 == 0 && p.state != nil {
			p.generation++
			w.tell("%s crashes and will have generation %d", p.name, p.generation)
			p.stop(w.between(time.Second, 10*time.Second))
		}
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.tell("no faults from now on")
	w.healed, w.election = true, 0
	for _, p := range w.members {
		p.cut, p.asleep, p.leave = 0, min(p.asleep, w.now), false
		p.down = min(p.down, w.now)
	}
}

// settled is what must be once all is well.
func (w *world) settled() {
	var highest uint64
	for _, p := range w.members {
		highest = max(highest, p.generation)
	}
	var equal []string
	for _, p := range w.members {
		if p.generation == highest {
			equal = append(equal, p.name)
		}
	}
	slices.Sort(equal)
	for _, p := range w.members {
		share := 0
		if i := slices.Index(equal, p.name); i >= 0 {
			share = Permits / len(equal)
			if i < Permits%len(equal) {
				share++
			}
		}
		if n := p.grant.permits(p.clock(), p.state.o.Grace); n != share {
			w.fail("%s uses %d permits of %d", p.name, n, share)
		}
		v := p.state.view(p.clock())
		if len(v.Members) != len(w.members) || (v.Problem == "") != (share > 0) {
			w.fail("%s sees %+v", p.name, v)
		}
		for _, agency := range []string{"A100", "B200", "C300"} {
			first := w.members[0].state.view(w.members[0].clock()).wanted(agency)
			if got := v.wanted(agency); got != first || !slices.Contains(equal, got) {
				w.fail("%s wants %s at %s", p.name, agency, got)
			}
			if owner := v.wanted(agency); v.release(p.name, agency, p.clock().mono, p.state.o.TTL) != (owner != p.name) {
				w.fail("%s releases %s of %s", p.name, agency, owner)
			}
		}
	}
}

func TestPermitsAreNeverUsedTwiceWhateverHappens(t *testing.T) {
	did := map[string]int{}
	for seed := range uint64(*schedules) {
		if seed++; *onlySeed > 0 && *onlySeed != seed {
			continue
		}
		w := newWorld(t, seed, did)
		w.ceiling = []float64{5, 0.5, 0.1}[w.IntN(3)]
		for i := range 2 + w.IntN(4) {
			w.members = append(w.members, &process{w: w, name: fmt.Sprint("m", i), generation: 1, down: w.between(0, time.Minute)})
		}
		for w.now < faulty {
			if w.advance(); w.IntN(100) == 0 {
				w.disturb()
			}
		}
		w.heal()
		w.run(healing)
		w.settled()
		if *onlySeed > 0 {
			t.Log(strings.Join(w.story, "\n"))
		}
	}
	t.Logf("%v", did)
	for _, what := range []string{"conflict", "leave", "watch begun", "permit moved"} {
		if did[what] < *schedules && *onlySeed == 0 {
			t.Errorf("%s: only %d times in %d schedules", what, did[what], *schedules)
		}
	}
}
