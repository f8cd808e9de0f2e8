package listings

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxListDepth = 4 // how deep below the root a list is looked for
	nearby       = 2 // how deep an empty list, or a record in place of one, may be
)

// grade says how surely a value is a record.
type grade int

const (
	gradeNone   grade = iota // no object, an empty one, or an error
	gradeObject              // may be anything
	gradeHinted              // a person or an id
	gradeLikely              // a creation time or a score
	gradeSure                // a creation time or a score, and a person; a reference, of insertions
)

// place is where the records may be: an array, an object with index keys, an object that may be the
// only record of a list, or something empty where a list belongs.
type place struct {
	value
	up    *place // nil: the root
	depth int

	records  []value // the elements in their order, or the one record in place of a list
	isList   bool
	grade    grade // the highest of its records
	inRecord bool  // it is inside of what looks like a record
	inDated  bool  // it is inside of what has a creation time, so that it may be of a record
}

// finder looks for the records of one response.
type finder struct {
	contacts bool     // are looked for, not insertions
	names    []string // of the list
	idFields []string // of contact requests, plain
	known    bool     // records were found before, or their place is configured
	expected value    // what is there; absent: nothing is
	places   []*place
	none     bool // nothing is counted, and no list holds what may be a contact request
	vague    bool // a member is named like a list and is none
}

// Place is where the records of an operation stood in earlier responses.
type Place struct {
	Known bool
	Path  string // JSON pointer to the list; "" is the root
}

// Place is where the records of a response stand.
func (e Envelope) Place() Place { return Place{Known: e.Found, Path: e.Path} }

// Printable is the path, with a remark in place of names that may be values.
func (p Place) Printable() string {
	names := strings.Split(p.Path, "/")
	for n, name := range names {
		if n > 0 && !looksLikeName.MatchString(name) {
			names[n] = "(odd name)"
		}
	}
	return strings.Join(names, "/")
}

