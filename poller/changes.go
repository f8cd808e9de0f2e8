package poller

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"doorbell/events"
	"doorbell/poller/listings"
)

// changes lists what differs between two records, by path: objects member by member, everything else whole. Members
// below an ignored pointer never appear.
func changes(before, after []byte, ignored []string) []events.Change {
	found := compare(nil, "", before, after, ignored)
	slices.SortFunc(found, func(a, b events.Change) int { return strings.Compare(a.Path, b.Path) })
	return found
}

func compare(found []events.Change, path string, before, after json.RawMessage, ignored []string) []events.Change {
	if slices.Contains(ignored, path) || same(before, after) {
		return found
	}
	old, oldIsObject := members(before)
	now, nowIsObject := members(after)
	if !oldIsObject || !nowIsObject {
		return append(found, events.Change{Path: path, Before: before, After: after})
	}
	for name, value := range old {
		found = compare(found, path+"/"+pointerEscaper.Replace(name), value, now[name], ignored)
	}
	for name, value := range now {
		if _, both := old[name]; !both {
			found = compare(found, path+"/"+pointerEscaper.Replace(name), nil, value, ignored)
		}
	}
	return found
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// same compares two values in canonical form; nil is an absent one.
func same(a, b json.RawMessage) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	if bytes.Equal(a, b) {
		return true
	}
	da, errA := listings.Digest(a, nil)
	db, errB := listings.Digest(b, nil)
	return errA == nil && errB == nil && da == db
}

func members(v json.RawMessage) (map[string]json.RawMessage, bool) {
	if len(v) == 0 || v[0] != '{' {
		return nil, false
	}
	m := map[string]json.RawMessage{}
	return m, json.Unmarshal(v, &m) == nil
}
