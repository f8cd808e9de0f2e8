package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
)

// moment is a reading of both clocks. The monotonic one stops while the machine is suspended; the other can be set.
type moment struct {
	mono time.Duration
	wall time.Time // without a monotonic part
}

// since is the time that has passed, by the clock that says more.
func (m moment) since(before moment) time.Duration {
	return max(m.mono-before.mono, m.wall.Sub(before.wall))
}

// value is what a key holds.
type value struct {
	Member     string        `json:"member"`
	Run        string        `json:"run"` // of the member, anew at each start
	Host       string        `json:"host,omitempty"`
	Since      int64         `json:"since,omitempty"` // of a member: seconds of its clock
	Digest     string        `json:"digest,omitempty"`
	Generation uint64        `json:"generation,omitempty"`
	Watches    string        `json:"watches,omitempty"`
	Declines   string        `json:"declines,omitempty"` // tokens of agencies, with spaces between them
	Scope      string        `json:"scope,omitempty"`    // of a pause
	For        time.Duration `json:"for,omitempty"`      // from when it was written on, by the server's clock
	Why        string        `json:"why,omitempty"`
}

// entry is a key of the bucket as it was last seen.
type entry struct {
	revision uint64
	gone     bool // deleted or expired; with revision 0 the bucket has no trace of it
	value    value
	created  time.Time     // by the server's clock
	at       time.Duration // when it was seen, by our monotonic clock
}

func (e entry) there() bool { return e.revision > 0 && !e.gone }

// update is what a watch shows: an entry, or the end of those that were there when it began.
type update struct {
	key   string
	entry entry
	end   bool
}

// write is one write on condition that the key's revision is still what was seen; 0: that there is no such key.
type write struct {
	key      string
	revision uint64
	value    value
	delete   bool
	forever  bool
	take     bool
}

// lease is a key that is ours.
type lease struct {
	confirmed bool          // a write of it was acknowledged
	sent      moment        // when the last of those was sent
	usable    time.Duration // from when on, by the monotonic clock
	given     bool          // up: a deletion was sent, and whether it arrived or not, it is never used again
}

// attempt is the last write of a key.
type attempt struct {
	at time.Duration
	ok bool
}

// state decides what a member does. It is a function of what it was shown and of the time: it knows no clock and no connection.
type state struct {
	o       Options
	me      value
	key     string
	pace    time.Duration
	leaving bool
	changed bool // the view has, since it was last shown

	seen    map[string]entry
	ready   bool // a watch has shown all there is, once
	leases  map[string]*lease
	tried   map[string]attempt
	holding map[string]time.Duration // since when each run has held permits without a break
	pauses  map[string]Pause         // to be written
	inForce value                    // configuration of the highest generation seen
	ahead   time.Duration            // of the server's clock before ours
	other   entry                    // first renewal seen of another run of our name
	twin    bool                     // that run lives
}

func newState(o Options, run string) *state {
	return &state{
		o: o, key: memberKey(o.Member), me: value{Member: o.Member, Host: o.Host, Run: run, Digest: o.Digest, Generation: o.Generation},
		// A second is what budgets are counted in, and longer than a request waits between admission and wire.
		pace: max(time.Second, time.Duration(float64(time.Second)/o.Ceiling)),
		seen: map[string]entry{}, leases: map[string]*lease{}, tried: map[string]attempt{}, holding: map[string]time.Duration{}, pauses: map[string]Pause{},
	}
}

const configurationKey = "configuration"

func memberKey(name string) string { return "member." + events.Token(name) }
func permitKey(n int) string       { return "permit." + strconv.Itoa(n) }
func pauseKey(scope string) string { return "pause." + events.Token(scope) }

