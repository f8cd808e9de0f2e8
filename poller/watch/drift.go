package watch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// What happens to most records at once is the doing of the API, not of those who publish and write: a member that comes,
// goes or takes another type everywhere is drift, said once, and no change of each record.

// form is how a member of a record differs: the JSON types that it had and has.
type form struct {
	path          string // RFC 6901 pointer
	before, after string // "nothing" where it is absent
}

// nothing is the type of what is absent.
const nothing = "nothing"

// formOf is the form of a change; drifting says that it may be drift, because the type is another.
func formOf(c events.Change) (f form, drifting bool) {
	f = form{c.Path, listings.TypeOf(c.Before), listings.TypeOf(c.After)}
	return f, f.before != f.after
}

// key is a short name of a form: paths come from outside and may be endless. Whatever type comes or goes is the same.
func (f form) key() string {
	kind := f.before + " " + f.after
	switch {
	case f.before == nothing:
		kind = "came"
	case f.after == nothing:
		kind = "went"
	}
	sum := sha256.Sum256([]byte(kind + f.path))
	return hex.EncodeToString(sum[:8])
}

// least is how many records a drift shows itself in, at least.
const leastDrifting = 3

// most says whether what happened to n of all known records is no accident.
func most(n, all int) bool { return n >= leastDrifting && 2*n > all }

// A drift is not announced again while it is in force, nor so long after a record of the form before was last met. No more
// forms than that are remembered.
const (
	driftMemory = 24 * time.Hour
	maxDrifts   = 64
	anyForm     = "*" // stands for more forms than are remembered
)

// Drift is what is drift among the differences of some records.
type Drift struct {
	forms   map[string]bool      // by key: is no change of a record
	added   []form               // was never announced
	remains map[string]time.Time // to be remembered; nil: nothing new
	wide    bool                 // most show it now; else it is only remembered
}

func (d Drift) holds(f form) bool { return d.forms[f.key()] || d.forms[anyForm] }

// without is a list of changes without what is drift.
func (d Drift) without(list []events.Change) []events.Change {
	if len(d.forms) == 0 {
		return list
	}
	return slices.DeleteFunc(list, func(c events.Change) bool {
		f, drifting := formOf(c)
		return drifting && d.holds(f)
	})
}

// tally counts how many of some records show a form.
type tally struct {
	forms map[string]form
	count map[string]int
	known int // records that could have shown it
}

func newTally() tally { return tally{forms: map[string]form{}, count: map[string]int{}} }

// add counts what differs in one record.
func (t *tally) add(list []form) {
	for _, f := range list {
		k := f.key()
		if _, seen := t.forms[k]; !seen {
			t.forms[k] = f
		}
		t.count[k]++
	}
}

// judge says what is drift: what most records show, and what is remembered and may still be met. Sure are those that
// are drift whatever the numbers say.
func (t tally) judge(remembered map[string]time.Time, at time.Time, inForce func(used time.Time) bool, sure map[string]bool) Drift {
	if len(t.forms) == 0 {
		return Drift{}
	}
	d := Drift{forms: map[string]bool{}}
	live := maps.Clone(remembered)
	maps.DeleteFunc(live, func(_ string, used time.Time) bool { return at.Sub(used) >= driftMemory && !inForce(used) })
	fresh := func(k string) bool { return !live[k].IsZero() }
	met := map[string]bool{}
	for k, f := range t.forms {
		late := k
		if !fresh(k) && fresh(anyForm) {
			late = anyForm
		}
		switch {
		case sure[k] || most(t.count[k], t.known):
			d.wide = true
			if !fresh(late) {
				d.added = append(d.added, f)
			}
		case !fresh(late) || !inForce(live[late]):
			continue
		}
		d.forms[k], met[late] = true, true
	}
	slices.SortFunc(d.added, func(a, b form) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.after, b.after)) })
	if len(met) > 0 {
		d.remains = remember(live, met, len(d.added) > maxDrifts, at)
	}
	return d
}

// remember adds the drifts that were met to all that are remembered, and forgets the oldest beyond what is kept.
func remember(all map[string]time.Time, met map[string]bool, many bool, at time.Time) map[string]time.Time {
	if all == nil || many {
		all = map[string]time.Time{}
	}
	if many {
		met = map[string]bool{anyForm: true}
	}
	for k := range met {
		all[k] = at
	}
	for len(all) > maxDrifts {
		delete(all, slices.MinFunc(slices.Sorted(maps.Keys(all)), func(a, b string) int { return all[a].Compare(all[b]) }))
	}
	return all
}

// maxDescribed is how many members an event names.
const maxDescribed = 8

// describeForms says in paths and JSON types, never values, what was and what is.
func describeForms(list []form) (expected, found string) {
	var before, after []string
	for _, f := range list[:min(len(list), maxDescribed)] {
		path := DescribePointer(f.path)
		before, after = append(before, f.before+" at "+path), append(after, f.after+" at "+path)
	}
	more := ""
	if n := len(list) - maxDescribed; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(before, ", ") + more, strings.Join(after, ", ") + more
}

// DescribePointer is a JSON pointer for people, as far as it looks like the names of members: a name may hold anything, a person too.
func DescribePointer(pointer string) string {
	if pointer == "" {
		return "the root"
	}
	tokens := strings.Split(pointer, "/")[1:]
	for n, token := range tokens {
		if n == maxDescribed {
			tokens = append(tokens[:n:n], "…")
			break
		}
		if !looksLikeName.MatchString(token) {
			tokens[n] = "(odd name)"
		}
	}
	return "/" + strings.Join(tokens, "/")
}

var looksLikeName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_.-]{0,39}$`)

// Remember keeps what is drift in the state of an agency, and announces what was never announced.
func (d Drift) Remember(state *store.Agency, agencyID string, op listings.Operation, at time.Time) []events.Payload {
	if d.remains == nil {
		return nil
	}
	o := state.Operation(string(op))
	o.Drifts = d.remains
	state.SetOperation(string(op), o)
	if len(d.added) == 0 {
		return nil
	}
	expected, found := describeForms(d.added)
	return []events.Payload{&events.WatchSchemaDrifted{
		Common: events.Common{AgencyID: agencyID, ObservedAt: at}, Operation: string(op), Expected: expected, Found: found,
	}}
}

// New says whether there is anything to remember.
func (d Drift) New() bool { return d.remains != nil }
