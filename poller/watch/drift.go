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

// What happens to most records of a page at once is caused by the API, not by people: a member
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

// with adds what most records of a page show, of which comparable could have changed. added is what
// earlier pages had not shown; rotating are the paths at which most records have another value.
func (d Drift) with(
	changed [][]events.Change, comparable int,
) (all Drift, added []form, rotating []string) {
	count, differing, first := map[string]int{}, map[string]int{}, map[string]form{}
	for _, list := range changed {
		for _, c := range list {
			count[c.Path]++
			if f, differs := formOf(c); differs {
				if differing[c.Path]++; differing[c.Path] == 1 {
					first[c.Path] = f
				}
			}
		}
	}
	all = Drift{}
	maps.Copy(all, d)
	for path, n := range count {
		if n >= volatileChanges && 2*n > comparable {
			rotating = append(rotating, path)
		}
		n = differing[path]
		if _, is := d[path]; !is && n >= leastDrifting && 2*n > comparable {
			all[path] = first[path]
			added = append(added, first[path])
		}
	}
	slices.SortFunc(added, func(a, b form) int { return cmp.Compare(a.path, b.path) })
	return all, added, rotating
}

// without is a list of changes without what is drift.
func (d Drift) without(list []events.Change) []events.Change {
	return slices.DeleteFunc(slices.Clone(list), func(c events.Change) bool {
		_, differs := formOf(c)
		_, drifted := d[c.Path]
		return differs && drifted
	})
}

// maxDescribed is how many members an event names.
const maxDescribed = 8

// driftEvent reports what has drifted, in paths and JSON types, never values.
func driftEvent(agencyID string, list []form, at time.Time) *events.WatchSchemaDrifted {
	change := "appeared"
	var before, after []string
	for n, f := range list {
		if f.before != nothing { // also what has another type now: the former one is gone
			change = "vanished"
		}
		if n < maxDescribed {
			path := DescribePointer(f.path)
			before, after = append(before, f.before+" at "+path), append(after, f.after+" at "+path)
		}
	}
	more := ""
	if n := len(list) - maxDescribed; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return &events.WatchSchemaDrifted{
		Common:    events.Common{AgencyID: agencyID, ObservedAt: at},
		Operation: string(listings.OperationInsertions), Change: change,
		Expected: strings.Join(before, ", ") + more, Found: strings.Join(after, ", ") + more,
	}
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
