package listings

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxListDepth = 4 // how deep below the root a list is looked for
	nearby       = 2 // how deep an empty list, or a record in place of one, may be
)

// The score of a place is the sum of what it holds and what speaks for it. The values are chosen so
// that what is more important outweighs everything that is less so:
//
//   - An empty list in a place that is unmistakable beats records elsewhere that may be anything. For
//     contact requests a list of its own name is such a place, as agents have creation times too; for
//     insertions it is the learned place alone, as nothing else has references.
//   - A learned place outweighs names, but not records that are certainly contact requests where its
//     own are none, or as certain: those elsewhere may be the new ones, so that is a tie, which is drift.
const (
	holdsReferences  = 2000 // insertions
	holdsInsertion   = 1000 // is one insertion in place of a list
	holdsRequests    = 600  // a creation time or a score, and a person
	holdsLikely      = 200  // a creation time or a score
	holdsRequest     = 100  // is one record, and not where a list is expected
	holdsPersonOrID  = 40
	holdsObjects     = 30
	namedOwn         = 700
	namedGeneric     = 150
	learnedInsertion = 3000
	learnedRequests  = 750
	learnedEmpty     = 400
)

// place is where a list may be: an array, an object with index keys, an object that may be the only
// record of a list, or something empty where a list belongs.
type place struct {
	value
	up    *place // nil: the root
	depth int

	lone, sure, person bool // of an object where contact requests are looked for: is one, has what one has
}

// finder looks for the records of one response.
type finder struct {
	request  Request
	names    []string // of the list
	idFields []string // of contact requests, plain
	expected value    // what stands where records were found before; absent: nothing does
	known    bool     // there is such a place
	root     value
	places   []*place
	none     bool // nothing is counted, and no list holds a contact request
	vague    bool // a member is named like a list and is none
}

func (f *finder) contacts() bool { return f.request.Operation == OperationContactRequests }

// found is the list of records of a response; without doc the response says by its total alone that
// there are none.
type found struct {
	place
	flawed  bool          // the document is
	total   int           // how many records there are, as the response says; -1 if it does not
	leftOut jsontext.Kind // what stands in place of a list that has ended; 0: it has not
	Claims
}

// find returns the list of records in a body. It is the one place that decides what a response
// holds: a list, nothing by its own count, or something else. A configured place is the only one.
func (x *exchange) find(names, idFields []string, configured string) (found, error) {
	root, wrong := document{}, "a response that declares its own failure by its content type"
	if !x.declaresFailure() {
		root, wrong = decode(trimBOM(x.body))
	}
	what := "an array of objects with propertyReferenceId"
	if x.request.Operation == OperationContactRequests {
		what = "an array of contact requests"
	}
	if wrong != "" {
		return found{}, x.drift(what, wrong)
	}
	heads := root.object().heads(1)
	if other := foreign(heads, x.request); other != "" {
		return found{}, x.drift("a response about what was asked", other)
	}
	if slices.ContainsFunc(heads, value.saysFailure) {
		return found{}, x.drift(what, "a response that declares its own failure")
	}
	f := &finder{request: x.request, names: names, idFields: idFields, root: root.value}
	expected := x.place
	if configured != "" {
		expected = Place{Path: configured, Known: true}
	}
	at := f.expect(expected)
	f.explore(&place{value: root.value})
	if f.expected.raw != nil && !slices.ContainsFunc(f.places, f.isExpected) {
		f.look(at)
		f.places = append(f.places, at)
	}
	f.none = f.hasNone()
	if configured != "" {
		f.places = slices.DeleteFunc(f.places, func(p *place) bool { return !f.isExpected(p) })
	}
	l := found{flawed: root.flawed}
	scopes := at.around()
	switch best := f.best(); {
	case len(best) > 1:
		return found{}, x.drift(what, "several lists that may be it")
	case len(best) == 1:
		l.place = *best[0]
		scopes = l.around()
	case f.countsNone(at, x.header):
	case x.leavesOut(root.object(), at, expected):
		if at != nil {
			l.leftOut = at.kind()
		}
	case f.known:
		return found{}, x.drift(what+" at "+cmp.Or(expected.Printable(), "the root"), root.typeName())
	default:
		return found{}, x.drift(what, root.typeName())
	}
	if len(scopes) == 0 {
		scopes = []object{root.object()}
	}
	records := len(l.records())
	if records == 0 && slices.ContainsFunc(scopes, object.speaksOfError) {
		return found{}, x.drift(what, "an error beside an empty list")
	}
	l.total, l.Claims = totalOf(scopes, records, x.header), x.claimsOf(scopes, records)
	return l, nil
}

