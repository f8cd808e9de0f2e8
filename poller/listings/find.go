package listings

import (
	"cmp"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxListDepth is how deep below the root a list may be.
const maxListDepth = 4

// maxRecords is how many elements a list may have. The widest question asks for a thousand.
const maxRecords = 20_000

// list is an array of the envelope that may be the list of records.
type list struct {
	path   jsontext.Pointer
	depth  int
	name   string         // of the member that holds it; "" for the root
	count  int            // its records, once it is the list of them
	raw    jsontext.Value // the array, or the one record that stands in its place
	parts                 // of its records, where a scanner has found them
	around []object       // that hold it, the root first; none for the root itself
}

// records yields the elements, or the one record that stands in place of the array.
func (l list) records() iter.Seq[jsontext.Value] {
	if l.raw.Kind() == jsontext.KindBeginObject {
		return func(yield func(jsontext.Value) bool) { yield(l.raw) }
	}
	return elements(l.raw)
}

// envelope is an answer around its records.
type envelope struct {
	root  jsontext.Value
	top   object // the members of the root
	lists []list // outer ones first, then by path, as the order of members says nothing
	twice string // path of an object that holds a name twice: which of the two is meant nobody knows
}

func openEnvelope(root jsontext.Value) *envelope {
	e := &envelope{root: root, top: parse(root)}
	e.explore(list{raw: root}, e.top)
	slices.SortStableFunc(e.lists, func(a, b list) int {
		return cmp.Or(a.depth-b.depth, strings.Compare(string(a.path), string(b.path)))
	})
	return e
}

// explore collects arrays. It does not look into them: what stands there are records, or nothing we know. o are the members
// of an object.
func (e *envelope) explore(at list, o object) {
	switch at.raw.Kind() {
	case jsontext.KindBeginArray:
		e.lists = append(e.lists, at)
	case jsontext.KindBeginObject:
		if at.depth == maxListDepth {
			return
		}
		for n, f := range o {
			if n > 0 && f.name == o[n-1].name && e.twice == "" {
				e.twice = "an object with a name twice, at depth " + strconv.Itoa(at.depth)
			}
			if named(f.name, errorNames) {
				continue // a list of errors is none of records
			}
			var inner object
			if f.value.Kind() == jsontext.KindBeginObject {
				inner = parse(f.value)
			}
			e.explore(at.below(o, f), inner)
		}
	}
}

// below is what a member of o holds, which l is. The objects around are copied, as siblings would write over each other's.
func (l list) below(o object, f field) list {
	return list{path: l.path.AppendToken(f.name), depth: l.depth + 1, name: f.name, raw: f.value, around: append(slices.Clip(l.around), o)}
}

// length is how many records there are, or one more than anybody would ask for.
func (l list) length() (n int) {
	if n = len(l.parts.records); n > 0 {
		return n
	}
	for range l.records() {
		if n++; n > maxRecords {
			break
		}
	}
	return n
}

// at returns what stands at a pointer into objects.
func (e *envelope) at(path jsontext.Pointer) (found list, ok bool) {
	found = list{raw: e.root}
	o := e.top
	for token := range path.Tokens() {
		if found.depth > 0 {
			o = parse(found.raw)
		}
		n := o.last(token)
		if n < 0 {
			return found, false
		}
		found = found.below(o, o[n])
	}
	return found, true
}

// last is where the last member of that name is, as nobody knows better which one is meant; -1: there is none.
func (o object) last(name string) int {
	for n := len(o) - 1; n >= 0; n-- {
		if o[n].name == name {
			return n
		}
	}
	return -1
}

// describe tells a body's shape: types, and the names of the outermost members as far as they look like names.
func describe(root jsontext.Value) string {
	if root.Kind() != jsontext.KindBeginObject {
		return typeOf(root)
	}
	var parts []string
	for name, value := range members(root) {
		if len(parts) == 8 {
			parts = append(parts, "…")
			break
		}
		if !looksLikeName.MatchString(name) {
			name = "(odd name)"
		}
		parts = append(parts, name+": "+typeOf(value))
	}
	if len(parts) == 0 {
		return "empty object"
	}
	return "object with " + strings.Join(parts, ", ")
}

var looksLikeName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_]{0,39}$`)

// genericNames are what lists of anything are called.
var genericNames = []string{
	"results", "items", "content", "data", "records", "elements", "entries", "list", "hits", "objects", "values", "rows",
	"edges", "nodes", "result", "resultList", "collection",
}

var (
	insertionNames = []string{"insertions", "listings", "properties", "realEstates", "insertionList", "propertyList", "listingList"}
	contactNames   = []string{"contactRequests", "requests", "leads", "inquiries", "enquiries", "applicants", "contactRequestList", "leadList", "emails"}
)

// isNone says whether a list is unmistakably the place of records and holds none: the root, or one with a known name at
// the root or one level down.
func (l list) isNone(names []string) bool {
	return isEmpty(l.raw) && (l.depth == 0 || l.depth <= 2 && (named(l.name, names) || named(l.name, genericNames)))
}

// answer reads a body as JSON.
func (x *exchange) answer(expected string) (*envelope, error) {
	if x.declaresFailure() {
		return nil, x.drift(expected, "an answer that declares its own failure by its content type")
	}
	body := trimBOM(x.body)
	if !x.scan.usual {
		if wrong := check(body); wrong != "" {
			return nil, x.drift(expected, wrong)
		}
	}
	e := openEnvelope(body)
	if e.twice != "" {
		return nil, x.drift(expected, e.twice)
	}
	if other := e.foreign(x.request); other != "" {
		return nil, x.drift("an answer about what was asked", other)
	}
	return e, nil
}

func (x *exchange) drift(expected, found string) *DriftError {
	return &DriftError{Request: x.request, Expected: expected, Found: found, Status: x.status}
}

// foreign says whether the envelope names another agency or insertion than the one that was asked for: something on the
// way has mixed up two answers.
func (e *envelope) foreign(r Request) string {
	for o := range e.heads() {
		for _, f := range o {
			s, ok := text(f.value)
			switch {
			case !ok || s == "":
			case f.plain == "agencyid" && !strings.EqualFold(s, r.AgencyID):
				return "another agencyId"
			case r.Operation == OperationContactRequests && slices.Contains(referenceNames, f.plain) && s != r.Reference:
				return "another propertyReferenceId"
			}
		}
	}
	return ""
}

// isForeignAgency says whether a record names another agency. Records may name theirs in a way of their own, so only what
// has the form of the one that was asked for is compared.
func isForeignAgency(record jsontext.Value, asked string) bool {
	for name, value := range members(record) {
		if SameName(name, "agencyid") && isOtherAgency(value, asked) {
			return true
		}
	}
	return false
}

func isOtherAgency(named jsontext.Value, asked string) bool {
	s, ok := text(named)
	return ok && usualAgency.MatchString(s) && usualAgency.MatchString(asked) && !strings.EqualFold(s, asked)
}

var usualAgency = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

// heads yields the objects that speak of the answer as a whole: the root, and the metadata in it.
func (e *envelope) heads() iter.Seq[object] {
	return func(yield func(object) bool) {
		if !yield(e.top) {
			return
		}
		for _, f := range e.top {
			if f.value.Kind() == jsontext.KindBeginObject && named(f.name, metaNames) && !yield(parse(f.value)) {
				return
			}
		}
	}
}