var looksLikeName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_]{0,39}$`)

// find returns the records of a body, and what the response says around them. It is the one place
// that decides what a response holds: a list, none, or something else. A configured place is the
// only one.
func (x *exchange) find(names, idFields []string, configured string) (Envelope, []value, error) {
	what := "an array of objects with propertyReferenceId"
	if x.asksContacts() {
		what = "an array of contact requests"
	}
	root, wrong := x.decode()
	if wrong != "" {
		return Envelope{}, nil, x.drift(what, wrong)
	}
	f := &finder{contacts: x.asksContacts(), names: names, idFields: idFields}
	expected := x.place
	if configured != "" {
		expected = Place{Path: configured, Known: true}
	}
	last := f.expect(root, expected)
	f.explore(&place{value: root})
	if f.expected.raw != nil && !slices.ContainsFunc(f.places, f.isExpected) {
		f.add(last)
	}
	f.none = f.contacts && root.object().highest() <= 0 &&
		!slices.ContainsFunc(f.places, (*place).holdsSomething)
	e, list := x.envelope(), place{up: last}
	switch best := f.best(configured != ""); {
	case len(best) > 1:
		return e, nil, x.drift(what, "several lists that may be it")
	case len(best) == 1:
		if e.Found = best[0].isList || !best[0].isEmpty(); e.Found {
			e.Path = string(best[0].path())
		}
		list = *best[0]
	case f.countsNone(root.object(), last, e.Total),
		f.showsNone(root.object(), last, configured != ""):
	case x.isPastEnd(root.object(), last):
		e.pastEnd, e.Found, e.Path = true, true, x.place.Path
		e.oddEnd = last.kind() != jsontext.KindNull
	case f.known:
		return e, nil, x.drift(what+" at "+cmp.Or(expected.Printable(), "the root"), root.typeName())
	default:
		return e, nil, x.drift(what, root.typeName())
	}
	scopes := append([]object{root.object()}, list.around()...)
	if len(list.records) == 0 && slices.ContainsFunc(scopes, object.speaksOfError) {
		return e, nil, x.drift(what, "an error beside an empty list")
	}
	x.readClaims(&e, scopes, len(list.records))
	elements := slices.DeleteFunc(slices.Clone(list.records), func(record value) bool {
		g := f.gradeOf(record)
		return g != gradeSure && (g == gradeNone || !f.contacts)
	})
	e.Unreadable = len(list.records) - len(elements)
	return e, elements, nil
}

// expect notes what is at the place where records were found before or are configured to be. It
// returns the innermost place on the way there that is.
func (f *finder) expect(root value, known Place) *place {
	p := &place{value: root}
	if f.known = known.Known; !f.known {
		return nil
	}
	for token := range jsontext.Pointer(known.Path).Tokens() {
		n := slices.IndexFunc(p.object(), func(m value) bool { return m.name.text == token })
		if n < 0 {
			return p
		}
		p = &place{value: p.inner[n], up: p, depth: p.depth + 1}
	}
	f.expected = p.value
	return p
}

// isExpected compares places by where they begin, in which all values differ.
func (f *finder) isExpected(p *place) bool {
	return f.expected.raw != nil && &p.raw[0] == &f.expected.raw[0]
}

// explore adds a place and those in it. It does not look into arrays, where records stand or
// nothing that is known.
func (f *finder) explore(p *place) {
	f.add(p)
	isRecord := f.isRecord(p.object())
	if p.depth == maxListDepth || p.isList || isRecord && p.grade == gradeSure {
		return
	}
	isDated := p.object().has(surest)
	for _, m := range p.object() {
		inner := &place{value: m, up: p, depth: p.depth + 1}
		inner.inRecord, inner.inDated = p.inRecord || isRecord, p.inDated || isDated
		switch {
		case m.isCalled(errorNames): // a list of errors is none of records
		case m.isArray(), m.isObject():
			f.explore(inner)
		case inner.isNamed(listNames):
			f.add(inner)
			f.vague = f.vague || p.depth == 0 && (m.isCalled(f.names) || m.isCalled(genericNames))
		}
	}
}

// add grades a place by what it holds.
func (f *finder) add(p *place) {
	if p.records, p.isList = p.elements(); !p.isList && p.isObject() && !p.isEmpty() {
		p.records = []value{p.value}
	}
	for _, e := range p.records {
		if p.grade = max(p.grade, f.gradeOf(e)); p.grade == gradeSure {
			break
		}
	}
	f.places = append(f.places, p)
}

// gradeOf grades what may be a record.
func (f *finder) gradeOf(element value) grade {
	_, reference := referenced(element)
	switch {
	case len(element.object()) == 0:
		return gradeNone
	case !f.contacts && reference != "":
		return gradeSure
	case !f.contacts:
		return gradeObject
	}
	var isDated, hasPerson, isWritten, hasID, failed bool
	for scope := range element.object().scopes() {
		for _, m := range scope {
			switch {
			case m.isCalled(surest):
				isDated = true
			case m.isCalled(personal):
				hasPerson = hasPerson || !m.isEmpty()
				isWritten = isWritten || m.name.plain != "message"
			case m.isCalled(f.idFields):
				hasID = true
			case m.isCalled(errorNames), m.name.plain == "errorcode":
				failed = failed || !m.isEmpty()
			}
		}
	}
	switch {
	case failed && !isDated && !isWritten:
		return gradeNone
	case isDated && hasPerson:
		return gradeSure
	case isDated:
		return gradeLikely
	case hasPerson || hasID:
		return gradeHinted
	}
	return gradeObject
}

// best returns the places that rank first: none, the one, or several between which there is no
// choice. Of empty lists either says the same.
func (f *finder) best(onlyExpected bool) (best []*place) {
	var highest []int
	for _, p := range f.places {
		if onlyExpected && !f.isExpected(p) || !f.mayHold(p) {
			continue
		}
		rank := f.rank(p)
		switch order := slices.Compare(rank, highest); {
		case order > 0:
			highest, best = rank, []*place{p}
		case order == 0 && !p.isEmpty():
			best = append(best, p)
		}
	}
	if len(best) > 0 && !f.contacts && !best[0].isEmpty() && best[0].grade < gradeSure {
		return nil // something else is where the insertions belong
	}
	return best
}

// rank is by what a place precedes another one, the most important first.
func (f *finder) rank(p *place) []int {
	own, generic, expected := p.isNamed(f.names), p.isNamed(genericNames), f.isExpected(p)
	g, depth := p.grade, 0
	if p.isList && (own || generic) || p.isEmpty() {
		depth = p.depth // further out is better, where that says anything
	}
	if !f.contacts {
		return []int{
			number(expected), number(g == gradeSure), number(own), number(generic),
			int(g), -depth, countReferences(p.records),
		}
	}
	if p.isCalled(sideNames) || p.isInside(insertionMembers) {
		g = min(g, gradeLikely) // theirs have times and addresses too
	}
	if !p.isList && !f.isListed(p) {
		g = min(g, gradeHinted)
	}
	isSure := g == gradeSure
	return []int{
		// A list of its own name comes before what may be something else, even if it is empty, as
		// agents have times and addresses too.
		number(own && (expected || g >= gradeLikely) || isSure && generic),
		// That records were here before does not decide between two lists that are sure: the other
		// one may hold the new ones.
		number(expected && !isSure && g > gradeNone),
		number(own), number(isSure), number(expected && !isSure), number(g >= gradeLikely),
		number(generic), int(g), -depth,
	}
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// mayHold reports whether a place can be that of the records.
func (f *finder) mayHold(p *place) bool {
	isExpected, isOwn := f.isExpected(p), p.isNamed(f.names)
	isNamed := isOwn || p.isNamed(genericNames)
	switch {
	case p.isEmpty(): // which means "none" where the place is known or unmistakable
		return f.saysNone(p) && (isExpected || !f.known && f.isUsual(p))
	case !p.isList && f.contacts:
		isWrapper := !f.known && p.depth <= nearby && p.isCalled(wrapperNames)
		return !p.inRecord && f.isRecord(p.object()) && (f.isListed(p) || p.depth == 0 || isWrapper)
	case !p.isList:
		isWrapped := p.depth > 0 && len(p.inner) > 1 && countReferences(p.inner) == 1
		return (f.isListed(p) || p.depth == 0) && (p.reference() != "" || isWrapped)
	case p.grade == gradeNone, p.inRecord && p.grade < gradeSure:
		return false
	case isExpected:
		return f.contacts || p.grade == gradeSure
	case f.known && p.grade < gradeLikely:
		// Records were elsewhere, and this may be anything.
		return f.contacts && (isOwn || p.depth == 0)
	case !isNamed && p.depth > 0:
		return p.grade >= gradeLikely ||
			!f.vague && !(p.grade == gradeObject && p.isCalled(sideNames))
	}
	return true
}

// saysNone reports whether something empty is a list of none, or takes the place of one.
func (f *finder) saysNone(p *place) bool {
	return p.isEmpty() && (p.isList || f.none && p.depth > 0 && !p.inDated)
}

// isUsual reports whether a place is one that lists have where nothing is known of them.
func (f *finder) isUsual(p *place) bool {
	isNear := p.depth <= nearby || p.up.isCalled(f.names)
	return isNear && (p.depth == 0 || p.isNamed(f.names) || p.isNamed(genericNames))
}

// isListed reports whether a list belongs where a place is.
func (f *finder) isListed(p *place) bool {
	return f.isExpected(p) || p.depth <= nearby && p.isCalled(listNames) || p.onlyOf(listNames)
}

// isRecord reports whether an object is unmistakably a contact request: it has a creation time or a
// score, an id or a person as well, and no member that an envelope would have.
func (f *finder) isRecord(o object) bool {
	isOfEnvelope := func(m value) bool {
		isList := (m.isArray() || m.isObject()) &&
			(m.isCalled(genericNames) || m.isCalled(contactNames))
		return isList && m.name.plain != "emails" || // which may be addresses
			m.isCalled(totalNames) || m.isCalled(errorNames) || m.isCalled(successNames)
	}
	return f.contacts && o.has(surest) && (o.has(personal) || o.has(f.idFields)) &&
		!slices.ContainsFunc(o, isOfEnvelope)
}

// countsNone reports whether a response counts none, and no list contradicts it.
func (f *finder) countsNone(root object, at *place, header int) bool {
	highest := max(header, root.highest())
	for ; at != nil; at = at.up {
		highest = max(highest, at.object().highest())
	}
	isFilled := func(p *place) bool { return p.isList && len(p.inner) > 0 }
	return highest == 0 && !slices.ContainsFunc(f.places, isFilled)
}

// showsNone reports whether a response has nothing where contact requests were before, or something
// empty in another place that is unmistakable.
func (f *finder) showsNone(root object, at *place, configured bool) bool {
	isBare := len(root) == 1 && root[0].name.text == "_links" // as HAL leaves out a list
	isEmptyHere := at != nil && at.up != nil && at.isEmpty()
	isUsual := func(p *place) bool {
		return f.saysNone(p) && f.isUsual(p) &&
			!slices.ContainsFunc(p.around(), object.speaksOfError)
	}
	return f.none && (isBare || isEmptyHere || !configured && slices.ContainsFunc(f.places, isUsual))
}

// holdsSomething reports whether a place is a list of what may be contact requests.
func (p *place) holdsSomething() bool {
	return p.isList && p.grade > gradeNone && !p.isCalled(sideNames)
}

// isPastEnd reports whether a response leaves out the list of insertions because it has ended: past
// the first page null, "" or {} is in its place or around it, or HAL embeds nothing.
func (x *exchange) isPastEnd(root object, at *place) bool {
	if x.asksContacts() || x.page == 0 || at == nil || root.speaksOfError() {
		return false
	}
	isBare := strings.HasPrefix(x.place.Path, "/_embedded/") && root.get("links", "page").isObject()
	return at.kind() == jsontext.KindNull || at.up != nil && at.isEmpty() || at.up == nil && isBare
}

func countReferences(list []value) (n int) {
	for _, e := range list {
		if _, reference := referenced(e); reference != "" {
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

// around are the objects that hold a place, but for the root, outermost first.
func (p *place) around() []object {
	if p.up == nil || p.up.up == nil {
		return nil
	}
	return append(p.up.around(), p.up.object())
}

// isNamed reports whether a place has one of the names, or is the only member of what has.
func (p *place) isNamed(names []string) bool { return p.isCalled(names) || p.onlyOf(names) }

// onlyOf reports whether a place is the only element of what has one of the names, as
// <list><element/></list> becomes in JSON.
func (p *place) onlyOf(names []string) bool {
	return p.up != nil && len(p.up.inner) == 1 && p.up.isCalled(names) &&
		(p.isCalled(wrapperNames) || p.isCalled(insertionMembers))
}

// isInside reports whether one of the places around a place has one of the names.
func (p *place) isInside(names []string) bool {
	return p.up != nil && (p.up.isCalled(names) || p.up.isInside(names))
}

// elements are those of an array, or of an object that has objects under the keys "0", "1" and so
// on, as a list has in languages whose lists are maps. Beside them may stand how many they are.
func (v value) elements() (list []value, isList bool) {
	if v.isArray() {
		return v.inner, true
	}
	for _, m := range v.object() {
		_, isIndex := natural(m.name.text)
		switch {
		case isIndex && m.isObject():
			list = append(list, m)
		case isIndex, m.isObject(), m.isArray():
			return nil, false
		}
	}
	slices.SortFunc(list, func(a, b value) int {
		return cmp.Or(len(a.name.text)-len(b.name.text), strings.Compare(a.name.text, b.name.text))
	})
	return list, len(list) > 0
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

// reference is the one that an object holds; empty if it holds none that could be remembered: no
// store could keep it as a key. That an odd one cannot be asked for shows when it is.
func (v value) reference() string {
	for s := range v.object().all(referenceNames...) {
		if s, _ := s.scalar(); s != "" && len(s) <= maxReference && !strings.ContainsRune(s, 0) {
			return s
		}
	}
	return ""
}
