package events

import "encoding/json"

// Change is one member of a record that differs. Path is an RFC 6901 pointer into the record; no Before means added, no
// After removed. Arrays are compared whole.
type Change struct {
	Path   string          `json:"path"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// maxChanges is the most that changes may take of a payload before they are told by their paths alone.
const maxChanges = 64 << 10

// CapChanges leaves out every before and after where the changes would take more than 64 KiB as JSON, and reports whether
// it did. Paths always stay. The list that is returned is never nil; the one that is given stays as it is.
func CapChanges(changes []Change) ([]Change, bool) {
	size := len("[]")
	for _, c := range changes {
		size += len(`{"path":,"before":,"after":},`) + len(c.Path) + len(c.Before) + len(c.After)
	}
	if size <= maxChanges {
		return nonNil(changes), false
	}
	paths := make([]Change, len(changes))
	for i, c := range changes {
		paths[i].Path = c.Path
	}
	return paths, true
}

// nonNil makes an empty list of none, which JSON writes as [] and not as null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func writeChanges(w *writer, changes []Change) {
	w.open("changes", '[')
	for _, c := range changes {
		w.comma()
		w.b = append(w.b, '{')
		w.text("path", c.Path)
		w.maybeRaw("before", c.Before)
		w.maybeRaw("after", c.After)
		w.close('}')
	}
	w.close(']')
}
