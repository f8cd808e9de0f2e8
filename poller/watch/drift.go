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

// kind is the form without the type of what appears or vanishes.
func (f form) kind() form {
	switch {
	case f.before == nothing:
		f.after = ""
	case f.after == nothing:
		f.before = ""
	}
	return f
}

// tally counts how many records of a page show a form.
type tally struct {
	forms map[form]form // the first of each kind
	count map[form]int  // by kind
	known int           // records that could have shown it
}

func newTally() tally { return tally{forms: map[form]form{}, count: map[form]int{}} }

// add counts what differs in one record.
func (t *tally) add(list []events.Change) {
	for _, c := range list {
		if f, differs := formOf(c); differs {
			if _, seen := t.forms[f.kind()]; !seen {
				t.forms[f.kind()] = f
			}
			t.count[f.kind()]++
		}
	}
}

// leastDrifting is in how many records a drift shows at least.
const leastDrifting = 3

// drift is what most records show, beside what earlier pages of the walk have shown.
func (t *tally) drift(earlier Drift) Drift {
	d := Drift{kinds: maps.Clone(earlier.kinds)}
	for kind, n := range t.count {
		if !d.kinds[kind] && n >= leastDrifting && 2*n > t.known {
			if d.kinds == nil {
				d.kinds = map[form]bool{}
			}
			d.kinds[kind] = true
			d.added = append(d.added, t.forms[kind])
		}
	}
	slices.SortFunc(d.added, func(a, b form) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.before, b.before), cmp.Compare(a.after, b.after))
	})
	return d
}

// Drift is the forms that are drift in a walk. The zero value holds none.
type Drift struct {
	kinds map[form]bool
	added []form // by the last page
}

// without is a list of changes without what is drift.
func (d Drift) without(list []events.Change) []events.Change {
	return slices.DeleteFunc(list, func(c events.Change) bool {
		f, differs := formOf(c)
		return differs && d.kinds[f.kind()]
	})
}

// event reports what the last page has added; nil if that is nothing.
func (d Drift) event(agencyID string, at time.Time) *events.WatchSchemaDrifted {
	if len(d.added) == 0 {
		return nil
	}
	e := &events.WatchSchemaDrifted{
		Common: events.Common{AgencyID: agencyID, ObservedAt: at}, Operation: string(listings.OperationInsertions),
	}
	e.Expected, e.Found = describeForms(d.added)
	e.Change = "vanished" // also what has another type now: the former one is gone
	if !slices.ContainsFunc(d.added, func(f form) bool { return f.before != nothing }) {
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
