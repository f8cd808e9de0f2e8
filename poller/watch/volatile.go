package watch

import (
	"slices"
	"strings"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// A member that has another value at each reading, such as a relay address, a signed link or a counter, says nothing of a contact
// request. It is volatile when it has changed in most of those that change at all, in four readings in a row, ten times altogether.
// Then one event names it, and it is left out of digests.
const (
	volatileStreak  = 3 // changes that are seen member by member: the one before them is only known by the digest
	volatileChanges = 10
	volatileMost    = 16  // members of an agency that may be left out
	volatileWatched = 200 // contact requests of an agency that are compared at once
)

// Reading is what a response shows of a contact request that was known.
type Reading struct {
	ID     string
	Leaves map[string]uint64 // nil: it is as it was
}

// Volatility is what the last readings have shown of the contact requests of an agency that change each time. Its zero value has
// seen none.
type Volatility struct {
	seen map[string]*rotating // by insertion and id
}

type rotating struct {
	leaves map[string]uint64
	streak map[string]int // how often each leaf has changed in a row
}

// Observe notes the readings of one response and returns the pointers to members that are volatile from now on, sorted.
func (v *Volatility) Observe(reference string, readings []Reading) (volatile []string) {
	if v.seen == nil {
		v.seen = map[string]*rotating{}
	}
	for _, r := range readings {
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

// LeaveOut leaves members out of the digests of an agency's contact requests, and names them in one event.
func LeaveOut(state store.Agency, o Observation, volatile []string) (e Effects) {
	var fresh []string
	for _, path := range volatile {
		if !slices.Contains(state.Volatile, path) && len(state.Volatile)+len(fresh) < volatileMost {
			fresh = append(fresh, path)
		}
	}
	if len(fresh) == 0 {
		return e
	}
	state.Volatile = slices.Sorted(slices.Values(slices.Concat(state.Volatile, fresh)))
	e.State = &state
	e.announce(&events.WatchSchemaDrifted{
		Common: o.common(events.OriginLive), Operation: string(listings.OperationContactRequests), Change: "volatile",
		Expected: "members that stay as they are", Found: "another value at each reading of " + strings.Join(fresh, ", "),
	})
	return e
}
