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
	// changes that are seen member by member: the one before them is only known by the digest
	volatileStreak  = 3
	volatileChanges = 10
	volatileMost    = 16  // members of an agency that may be left out
	volatileWatched = 200 // contact requests of an agency that are compared at once
	// values of members that are left out, which are compared to see whether they are still
	volatileValues = 50000
	volatileWalks  = 4
	stillFor       = 24 * time.Hour
	stillSeen      = time.Hour // of that in this process
)

// Reading is what a response shows of a contact request that was known.
type Reading struct {
	ID     string
	Leaves map[string]uint64 // nil: it is as it was
	Left   map[string]uint64 // the members that are left out, where there are any
}

// Volatility is what the last readings have shown of the members of an agency's records that change
// each time. Its zero value has seen none.
type Volatility struct {
	seen     map[string]*rotating // contact requests that have changed, by insertion and id
	rotating map[string]bool      // members that changed in most insertions of a page of this walk
	walks    map[string]int       // walks in a row in which they did, by path

	values map[member]uint64    // of members that are left out
	moved  map[member]time.Time // of those, without a record: when they last changed
	since  time.Time            // when the first of them was read
}

// member is a member of one record.
type member struct {
	operation listings.Operation
	record    string
	path      string
}

// rotating is a contact request that has changed.
type rotating struct {
	leaves map[string]uint64
	streak map[string]int // how often each leaf has changed in a row
}

// Observe notes the readings of one response and returns the pointers to members that are volatile
// from now on.
func (v *Volatility) Observe(
	reference string, readings []Reading, at time.Time,
) (volatile []string) {
	if v.seen == nil {
		v.seen = map[string]*rotating{}
	}
	for _, r := range readings {
		key := reference + "\x00" + r.ID
		v.compare(listings.OperationContactRequests, key, r.Left, at)
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
	return volatile
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

// ObservePage notes what a page of a walk shows, and the members in which most of its insertions
// have changed.
func (v *Volatility) ObservePage(page []Listed, rotating []string) {
	for _, l := range page {
		v.compare(listings.OperationInsertions, l.Reference, l.Left, l.At)
	}
	for _, path := range rotating {
		if v.rotating == nil {
			v.rotating = map[string]bool{}
		}
		v.rotating[path] = true
	}
}

// ObserveWalk returns the pointers to members that are volatile from now on, at the end of a walk.
func (v *Volatility) ObserveWalk() (volatile []string) {
	walks := map[string]int{}
	for path := range v.rotating {
		if walks[path] = v.walks[path] + 1; walks[path] >= volatileWalks {
			volatile = append(volatile, path)
			delete(walks, path)
		}
	}
	v.walks, v.rotating = walks, nil
	return volatile
}

// compare notes the values of members of a record that are left out.
func (v *Volatility) compare(
	op listings.Operation, record string, left map[string]uint64, at time.Time,
) {
	for path, value := range left {
		if v.since.IsZero() {
			v.since, v.values, v.moved = at, map[member]uint64{}, map[member]time.Time{}
		}
		key := member{op, record, path}
		was, known := v.values[key]
		if known && was != value {
			v.moved[member{op, "", path}] = at
		}
		if known || len(v.values) < volatileValues {
			v.values[key] = value
		}
	}
}

// LeaveOut leaves members out of the digests of an operation's records, and names them in one
// event. It takes back what has been still for a day: other rules renew digests silently.
func (v *Volatility) LeaveOut(
	state store.Agency, o Observation, op listings.Operation, volatile []string,
) (e Effects) {
	seen := !v.since.IsZero() && o.At.Sub(v.since) >= stillSeen
	var all []store.Volatile
	for _, one := range state.Volatile {
		if one.Operation == string(op) {
			switch moved := v.moved[member{op, "", one.Path}]; {
			case moved.Sub(one.Changed) >= stillSeen:
				one.Changed = moved // what is remembered lags by an hour, so that few walks commit
			case seen && o.At.Sub(one.Changed) >= stillFor && o.At.Sub(moved) >= stillFor:
				continue
			}
		}
		all = append(all, one)
	}
	var named []string
	for _, path := range slices.Sorted(slices.Values(volatile)) {
		isIt := func(v store.Volatile) bool { return v.Operation == string(op) && v.Path == path }
		if !slices.ContainsFunc(all, isIt) && len(all) < volatileMost {
			all = append(all, store.Volatile{Operation: string(op), Path: path, Changed: o.At})
			named = append(named, DescribePointer(path))
		}
	}
	if slices.Equal(all, state.Volatile) {
		return e
	}
	state.Volatile = all
	e.State = &state
	if len(named) > 0 {
		e.announce(&events.WatchSchemaDrifted{
			Common: o.common(events.OriginLive), Operation: string(op), Change: "volatile",
			Expected: "members that keep their value",
			Found:    "a different value at each reading of " + strings.Join(named, ", "),
		})
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
		if digest, err := listings.Digest(i.Record,
			slices.Concat(r.ignoreInsertion, hidden)); err == nil {
			i.Digest = digest
		}
	}
	return page
}

var leftSeed = maphash.MakeSeed()

// valueAt returns the value at a pointer into objects; nil if there is none.
func valueAt(record json.RawMessage, pointer string) json.RawMessage {
	for _, token := range strings.Split(pointer, "/")[1:] {
		inside, _ := members(record)
		record = inside[unescapePointer.Replace(token)]
	}
	return record
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
