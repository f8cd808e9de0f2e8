package watch

import (
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// A member that has another value at each reading, such as a relay address, a signed link or a
// counter, says nothing of a record. Of contact requests it is volatile when it has changed in most
// of those that change at all, in four readings in a row, ten times altogether; of insertions when
// it has changed in most records of a page, at least ten, in four walks in a row. Then one event
// names it, and it is left out of digests and changes until it has been still for a day.
const (
	volatileStreak  = 3 // changes that are seen member by member: the one before them is only known by the digest
	volatileChanges = 10
	volatileMost    = 16    // members of an agency that may be left out
	volatileWatched = 200   // contact requests of an agency that are compared at once
	volatileValues  = 50000 // values of members that are left out, which are compared to see whether they are still
	volatileWalks   = 4
	stillFor        = 24 * time.Hour
	stillSeen       = time.Hour // of that in this process
)

// Reading is what a response shows of a contact request that was known.
type Reading struct {
	ID     string
	Leaves map[string]uint64 // nil: it is as it was
	Left   map[string]uint64 // the members that are left out, where there are any
}

// Volatility is what the last readings have shown of the contact requests of an agency that change
// each time. Its zero value has seen none.
type Volatility struct {
	seen   map[string]*rotating // by insertion and id
	streak map[string]int       // walks in a row in which most insertions have changed, by path

	values map[leftOut]uint64 // of members that are left out
	since  time.Time          // when the first of them was read
}

// leftOut is a member of one record.
type leftOut struct {
	operation listings.Operation
	record    string
	path      string
}

type rotating struct {
	leaves map[string]uint64
	streak map[string]int // how often each leaf has changed in a row
}

// Observe notes the readings of one response and returns the pointers to members that are volatile
// from now on, sorted.
func (v *Volatility) Observe(reference string, readings []Reading) (volatile []string) {
	if v.seen == nil {
		v.seen = map[string]*rotating{}
	}
	for _, r := range readings {
		if r.Leaves == nil && len(v.seen) == 0 {
			continue
		}
		key := reference + "\x00" + r.ID
		was := v.seen[key]
		switch {
		case r.Leaves == nil:
			delete(v.seen, key)
		case was != nil:
			was.next(r.Leaves)
		case len(v.seen) < volatileWatched:
			v.seen[key] = &rotating{leaves: r.Leaves, streak: map[string]int{}}
		}
	}
	return v.found()
}

func (r *rotating) next(leaves map[string]uint64) {
	for path, hash := range leaves {
		if was, had := r.leaves[path]; had && was != hash {
			r.streak[path]++
		} else {
			delete(r.streak, path)
		}
	}
	r.leaves = leaves
}

// found returns what is volatile by now and forgets what led to it.
func (v *Volatility) found() (volatile []string) {
	steady, changes := map[string]int{}, map[string]int{}
	for _, r := range v.seen {
		for path, n := range r.streak {
			changes[path] += n
			if n >= volatileStreak {
				steady[path]++
			}
		}
	}
	for path, n := range steady {
		if 2*n > len(v.seen) && changes[path] >= volatileChanges {
			volatile = append(volatile, path)
		}
	}
	if len(volatile) > 0 {
		v.seen = nil
	}
	slices.Sort(volatile)
	return volatile
}

// ObserveWalk notes the members in which most insertions of a page have changed in a walk, and
// returns those that are volatile from now on, sorted.
func (v *Volatility) ObserveWalk(rotating map[string]bool) (volatile []string) {
	streak := map[string]int{}
	for path := range rotating {
		if streak[path] = v.streak[path] + 1; streak[path] >= volatileWalks {
			volatile = append(volatile, path)
			delete(streak, path)
		}
	}
	v.streak = streak
	slices.Sort(volatile)
	return volatile
}

// Compare notes the values of members of a record that are left out, and returns those that have
// changed.
func (v *Volatility) Compare(op listings.Operation, record string, left map[string]uint64, at time.Time) (changed []string) {
	if v.values == nil {
		v.values = map[leftOut]uint64{}
	}
	if v.since.IsZero() && len(left) > 0 {
		v.since = at
	}
	for path, value := range left {
		key := leftOut{op, record, path}
		was, known := v.values[key]
		if known && was != value {
			changed = append(changed, path)
		}
		if known || len(v.values) < volatileValues {
			v.values[key] = value
		}
	}
	return changed
}

// Settle remembers which members of an operation have changed, and takes back what has been still
// for a day: other rules renew digests silently.
func (v *Volatility) Settle(state store.Agency, op listings.Operation, changed map[string]bool, at time.Time) (e Effects) {
	seen := !v.since.IsZero() && at.Sub(v.since) >= stillSeen
	var all []store.Volatile
	for _, one := range state.Volatile {
		switch idle := at.Sub(one.Changed); {
		case one.Operation != string(op):
		case changed[one.Path] && idle >= stillSeen:
			one.Changed = at.UTC()
		case !changed[one.Path] && seen && idle >= stillFor:
			continue
		}
		all = append(all, one)
	}
	if !slices.Equal(all, state.Volatile) {
		state.Volatile = all
		e.State = &state
	}
	return e
}

// volatilePaths are the members of an operation's records that are left out of digests, sorted.
func volatilePaths(state store.Agency, op listings.Operation) (paths []string) {
	for _, one := range state.Volatile {
		if one.Operation == string(op) {
			paths = append(paths, one.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Reduced returns what a page shows with digests that leave out what is volatile, and with the
// values of that.
func Reduced(state store.Agency, page []Listed, r Rules) []Listed {
	hidden := volatilePaths(state, listings.OperationInsertions)
	if len(hidden) == 0 {
		return page
	}
	page = slices.Clone(page)
	for n := range page {
		i := &page[n]
		i.Left = make(map[string]uint64, len(hidden))
		for _, path := range hidden {
			i.Left[path] = maphash.Bytes(leftSeed, valueAt(i.Record, path))
		}
		if digest, err := listings.Digest(i.Record, slices.Concat(r.ignoreInsertion, hidden)); err == nil {
			i.Digest = digest
		}
	}
	return page
}

var leftSeed = maphash.MakeSeed()

// valueAt returns what stands at a pointer into objects; nil if nothing does.
func valueAt(record json.RawMessage, pointer string) json.RawMessage {
	for _, token := range strings.Split(pointer, "/")[1:] {
		inside, _ := members(record)
		record = inside[unescapePointer.Replace(token)]
	}
	return record
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// LeaveOut leaves members out of the digests of an operation's records, and names them in one
// event.
func LeaveOut(state store.Agency, o Observation, op listings.Operation, volatile []string) (e Effects) {
	var named []string
	all := slices.Clone(state.Volatile)
	for _, path := range volatile {
		isKnown := slices.ContainsFunc(all, func(v store.Volatile) bool { return v.Operation == string(op) && v.Path == path })
		if !isKnown && len(all) < volatileMost {
			all = append(all, store.Volatile{Operation: string(op), Path: path, Changed: o.At.UTC()})
			named = append(named, DescribePointer(path))
		}
	}
	if len(named) == 0 {
		return e
	}
	state.Volatile = all
	e.State = &state
	e.announce(&events.WatchSchemaDrifted{
		Common: o.common(events.OriginLive), Operation: string(op), Change: "volatile",
		Expected: "members that stay as they are", Found: "another value at each reading of " + strings.Join(named, ", "),
	})
	return e
}