// observe takes in what the watch shows.
func (s *state) observe(u update, now moment) {
	if strings.HasPrefix(u.key, "check.") { // somebody tried whether it may write
		return
	}
	if u.end {
		s.ready, s.changed = true, true
		return
	}
	if s.ready && u.key == s.key && u.entry.value.Run == s.me.Run {
		ahead := u.entry.created.Sub(now.wall)
		s.changed = s.changed || (ahead-s.ahead).Abs() > time.Second // so do the ends of pauses
		s.ahead = ahead
	}
	s.fold(u.key, u.entry, now)
}

// fold takes in one key. What is older than what was seen changes nothing.
func (s *state) fold(key string, e entry, now moment) {
	old := s.seen[key]
	if e.revision > 0 && old.revision >= e.revision {
		return
	}
	if e.at = now.mono; e.revision == 0 {
		delete(s.seen, key)
	} else {
		s.seen[key] = e
	}
	s.changed = s.changed || e.there() != old.there() || e.value != old.value
	switch {
	case key == configurationKey:
		if e.there() && e.value.Generation >= s.inForce.Generation {
			s.inForce = e.value
		}
	case !leased(key):
	case !e.there() || e.value.Run != s.me.Run:
		if key == s.key && e.there() && e.value.Run != s.other.value.Run {
			s.other = e
		} else if key == s.key && e.there() {
			s.twin = e.created.Sub(s.other.created) > s.o.TTL // a run before us that crashed renews no more
		}
		if s.leases[key] != nil {
			delete(s.tried, key)
		}
		delete(s.leases, key)
	case s.leases[key] == nil:
		// Perhaps a write whose answer was lost. It is used when a renewal is acknowledged.
		s.leases[key] = &lease{usable: now.mono + s.untraced()}
	}
	s.count(now)
}

// untraced is how long a permit waits of whose last holder there is no trace, as in a bucket that was purged: until that one
// has met it.
func (s *state) untraced() time.Duration { return s.o.Renew + s.pace }

// count keeps since when each member has held permits.
func (s *state) count(now moment) {
	held := s.held()
	for run := range s.holding {
		if held[run] == 0 {
			delete(s.holding, run)
		}
	}
	for run := range held {
		if _, ok := s.holding[run]; !ok {
			s.holding[run] = now.mono
		}
	}
}

// held is how many permits each run holds.
func (s *state) held() map[string]int {
	held := map[string]int{}
	for n := range Permits {
		if e := s.seen[permitKey(n+1)]; e.there() {
			held[e.value.Run]++
		}
	}
	return held
}

func (s *state) acknowledged(w write, revision uint64, sent, now moment) {
	s.tried[w.key] = attempt{s.tried[w.key].at, true}
	s.fold(w.key, entry{revision: revision, gone: w.delete, value: w.value, created: sent.wall.Add(s.ahead)}, now)
	l := s.leases[w.key]
	if l == nil {
		return
	}
	l.confirmed, l.sent = true, sent
	if w.take {
		l.usable = now.mono + s.pace
		if w.revision == 0 {
			l.usable = now.mono + s.untraced()
		}
	}
}

// refused takes in what stands in the way of a write. The leader says so; perhaps of a bucket that was made again, and counts anew.
func (s *state) refused(w write, e entry, now moment) {
	if e.revision < s.seen[w.key].revision {
		s.fold(w.key, entry{}, now)
	}
	s.fold(w.key, e, now)
}

// age forgets what would have expired long ago, and was not seen to, as in a bucket that was purged.
func (s *state) age(now moment) {
	for key, e := range s.seen {
		if leased(key) && e.there() && s.leases[key] == nil && now.mono-e.at > s.o.TTL+s.o.Renew {
			s.fold(key, entry{}, now)
		}
	}
}

// leased says whether a key is a lease.
func leased(key string) bool {
	return strings.HasPrefix(key, "member.") || strings.HasPrefix(key, "permit.")
}

// pause adds one that is to be written.
func (s *state) pause(p Pause) {
	if p.Until.After(s.pauses[p.Scope].Until) {
		s.pauses[p.Scope] = p
	}
}