// leavesOut reports whether a response has null in place of its list or of what is around it, which
// is "none" for contact requests. Past the first page of insertions it is the end, as "" and {}
// are, and a HAL document that embeds nothing.
func (x *exchange) leavesOut(top object, at *place, p Place) bool {
	if top.speaksOfError() {
		return false
	}
	isNull := at != nil && at.kind() == jsontext.KindNull
	switch {
	case x.request.Operation == OperationContactRequests:
		isBare := len(top) == 1 && top[0].name.text == "_links"
		return (isNull || isBare) && totalOf([]object{top}, 0, x.header) <= 0
	case x.page == 0 || at == nil:
		return false
	case at.up != nil:
		return at.isEmpty()
	}
	return isNull || strings.HasPrefix(p.Path, "/_embedded/") && top.get("links", "page").isObject()
}

// expect notes the learned or configured place and returns what stands there; nil: nothing does.
func (f *finder) expect(known Place) *place {
	if f.known = known.Known; !f.known {
		return nil
	}
	p := &place{value: f.root}
	for token := range jsontext.Pointer(known.Path).Tokens() {
		at := value{}
		for _, m := range p.object() {
			if m.name.text == token {
				at = m
			}
		}
		if at.raw == nil {
			return p // what is around it may count its records
		}
		p = &place{value: at, up: p, depth: p.depth + 1}
	}
	f.expected = p.value
	return p
}

// isExpected compares places by where they begin, in which all values differ.
func (f *finder) isExpected(p *place) bool {
	return f.expected.raw != nil && &p.raw[0] == &f.expected.raw[0]
}

// look notes once what all places in an object have to know of it.
func (f *finder) look(p *place) {
	o := p.object()
	p.lone, p.sure, p.person = f.isLone(o), o.hint(surest, 0), o.hasPerson(0)
}

// explore collects the place and those in it. It does not look into arrays, where records stand or
// nothing that is known.
func (f *finder) explore(p *place) {
	f.look(p)
	f.places = append(f.places, p)
	if p.depth == maxListDepth || p.isIndexed() {
		return
	}
	for _, m := range p.object() {
		inner := &place{value: m, up: p, depth: p.depth + 1}
		switch {
		case m.isCalled(errorNames): // a list of errors is none of records
		case m.isArray(), m.isObject():
			f.explore(inner)
		case inner.isNamed(listNames):
			f.places = append(f.places, inner)
			f.vague = f.vague || p.depth == 0 && (m.isCalled(f.names) || m.isCalled(genericNames))
		}
	}
}

// best returns the places with the highest score: none, the one, or several between which there is
// no choice. Of empty lists either says the same.
func (f *finder) best() (best []*place) {
	highest := 0
	for _, p := range f.places {
		switch s := f.score(p); {
		case s > highest:
			highest, best = s, []*place{p}
		case s == highest && s > 0 && !p.isEmpty():
			best = append(best, p)
		}
	}
	if len(best) > 0 && !f.contacts() && !best[0].isEmpty() && countReferences(best[0]) == 0 {
		return nil // what stands where the insertions belong is something else
	}
	return best
}

// score says how surely a place is that of the records; 0: it is not.
func (f *finder) score(p *place) int {
	held, list := f.holds(p)
	learned := f.isExpected(p)
	own, generic := p.isNamed(f.names), p.isNamed(genericNames)
	nameless := !own && !generic && p.depth > 0
	switch {
	case held < 0:
		return 0
	case learned: // is what is asked about
	case held < holdsLikely && f.known && (held == 0 || !own && p.depth > 0):
		return 0 // records were elsewhere, and this may be anything
	case nameless && (held == 0 || held < holdsRequest && f.vague || held == holdsObjects && p.isCalled(sideNames)):
		return 0 // says too little
	}
	score := held
	switch {
	case own:
		score += namedOwn
	case generic:
		score += namedGeneric
	}
	switch {
	case learned && !f.contacts():
		score += learnedInsertion
	case learned && held == 0:
		score += learnedEmpty
	case learned && held < holdsRequests:
		score += learnedRequests
	}
	score = score*10 + 9
	if list && !nameless {
		score -= min(p.depth, 9) // further out is better, where that says anything
	}
	score *= 1_000_000
	if held == holdsReferences {
		score += min(countReferences(p), 999_999)
	}
	return score + 1
}

