package poller

import (
	"slices"
	"strings"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// fields are the short digests by which a later answer is compared field by field.
func fields(r listings.ContactRequest, rules rules) []store.Field {
	all := r.Fields()
	list := make([]store.Field, 0, len(all))
	for _, f := range all {
		if listings.SameName(lastName(f.Name), "score") || slices.Contains(rules.ignoreContactRequest, "/"+f.Name) {
			continue
		}
		short := store.Field{Name: f.Name}
		if !f.Empty {
			short.Digest = store.ShortenField([3]byte(f.Digest[:3]))
		}
		list = append(list, short)
	}
	return list
}

// lastName is the name of a field without that of the member that holds it.
func lastName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// redacted names the person fields that held something and are null or empty now; an empty member that held the person
// stands for all of its own. A field that is absent is no redaction.
func redacted(before []store.Field, now listings.ContactRequest) []string {
	var names []string
	for _, f := range now.Fields() {
		if !f.Erased {
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
			list[i].Digest = store.FieldDigest{}
		}
	}
	return list
}

func changedFields(before, now []store.Field) []string {
	names := []string{}
	was := make(map[string]store.FieldDigest, len(before))
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

// news names the fields that changed, without what is drift and without what was or is taken for the id, which is said
// elsewhere. silent says that nothing else has changed.
func (s contactsSight) news(before, now []store.Field, d drift) (names []string, silent bool) {
	all := changedFields(before, now)
	differing := len(all)
	came := comings(before, now, nil)
	names = slices.DeleteFunc(all, func(name string) bool {
		if s.isID(name) {
			return true
		}
		n := slices.IndexFunc(came, func(f form) bool { return f.path == "/"+name })
		return n >= 0 && d.holds(came[n])
	})
	return names, differing > 0 && len(names) == 0
}

// comings are the fields that came or went, as forms. record is where their types can be read; nil: they do not matter.
func comings(before, now []store.Field, record []byte) (forms []form) {
	has := func(list []store.Field, name string) bool {
		return slices.ContainsFunc(list, func(f store.Field) bool { return f.Name == name })
	}
	for _, f := range now {
		if !has(before, f.Name) {
			forms = append(forms, form{"/" + f.Name, nothing, typeAt(record, f.Name)})
		}
	}
	for _, f := range before {
		if !has(now, f.Name) {
			forms = append(forms, form{"/" + f.Name, something, nothing})
		}
	}
	return forms
}

// something is the type of what only a digest is left of.
const something = "something"

// typeAt is the JSON type of a field of a record.
func typeAt(record []byte, name string) string {
	all, _ := members(record)
	if value, ok := all[name]; ok {
		return jsonType(value)
	}
	outer, inner, nested := strings.Cut(name, "/")
	if deeper, ok := members(all[outer]); ok && nested && len(deeper[inner]) > 0 {
		return jsonType(deeper[inner])
	}
	return something
}

// judgeFields says which fields came or went in most of the known contact requests of an answer, or came in all of at
// least two and were never seen before: then all digests of the agency are renewed.
func (d *contactsDiff) judgeFields(s contactsSight, matches []match) {
	t := newTally()
	for n := range matches {
		m := &matches[n]
		if !m.known || m.twin || m.k.Redacted || m.k.Rules != s.rules.contactRequest {
			continue
		}
		if m.k.Digest == m.found.digest {
			t.known++
			continue
		}
		if len(redacted(m.k.Fields, *m.found.ContactRequest)) > 0 {
			continue // an erasure may empty members that were never shown: it is the person's, not the API's
		}
		t.known++
		forms := comings(m.k.Fields, fields(*m.found.ContactRequest, s.rules), m.found.Record)
		t.add(slices.DeleteFunc(forms, func(f form) bool { return s.isID(f.path[1:]) }))
	}
	sure := map[string]bool{}
	for key, f := range t.forms {
		sure[key] = f.before == nothing && t.known >= 2 && t.count[key] == t.known && !slices.Contains(s.names, f.path[1:])
	}
	d.drift = t.judge(s.drifts, s.at, func(used time.Time) bool { return s.at.Sub(used) < fieldsInForce }, sure)
	if d.fields = s.rules.fields; d.drift.wide {
		d.fields++
	} else {
		d.drift.remains = nil // what few show keeps nothing in force
	}
}

// fieldsInForce is how long after a drift of the fields of contact requests single ones may still show it.
const fieldsInForce = time.Hour

// isID says whether a field is taken for the id, was under other settings, or turned out to be none.
func (s contactsSight) isID(name string) bool {
	name = lastName(name)
	return name == s.idField || slices.Contains(s.pastIDs, name) || slices.Contains(s.noIDs, name)
}

// tellFields remembers a drift of fields and says it, in the transaction of the contact requests that showed it.
func (p *poll) tellFields(tx *store.Tx, state *store.Agency, d contactsDiff, at time.Time) error {
	if d.fields == state.FieldsVersion {
		return nil
	}
	state.FieldsVersion = d.fields
	if err := tx.PutAgency(p.a.id, *state); err != nil {
		return err
	}
	if err := putDrift(tx, p.a.id, listings.OperationContactRequests, d.drift, at); err != nil {
		return err
	}
	var err error
	*state, _, err = tx.Agency(p.a.id)
	return err
}
