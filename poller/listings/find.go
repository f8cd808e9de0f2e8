package listings

import (
	"fmt"
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
	raw    jsontext.Value // the array
	within jsontext.Value // the object that holds it; nil for the root
}

// envelope is an answer around its records.
type envelope struct {
	root  jsontext.Value
	lists []list // in the order of the text, outer ones first
	twice string // path of an object that holds a name twice: which of the two is meant nobody knows
}

func openEnvelope(root jsontext.Value) *envelope {
	e := &envelope{root: root}
	e.explore(list{raw: root})
	slices.SortStableFunc(e.lists, func(a, b list) int { return a.depth - b.depth })
	return e
}

// explore collects arrays. It does not look into them: what stands there are records, or nothing we know.
func (e *envelope) explore(at list) {
	switch at.raw.Kind() {
	case jsontext.KindBeginArray:
		e.lists = append(e.lists, at)
	case jsontext.KindBeginObject:
		if at.depth == maxListDepth {
			return
		}
		seen := map[string]bool{}
		for name, value := range members(at.raw) {
			if seen[name] && e.twice == "" {
				e.twice = "an object with a name twice, at depth " + strconv.Itoa(at.depth)
			}
			seen[name] = true
			if named(name, errorNames) {
				continue // a list of errors is none of records
			}
			e.explore(list{path: at.path.AppendToken(name), depth: at.depth + 1, name: name, raw: value, within: at.raw})
		}
	}
}

// tooLong says whether a list is longer than anybody would ask for.
func (l list) tooLong() bool {
	n := 0
	for range elements(l.raw) {
		if n++; n > maxRecords {
			return true
		}
	}
	return false
}

// at returns what stands at a pointer into objects.
func at(raw jsontext.Value, path jsontext.Pointer) (found list, ok bool) {
	found = list{path: path, raw: raw}
	for token := range path.Tokens() {
		value, ok := member(found.raw, token)
		if !ok {
			return list{}, false
		}
		found.raw, found.within, found.name = value, found.raw, token
	}
	return found, true
}

// member is the last member of that name; nobody knows better which one is meant.
func member(raw jsontext.Value, name string) (found jsontext.Value, ok bool) {
	for n, value := range members(raw) {
		if n == name {
			found, ok = value, true
		}
	}
	return found, ok
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

// unhappy says whether an envelope declares its own failure.
func (e *envelope) unhappy() bool {
	for name, value := range members(e.root) {
		isFalse := value.Kind() == jsontext.KindFalse
		if named(name, errorNames) && !isEmpty(value) && !isFalse || named(name, successNames) && isFalse {
			return true
		}
	}
	return false
}

var (
	errorNames   = []string{"error", "errors"}
	successNames = []string{"success", "ok"}
)

// genericNames are what lists of anything are called.
var genericNames = []string{
	"results", "items", "content", "data", "records", "elements", "entries", "list", "hits", "objects", "values",
}

var (
	insertionNames = []string{"insertions", "listings", "properties", "realEstates"}
	contactNames   = []string{"contactRequests", "requests", "leads", "inquiries", "enquiries", "applicants"}
)

func named(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return plain(n) == plain(name) })
}

// plain makes names alike that differ in style only: createdAt, created_at, CreatedAt.
func plain(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return r
	}, name))
}

// isNone says whether a list is unmistakably the place of records and holds none: the root, or one with a known name at
// the root or one level down.
func (l list) isNone(names []string) bool {
	return isEmpty(l.raw) && (l.depth == 0 || l.depth <= 2 && (named(l.name, names) || named(l.name, genericNames)))
}

// noneByTotal says whether the answer counts none, and no list contradicts it.
func (e *envelope) noneByTotal() bool {
	for _, l := range e.lists {
		if !isEmpty(l.raw) {
			return false
		}
	}
	total, ok := countIn(e.root, append(totalNames, countNames...))
	return ok && total == 0
}

// Totals. What is called a count may be that of the page, so that it says something only where it is larger.
var (
	totalNames = []string{"total", "totalCount", "totalElements", "totalItems", "totalNumberOfItems"}
	countNames = []string{"count", "resultCount"}
	metaNames  = []string{"meta", "pagination", "paging", "page", "pageInfo", "metadata"}
)

// total is how many records there are, as the answer says beside the list or at the root; -1 if it does not say.
func (e *envelope) total(l list, records int) int {
	for _, o := range []jsontext.Value{l.within, e.root} {
		if n, ok := countIn(o, totalNames); ok {
			return n
		}
		if n, ok := countIn(o, countNames); ok && n > records {
			return n
		}
	}
	return -1
}

// countIn looks for a non-negative integer under one of the names, in the object and in its metadata.
func countIn(o jsontext.Value, names []string) (int, bool) {
	for _, name := range names {
		if n, ok := count(o, name); ok {
			return n, true
		}
	}
	for _, meta := range metaNames {
		inner, _ := member(o, meta)
		for _, name := range names {
			if n, ok := count(inner, name); ok {
				return n, true
			}
		}
	}
	return 0, false
}

func count(o jsontext.Value, name string) (int, bool) {
	value, _ := member(o, name)
	digits, ok := number(value)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0
}

// answer reads a body as JSON.
func (x *exchange) answer(expected string) (*envelope, error) {
	body := trimBOM(x.body)
	if wrong := check(body); wrong != "" {
		return nil, x.drift(expected, wrong)
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
	if s, ok := textOf(e.root, "agencyId"); ok && !strings.EqualFold(s, r.AgencyID) {
		return "another agencyId"
	}
	if r.Operation == OperationContactRequests {
		for _, name := range referenceNames {
			if s, ok := textOf(e.root, name); ok && s != r.Reference {
				return fmt.Sprintf("another %s", name)
			}
		}
	}
	return ""
}

// textOf is the text of a direct member, unless it is empty.
func textOf(o jsontext.Value, name string) (string, bool) {
	value, _ := member(o, name)
	s, ok := text(value)
	return s, ok && s != ""
}