// holds says what a place holds, negative if it cannot be that of the records; list reports that it
// is a list, and not one record in place of it.
func (f *finder) holds(p *place) (held int, list bool) {
	if !f.contacts() {
		return f.holdsInsertions(p)
	}
	switch {
	case p.isList() && len(p.inner) == 0:
		if p.depth > nearby && !f.isExpected(p) && !p.up.isCalled(f.names) {
			return -1, true
		}
		return 0, true
	case p.isList():
		held = f.holdsContactRequests(p)
		if held > holdsLikely && (p.isCalled(sideNames) || p.isInside(func(up *place) bool { return up.isCalled(insertionMembers) })) {
			held = holdsLikely // theirs have times and addresses too
		}
		if f.isPart(p, held) {
			held = -1
		}
		return held, true
	case p.lone:
		switch {
		case f.isExpected(p), p.depth <= nearby && p.isCalled(listNames), p.onlyOf(listNames):
			if p.person {
				return holdsRequests, false
			}
			return holdsLikely, false
		case p.depth == 0, p.depth <= nearby && p.isCalled(wrapperNames):
			return holdsRequest, false
		}
	case p.depth > 0 && p.isEmpty() && f.none && !p.isInside(func(up *place) bool { return up.sure }):
		return 0, false
	}
	return -1, false
}

func (f *finder) holdsContactRequests(p *place) (held int) {
	held = -1
	sure, person := false, false
	for _, e := range p.records() {
		if !isFilled(e) {
			continue
		}
		o := e.object()
		sure, person = sure || o.hint(surest, 1), person || o.hasPerson(1)
		switch {
		case sure && person:
			return holdsRequests
		case sure:
			held = holdsLikely
		case person || o.hint(f.idFields, 1):
			held = max(held, holdsPersonOrID)
		default:
			held = max(held, holdsObjects)
		}
	}
	return held
}

// isPart reports whether a list is part of one contact request, such as its telephone numbers, and
// does not look more like contact requests than that one.
func (f *finder) isPart(p *place, held int) bool {
	return p.isInside(func(up *place) bool { return up.lone && (held <= holdsLikely || up.person) })
}

// hasNone reports whether the response counts nothing, and no list in it holds anything: something
// empty where the list of contact requests belongs means that there are none then.
func (f *finder) hasNone() bool {
	return f.contacts() && f.root.object().highest() <= 0 && !slices.ContainsFunc(f.places, func(l *place) bool {
		return l.isList() && !l.isCalled(sideNames) && f.holdsContactRequests(l) > 0
	})
}

func (f *finder) holdsInsertions(p *place) (held int, list bool) {
	switch {
	case p.isList() && countReferences(p) > 0:
		return holdsReferences, true
	case p.isList() && len(p.inner) == 0:
		if p.depth > nearby && !f.isExpected(p) {
			return -1, true
		}
		return 0, true
	case p.isList():
		if f.isExpected(p) || !slices.ContainsFunc(p.records(), isFilled) {
			return -1, true
		}
		return holdsObjects, true
	}
	isListed := f.isExpected(p) || p.depth <= nearby && p.isCalled(listNames) || p.onlyOf(listNames)
	switch isOne := p.reference() != ""; {
	case isListed && isOne:
		return holdsInsertion + 1, false // rather than what it is all of
	case isListed && countLone(p.value) == 1:
		return holdsInsertion, false
	case isOne && p.depth == 0:
		return holdsRequest, false
	}
	return -1, false
}

func countReferences(p *place) (n int) {
	for _, e := range p.records() {
		if _, reference := referenced(e); reference != "" {
			n++
		}
	}
	return n
}

// countLone is how many insertions an object is or has as members: of several only one would be
// read.
func countLone(v value) (n int) {
	if v.reference() != "" {
		return 1
	}
	for _, m := range v.object() {
		if m.reference() != "" {
			n++
		}
	}
	return n
}

func (p *place) path() jsontext.Pointer {
	if p.up == nil {
		return ""
	}
	return p.up.path().AppendToken(p.name.text)
}

// around are the objects that hold a place, the root first.
func (p *place) around() (list []object) {
	for p != nil && p.up != nil {
		p = p.up
		list = append(list, p.object())
	}
	slices.Reverse(list)
	return list
}

// isNamed reports whether a place has one of the names, or is all that stands in what has.
func (p *place) isNamed(names []string) bool { return p.isCalled(names) || p.onlyOf(names) }

// onlyOf reports whether a place is the only element of what has one of the names, as
// <list><element/></list> becomes in JSON.
func (p *place) onlyOf(names []string) bool {
	return p.up != nil && len(p.up.inner) == 1 && p.up.isCalled(names) && (p.isCalled(wrapperNames) || p.isCalled(insertionMembers))
}

// isInside reports whether one of the places around a place is what is looked for.
func (p *place) isInside(wanted func(*place) bool) bool {
	return p.up != nil && (wanted(p.up) || p.up.isInside(wanted))
}

// isList reports whether a place is an array or an object with index keys.
func (p *place) isList() bool { return p.isArray() || p.isIndexed() }