// due decides what is to be written now.
func (s *state) due(now moment) (todo []write) {
	if !s.ready {
		return nil
	}
	s.age(now)
	put := func(w write) {
		s.tried[w.key] = attempt{at: now.mono}
		w.revision = s.seen[w.key].revision
		todo = append(todo, w)
	}
	for scope, p := range s.pauses {
		key := pauseKey(scope)
		if left := p.Until.Sub(now.wall); left <= 0 || !s.until(s.seen[key]).Before(p.Until) {
			delete(s.pauses, scope)
		} else if s.idle(key, now) {
			put(write{key: key, value: value{Member: s.me.Member, Run: s.me.Run, Scope: scope, For: left, Why: p.Why}, forever: true})
		}
	}
	s.permits(now, put)
	switch me := s.leases[s.key]; {
	case s.leaving && me != nil && (!me.given || s.idle(s.key, now)):
		me.given = true
		put(write{key: s.key, delete: true})
	case s.leaving:
	case me == nil && !s.seen[s.key].there() && s.idle(s.key, now):
		s.me.Since = now.wall.Unix()
		put(write{key: s.key, value: s.me, take: true})
	case me != nil && (s.idle(s.key, now) || s.tried[s.key].ok && s.seen[s.key].value.Declines != s.me.Declines):
		put(write{key: s.key, value: s.me})
	}
	if c := s.seen[configurationKey]; s.inForce.Generation < s.me.Generation || !c.there() && s.acts() {
		if s.idle(configurationKey, now) {
			put(write{key: configurationKey, value: value{Member: s.me.Member, Digest: s.me.Digest, Generation: s.me.Generation}, forever: true})
		}
	}
	return todo
}

// idle says whether it is time for the next write of a key.
func (s *state) idle(key string, now moment) bool {
	last, ok := s.tried[key]
	wait := s.o.Renew
	if !last.ok {
		wait /= 4
	}
	return !ok || now.mono-last.at >= wait
}

// permits takes, renews and gives up permits.
func (s *state) permits(now moment, put func(write)) {
	share, first := s.share()
	var used, given, free []string
	for n := range Permits {
		key := permitKey((first+n)%Permits + 1) // each begins elsewhere, or all would try to take the same one
		switch l := s.leases[key]; {
		case l == nil && !s.seen[key].there():
			free = append(free, key)
		case l == nil:
		case l.given:
			given = append(given, key)
		default:
			used = append(used, key)
		}
	}
	keep := min(share, len(used))
	for _, key := range used[:keep] {
		if s.idle(key, now) {
			put(write{key: key, value: s.seen[key].value})
		}
	}
	for _, key := range used[keep:] {
		s.leases[key].given = true
		put(write{key: key, delete: true})
	}
	for _, key := range given {
		if s.idle(key, now) {
			put(write{key: key, delete: true})
		}
	}
	for _, key := range free[:min(share-keep, len(free))] {
		if s.idle(key, now) {
			put(write{key: key, value: value{Member: s.me.Member, Run: s.me.Run}, take: true})
		}
	}
}

// acts says whether our configuration is the one in force.
func (s *state) acts() bool { return equal(s.me, s.inForce) }

func equal(a, b value) bool { return a.Generation == b.Generation && a.Digest == b.Digest }

// share is how many permits should be ours, and where to begin taking them.
func (s *state) share() (share, first int) {
	if s.leaving || s.leases[s.key] == nil || !s.acts() {
		return 0, 0
	}
	var names []string
	for key, e := range s.seen {
		if strings.HasPrefix(key, "member.") && e.there() && equal(e.value, s.inForce) {
			names = append(names, e.value.Member)
		}
	}
	slices.Sort(names)
	place := slices.Index(names, s.me.Member)
	share = Permits / len(names)
	if place < Permits%len(names) {
		share++
	}
	return share, place * Permits / len(names)
}

// left says that nothing of us is in the bucket any more.
func (s *state) left() bool { return s.leaving && len(s.leases) == 0 }

