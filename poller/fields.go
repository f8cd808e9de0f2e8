package poller

import (
	"slices"
	"strings"

	"doorbell/poller/listings"
	"doorbell/store"
)

// fields are the short digests by which a later answer is compared field by field.
func fields(r listings.ContactRequest, rules rules) []store.Field {
	var list []store.Field
	for _, f := range r.Fields() {
		if slices.Contains(rules.ignoreContactRequest, "/"+f.Name) {
			continue
		}
		short := store.Field{Name: f.Name}
		if !f.Empty {
			copy(short.Digest[:], f.Digest[:])
			if short.Empty() {
				short.Digest[0] = 1
			}
		}
		list = append(list, short)
	}
	return list
}

// redacted names the person fields that held something and are null or empty now; an empty member that held the person
// stands for all of its own. A field that is absent is no redaction.
func redacted(before []store.Field, now listings.ContactRequest) []string {
	var names []string
	for _, f := range now.Fields() {
		if !f.Person || !f.Empty {
			continue
		}
		for _, b := range before {
			if !b.Empty() && (b.Name == f.Name || strings.HasPrefix(b.Name, f.Name+"/")) {
				names = append(names, b.Name)
			}
		}
	}
	return names
}

func empty(list []store.Field, names []string) []store.Field {
	list = slices.Clone(list)
	for i, f := range list {
		if slices.Contains(names, f.Name) {
			list[i].Digest = [3]byte{}
		}
	}
	return list
}

func changedFields(before, now []store.Field) []string {
	names := []string{}
	was := make(map[string][3]byte, len(before))
	for _, f := range before {
		was[f.Name] = f.Digest
	}
	for _, f := range now {
		if old, ok := was[f.Name]; !ok || old != f.Digest {
			names = append(names, f.Name)
		}
		delete(was, f.Name)
	}
	for name := range was {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