// isIndexed reports whether an object has objects under the keys "0", "1" and so on, as a list has
// in languages whose lists are maps. Beside them may stand how many they are.
func (v value) isIndexed() bool {
	elements := 0
	for _, m := range v.object() {
		_, natural := natural(m.name.text)
		switch {
		case natural && m.isObject():
			elements++
		case natural, m.isObject(), m.isArray():
			return false
		}
	}
	return elements > 0
}

// records are the elements of a list in their order, or the one record in place of it.
func (p *place) records() []value {
	switch {
	case p.isIndexed():
		list := slices.DeleteFunc(slices.Clone(p.inner), func(m value) bool { return !m.isObject() })
		slices.SortFunc(list, func(a, b value) int {
			return cmp.Or(cmp.Compare(len(a.name.text), len(b.name.text)), strings.Compare(a.name.text, b.name.text))
		})
		return list
	case p.isObject() && len(p.inner) > 0:
		return []value{p.value}
	}
	return p.array()
}

// isFilled reports whether an element may be a record: an object that is not empty and is not an
// error.
func isFilled(element value) bool {
	some, failure := false, false
	for _, m := range element.object() {
		if m.isCalled(surest) || m.isCalled(personal) && m.name.plain != "message" {
			return true
		}
		some = true
		failure = failure || (m.isCalled(errorNames) || m.name.plain == "errorcode") && !m.isEmpty()
	}
	return some && !failure
}

// isLone reports whether an object is unmistakably a contact request: it has a creation time or a
// score, an id or a person as well, and no member that an envelope would have.
func (f *finder) isLone(o object) bool {
	var sure, whose int
	for _, m := range o {
		switch {
		case m.isCalled(totalNames), m.isCalled(errorNames), m.isCalled(successNames),
			(m.isArray() || m.isObject()) && (m.isCalled(genericNames) || m.isCalled(contactNames)) && !m.areAddresses():
			return false
		case m.isCalled(surest):
			sure++
		case m.isCalled(personal), m.isCalled(f.idFields):
			whose++
		}
	}
	return sure > 0 && whose > 0
}

// areAddresses reports whether a list of e-mails is one of addresses: some services call the
// contact requests themselves so.
func (v value) areAddresses() bool {
	return v.name.plain == "emails" && v.isArray() && !slices.ContainsFunc(v.inner, func(e value) bool {
		return e.object().hint(surest, 1) || e.object().hint([]string{"message", "contact", "sender", "contactrequest"}, 1)
	})
}

// hint reports whether there is a member with one of the names, directly or in an object around the
// request, to a depth of deeper.
func (o object) hint(names []string, deeper int) bool {
	return o.has(func(m value) bool { return m.isCalled(names) }, deeper)
}

// hasPerson is hint for the names of a person's members that say something.
func (o object) hasPerson(deeper int) bool {
	return o.has(func(m value) bool { return m.isCalled(personal) && !m.isEmpty() }, deeper)
}

func (o object) has(wanted func(value) bool, deeper int) bool {
	return slices.ContainsFunc(o, func(m value) bool {
		return wanted(m) || deeper > 0 && m.isObject() && m.isCalled(wrapperNames) && m.object().has(wanted, deeper-1)
	})
}

// referenced is the record in an element of the list: the element, or the first direct member of it
// by name that holds a reference.
func referenced(element value) (record value, reference string) {
	if reference = element.reference(); reference != "" {
		return element, reference
	}
	for _, m := range element.object() {
		if reference = m.reference(); reference != "" {
			return m, reference
		}
	}
	return value{}, ""
}

// reference is the one that an object holds; empty if it holds none that could be remembered.
func (v value) reference() (reference string) {
	best := len(referenceNames)
	for _, m := range v.object() {
		if n := m.name.reference; n > 0 && n <= best {
			if s, ok := m.scalar(); ok && isReference(s) {
				reference, best = s, n
			}
		}
	}
	return reference
}

// isReference refuses what no store could keep as a key. Other odd references are kept; that they
// cannot be asked for shows when they are.
func isReference(s string) bool {
	return s != "" && len(s) <= maxReference && !strings.ContainsRune(s, 0)
}

// countsNone reports whether a response counts none, and no list contradicts it.
func (f *finder) countsNone(at *place, h http.Header) bool {
	scopes := append(at.around(), f.root.object())
	if at != nil {
		scopes = append(scopes, at.object())
	}
	highest := headerTotal(h)
	for _, o := range scopes {
		highest = max(highest, o.highest())
	}
	return highest == 0 && !slices.ContainsFunc(f.places, func(p *place) bool { return p.isList() && len(p.inner) > 0 })
}
