package watch

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
)

// What happens to most records of a page at once is the doing of the API, not of people: a member
// that appears, vanishes or takes another type everywhere is drift, reported once in a walk, and no
// change of each record.

// form is how a member of a record differs: the JSON types that it had and has.
type form struct {
	path          string // RFC 6901 pointer
	before, after string // "nothing" where it is absent
}

// nothing is the type of what is absent.
const nothing = "nothing"

// formOf is the form of a change, unless the type is the same.
func formOf(c events.Change) (f form, differs bool) {
	f = form{c.Path, listings.TypeOf(c.Before), listings.TypeOf(c.After)}
	return f, f.before != f.after
}

// Drift is what has drifted in a walk, by path. The zero value holds nothing.
type Drift map[string]form

// leastDrifting is the minimum number of records in which a drift shows.
const leastDrifting = 3

// with adds what most records of a page show, of which known could have changed; added is what
// earlier pages had not shown.
func (d Drift) with(changed [][]events.Change, known int) (all Drift, added []form) {
	count, first := map[string]int{}, map[string]form{}
	for _, list := range changed {
		for _, c := range list {
			if f, differs := formOf(c); differs {
				if count[f.path]++; count[f.path] == 1 {
					first[f.path] = f
				}
			}
		}
	}
	all = maps.Clone(d)
	for path, n := range count {
		if _, is := d[path]; !is && n >= leastDrifting && 2*n > known {
			if all == nil {
				all = Drift{}
			}
			all[path] = first[path]
			added = append(added, first[path])
		}
	}
	slices.SortFunc(added, func(a, b form) int { return cmp.Compare(a.path, b.path) })
	return all, added
}

// without is a list of changes without what is drift.
func (d Drift) without(list []events.Change) []events.Change {
	return slices.DeleteFunc(slices.Clone(list), func(c events.Change) bool {
		_, differs := formOf(c)
		_, drifted := d[c.Path]
		return differs && drifted
	})
}

// driftEvent reports what has drifted.
func driftEvent(agencyID string, list []form, at time.Time) *events.WatchSchemaDrifted {
	e := &events.WatchSchemaDrifted{
		Common:    events.Common{AgencyID: agencyID, ObservedAt: at},
		Operation: string(listings.OperationInsertions),
	}
	e.Expected, e.Found = describeForms(list)
	e.Change = "vanished" // also what has another type now: the former one is gone
	if !slices.ContainsFunc(list, func(f form) bool { return f.before != nothing }) {
		e.Change = "appeared"
	}
	return e
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

// DescribePointer is a JSON pointer for people, as far as it looks like the names of members: a
// name may hold anything, a person too.
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