// until is when a pause ends, by our clock.
func (s *state) until(e entry) time.Time {
	if !e.there() {
		return time.Time{}
	}
	return e.created.Add(e.value.For - s.ahead)
}

// view is what others may see of the state.
func (s *state) view(now moment) *View {
	v, held := newView(), s.held()
	for _, key := range slices.Sorted(maps.Keys(s.seen)) {
		e := s.seen[key]
		switch kind, _, _ := strings.Cut(key, "."); {
		case !e.there():
		case kind == "member":
			v.Members = append(v.Members, Member{
				Name: e.value.Member, Host: e.value.Host, Since: time.Unix(e.value.Since, 0), Digest: e.value.Digest, Generation: e.value.Generation, Watches: e.value.Watches,
				Equal: equal(e.value, s.inForce), Permits: held[e.value.Run], holding: s.holding[e.value.Run], declines: e.value.Declines,
			})
		case kind == "pause" && s.until(e).After(now.wall):
			v.Pauses = append(v.Pauses, Pause{e.value.Scope, s.until(e), e.value.Why})
		}
	}
	slices.SortFunc(v.Members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	if s.inForce.Generation > 0 && !s.acts() {
		v.Problem = fmt.Sprintf("the configuration in force is generation %d (digest %.12s, set by %s), ours is generation %d (digest %.12s): use the same settings, or raise the generation",
			s.inForce.Generation, s.inForce.Digest, s.inForce.Member, s.me.Generation, s.me.Digest)
	}
	return v
}

func (v *View) names() (names []string) {
	for _, m := range v.Members {
		names = append(names, m.Name)
	}
	return names
}

func (v *View) wanted(agency string) string { return v.winner(agency).Name }

// winner is the member with the highest hash of its name and the agency; one that declines the agency, where all do.
func (v *View) winner(agency string) (best Member) {
	var most uint64
	for _, m := range v.Members {
		if !m.Equal || m.Permits == 0 {
			continue
		}
		hash := sha256.Sum256([]byte(m.Name + "\x00" + agency))
		n, worse := binary.BigEndian.Uint64(hash[:]), best.declined(agency)
		if best.Name == "" || worse && !m.declined(agency) || worse == m.declined(agency) && n > most {
			best, most = m, n
		}
	}
	return best
}

func (m Member) declined(agency string) bool {
	return slices.Contains(strings.Fields(m.declines), events.Token(agency))
}

// release says whether an owner should give an agency up: it must not act, or another member is wanted that has held permits for so long.
func (v *View) release(owner, agency string, now, settled time.Duration) bool {
	w := v.winner(agency)
	if slices.ContainsFunc(v.Members, func(m Member) bool { return m.Name == owner && m.declined(agency) }) {
		settled = 0
	}
	return v.Problem != "" || w.Name != "" && w.Name != owner && now-w.holding >= settled
}

// grant is what a member may use. It is read without a lock.
type grant struct {
	acts   bool
	sent   moment // last acknowledged renewal of the member
	leases map[string]lease
}

func (s *state) grant() *grant {
	me := s.leases[s.key]
	if me == nil || !me.confirmed || !s.acts() {
		return &grant{}
	}
	g := &grant{acts: true, sent: me.sent, leases: map[string]lease{}}
	for key, l := range s.leases {
		if key != s.key && l.confirmed && !l.given {
			g.leases[key] = *l
		}
	}
	return g
}

func (g *grant) alive(now moment, grace time.Duration) bool {
	return g.acts && now.since(g.sent) < grace
}

// permits is how many may be used.
func (g *grant) permits(now moment, grace time.Duration) (n int) {
	if !g.alive(now, grace) {
		return 0
	}
	for _, l := range g.leases {
		if l.inUse(now, grace) {
			n++
		}
	}
	return n
}

func (l lease) inUse(now moment, grace time.Duration) bool {
	return now.since(l.sent) < grace && now.mono >= l.usable
}
