package listings

import (
	"cmp"
	"iter"
	"net/http"
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

// envelope is an answer around its records.
type envelope struct {
	root  value
	top   object // the members of the root
	lists []list // the arrays, outer ones first, then by path, as the order of members says nothing
	lone  []list // the objects at the root or one level down that are called like a list
	twice string // says of an object that it holds a name twice: which of the two is meant nobody knows
}

// list is an array of the envelope that may be the list of records, or an object that may be the only one of them.
type list struct {
	value
	path   jsontext.Pointer
	depth  int
	around []object // that hold it, the root first; none for the root itself
}

// records yields the elements, or the one record that stands in place of the array.
func (l list) records() iter.Seq[value] {
	if l.isObject() {
		return func(yield func(value) bool) { yield(l.value) }
	}
	return l.elements()
}

// count is how many records there are.
func (l list) count() (n int) {
	for range l.records() {
		n++
	}
	return n
}

func (l list) isNamed(names ...[]string) bool {
	return slices.ContainsFunc(names, l.isCalled)
}

func openEnvelope(root value) *envelope {
	e := &envelope{root: root, top: root.object()}
	e.explore(list{value: root}, e.top)
	slices.SortStableFunc(e.lists, func(a, b list) int {
		return cmp.Or(a.depth-b.depth, strings.Compare(string(a.path), string(b.path)))
	})
	return e
}

// explore collects arrays. It does not look into them: what stands there are records, or nothing we know. o are the members
// of an object.
func (e *envelope) explore(at list, o object) {
	switch {
	case at.isArray():
		e.lists = append(e.lists, at)
	case at.isObject():
		if 0 < at.depth && at.depth <= 2 && at.isNamed(insertionNames, contactNames, genericNames) {
			e.lone = append(e.lone, at)
		}
		if at.depth == maxListDepth {
			return
		}
		if at.node().twice && e.twice == "" {
			e.twice = "an object with a name twice, at depth " + strconv.Itoa(at.depth)
		}
		for _, m := range o {
			if !m.isCalled(errorNames) { // a list of errors is none of records
				e.explore(at.below(o, m), m.object())
			}
		}
	}
}

// below is what a member of o holds, which l is. The objects around are copied, as siblings would write over each other's.
func (l list) below(o object, m value) list {
	return list{value: m, path: l.path.AppendToken(m.called().text), depth: l.depth + 1, around: append(slices.Clip(l.around), o)}
}

// at returns what stands at a pointer into objects.
func (e *envelope) at(path jsontext.Pointer) (found list, ok bool) {
	found = list{value: e.root}
	for token := range path.Tokens() {
		o := found.object()
		n := slices.IndexFunc(o, func(m value) bool { return m.called().text == token })
		if n < 0 {
			return found, false
		}
		found = found.below(o, o[n])
	}
	return found, true
}

// kind is what an operation looks for in an answer: how its records are told, and where they may be.
type kind struct {
	what     string                  // in words
	names    []string                // of the list
	lists    func() []list           // that may be it, outer ones first
	fits     func(list) bool         // whether an array holds records
	isRecord func(value) bool        // whether an object that stands where an array belongs is a record
	rules    func() []rule           // surest first
	instead  func(list) (list, bool) // what to take for the learned list; nil: always itself
}

// rule says which lists may be that of the records. The first rule by which a list may be decides. Of several it is the outer
// one, of those the one that holds most, where that counts; between two that are equal in all that there is no choice.
type rule struct {
	fits   func(list) bool
	holds  func(list) int // nil: how much it holds does not count
	guess  bool           // only where no other place was learned: else this one would be a guess
	single bool           // one of several would be a guess, even the outer one
	lone   bool           // is about objects that stand in place of a list
}

// locate is the one place where it is decided what an answer holds: a list, nothing by its own count (then the list is
// absent), or something else. What is configured is the only place. What was learned comes first, and only there is an
// empty list of any name none; records elsewhere are taken, an empty list elsewhere is not.
func (x *exchange) locate(e *envelope, k kind, configured string) (list, error) {
	if e.declaresFailure() {
		return list{}, x.drift(k.what, "an answer that declares its own failure: "+describe(e.root))
	}
	learned := x.expect.Dialect
	if configured != "" {
		learned = Dialect{Path: configured, Known: true}
	}
	l, ok, tie := e.find(k, learned, configured != "")
	switch {
	case tie:
		return list{}, x.drift(k.what, "several lists that may be it: "+describe(e.root))
	case ok && l.count() > maxRecords:
		return list{}, x.drift("a page of records", "more records than fit any page")
	case ok:
		return l, nil
	case e.countsNone(learned, x.header):
		return list{}, nil
	case learned.Known:
		return list{}, x.drift(k.what+" at "+printablePath(learned.Path), describe(e.root))
	}
	return list{}, x.drift(k.what, describe(e.root))
}

func (e *envelope) find(k kind, learned Dialect, only bool) (found list, ok, tie bool) {
	if learned.Known {
		if l, ok := e.at(jsontext.Pointer(learned.Path)); ok && k.isThere(l) {
			if only || k.instead == nil {
				return l, true, false
			}
			l, ok = k.instead(l)
			return l, ok, !ok
		}
		if only {
			return list{}, false, false
		}
	}
	lists := k.lists()
	for _, r := range k.rules() {
		if r.guess && learned.Known {
			continue
		}
		from := lists
		if r.lone {
			from = e.lone
		}
		if l, ok, tie := r.choose(from); ok || tie {
			return l, ok, tie
		}
	}
	return list{}, false, false
}

func (r rule) choose(lists []list) (found list, ok, tie bool) {
	most := 0
	for _, l := range lists {
		if !r.fits(l) || ok && !r.single && l.depth > found.depth {
			continue
		}
		holds := 0
		if r.holds != nil {
			holds = r.holds(l)
		}
		switch {
		case !ok || holds > most:
			found, ok, tie, most = l, true, false, holds
		case (r.single || holds == most) && !l.isEmpty(): // of two that are empty either says the same
			tie = true
		}
	}
	return found, ok && !tie, tie
}

// isThere says whether an expected place holds the list, or one record in place of it.
func (k kind) isThere(l list) bool {
	switch {
	case l.isArray():
		return l.isEmpty() || k.fits(l)
	case l.isObject():
		return k.isRecord(l.value)
	}
	return false
}

// isLone says whether an object stands for the list of records.
func (k kind) isLone(l list) bool { return l.isNamed(k.names, genericNames) && k.isRecord(l.value) }

func hasObjects(l list) bool {
	for e := range l.elements() {
		if isFilled(e) {
			return true
		}
	}
	return false
}

// insertionKind is how insertions are told: by the reference that each of them holds. An empty list is theirs if it is
// unmistakably the place of records: the root, or one with a known name at the root or one level down, and no list with
// such a name holds anything.
func (e *envelope) insertionKind() kind {
	holds := func(l list) (n int) {
		for e := range l.records() {
			if _, reference := referenced(e); reference != "" {
				n++
			}
		}
		return n
	}
	k := kind{what: expectedInsertions, names: insertionNames, isRecord: isLoneInsertion, lists: func() []list { return e.lists }}
	k.fits = func(l list) bool { return holds(l) > 0 }
	known := func(l list) bool { return l.isNamed(insertionNames, genericNames) }
	isOther := func(l list) bool { return hasObjects(l) && (l.depth == 0 || known(l)) }
	isNone := func(l list) bool {
		return l.isEmpty() && (l.depth == 0 || l.depth <= 2 && known(l)) && !slices.ContainsFunc(e.lists, isOther)
	}
	k.rules = func() []rule {
		return []rule{
			{fits: func(l list) bool { return known(l) && k.fits(l) }, holds: holds},
			{fits: k.fits, holds: holds},
			{fits: k.isLone, lone: true, single: true},
			{fits: isNone, guess: true},
		}
	}
	return k
}

// contactKind is how contact requests are told: by what their list is called or looks like. An empty list whose name says
// "contact requests" counts more than any other that is not empty; an empty one with a general name does not. What is part
// of one contact request is no list of them.
func (e *envelope) contactKind(idFields []string) kind {
	k := kind{what: expectedContactRequests, names: contactNames, fits: hasObjects, lists: func() []list { return e.withoutParts(idFields) }}
	k.isRecord = func(o value) bool { return o.object().isLoneContactRequest(idFields) }
	k.instead = func(learned list) (list, bool) { return e.instead(learned, idFields) }
	k.rules = func() []rule { return e.contactRules(k, idFields) }
	return k
}

func (e *envelope) contactRules(k kind, idFields []string) []rule {
	filled := func(fits func(list) bool) func(list) bool {
		return func(l list) bool { return hasObjects(l) && fits(l) }
	}
	none := func(fits func(list) bool) func(list) bool {
		return func(l list) bool {
			if !l.isEmpty() || !fits(l) {
				return false
			}
			other, sure := e.instead(l, idFields)
			return sure && other.path == l.path
		}
	}
	hinting := func(l list) bool { return hints(l, surest) > 0 }
	contact := func(l list) bool { return l.isNamed(contactNames) }
	generic := func(l list) bool { return l.isNamed(genericNames) }
	root := func(l list) bool { return l.depth == 0 }
	near := func(fits func(list) bool) func(list) bool {
		return func(l list) bool { return l.depth <= 2 && fits(l) }
	}
	unnamed := func(l list) bool { return hasObjects(l) && !e.namesAList() }
	return []rule{
		{fits: filled(root)},
		{fits: filled(contact)},
		{fits: none(near(contact)), guess: true},
		{fits: filled(func(l list) bool { return generic(l) && hinting(l) })},
		{fits: filled(hinting), single: true},
		{fits: filled(generic), guess: true},
		{fits: none(root), guess: true},
		{fits: none(near(generic)), guess: true},
		{fits: func(l list) bool { return unnamed(l) && (hints(l, personal) > 0 || hints(l, idFields) > 0) }, guess: true, single: true},
		{fits: func(l list) bool { return unnamed(l) && !l.isNamed(sideNames) }, guess: true, single: true},
		{fits: k.isLone, lone: true, single: true},
	}
}

// instead is what to take where a list stands next to others that unmistakably hold contact requests, as where a service
// keeps those that were read apart: the other one where this one is empty and its name does not say that there are none;
// neither where it would be a guess.
func (e *envelope) instead(l list, idFields []string) (list, bool) {
	if l.depth == 0 || l.isNamed(contactNames) {
		return l, true
	}
	var others []list
	for _, o := range e.withoutParts(idFields) {
		if o.path != l.path && o.path.Parent() == l.path.Parent() && !o.isNamed(sideNames) && hints(o, surest) > 0 && hints(o, personal) > 0 {
			others = append(others, o)
		}
	}
	switch none := l.isEmpty(); {
	case len(others) == 0 || !none && l.isNamed(genericNames):
		return l, true
	case none && len(others) == 1:
		return others[0], true
	}
	return list{}, false
}

// withoutParts is the lists without those that are part of one contact request which stands where an array belongs: its
// telephone numbers, or when it would like to come. A list that looks more like contact requests than what is around it
// stays.
func (e *envelope) withoutParts(idFields []string) []list {
	return slices.DeleteFunc(slices.Clone(e.lists), func(l list) bool {
		return slices.ContainsFunc(l.around, func(o object) bool {
			return o.isLoneContactRequest(idFields) && (hints(l, surest) == 0 || o.hint(personal, 0) && hints(l, personal) == 0)
		})
	})
}

// namesAList says whether a member is called like a list of records and is neither one nor an object around one: then no
// other list stands in for it.
func (e *envelope) namesAList() bool {
	return slices.ContainsFunc(e.top, func(m value) bool {
		return !m.isArray() && !m.isObject() && (m.isCalled(contactNames) || m.isCalled(genericNames))
	})
}

// isFilled says whether an element may be a contact request: an object that is not empty and is not an error.
func isFilled(element value) bool {
	some, failure := false, false
	for m := range element.members() {
		if m.isCalled(surest) || m.isCalled(personal) && m.called().plain != "message" {
			return true
		}
		some = true
		failure = failure || (m.isCalled(errorNames) || m.isCalled(errorCodes)) && !m.isEmpty()
	}
	return some && !failure
}

// isLoneContactRequest says whether an object that stands where an array belongs is unmistakably a contact request: it has
// a time of creation or a score, an id or a person as well, and no member that an envelope would have.
func (o object) isLoneContactRequest(idFields []string) bool {
	var sure, whose int
	for _, m := range o {
		switch {
		case m.isCalled(totalNames), m.isCalled(errorNames), m.isCalled(successNames),
			(m.isArray() || m.isObject()) && (m.isCalled(genericNames) || m.isCalled(contactNames)) && !m.areAddresses():
			return false
		case m.isCalled(surest):
			sure++
		case m.isCalled(personal), m.isCalled(idFields):
			whose++
		}
	}
	return sure > 1 || sure > 0 && whose > 0
}

// areAddresses says whether a list of e-mails is one of addresses: some services call the requests themselves so.
func (v value) areAddresses() bool {
	l := list{value: v}
	return v.called().plain == "emails" && v.isArray() && hints(l, surest) == 0 &&
		hints(l, []string{"message", "contact", "sender", "contactrequest"}) == 0
}

// hints counts the elements that have a member with one of the names, directly or in an object around the request.
func hints(l list, names []string) (n int) {
	for e := range l.elements() {
		if e.object().hint(names, 1) {
			n++
		}
	}
	return n
}

func (o object) hint(names []string, deeper int) bool {
	return slices.ContainsFunc(o, func(m value) bool {
		return m.isCalled(names) || deeper > 0 && m.isCalled(wrapperNames) && m.object().hint(names, deeper-1)
	})
}

// isLoneInsertion refuses an object of several insertions, of which only one would be read.
func isLoneInsertion(o value) bool {
	if o.reference() != "" {
		return true
	}
	n := 0
	for m := range o.members() {
		if m.reference() != "" {
			n++
		}
	}
	return n == 1
}

// referenced is the record in an element of the list: the element, or the direct member of it that holds the reference.
// Of several, one with a known name wins, then the first by name, so that their order does not matter.
func referenced(element value) (record value, reference string) {
	if reference = element.reference(); reference != "" {
		return element, reference
	}
	var best [2]string
	for m := range element.members() {
		r := m.reference()
		if r == "" {
			continue
		}
		rank := [2]string{"2", m.called().text}
		if i := slices.Index(insertionMembers, m.called().plain); i >= 0 {
			rank[0] = "1" + string(rune('a'+i))
		}
		if reference == "" || slices.Compare(rank[:], best[:]) <= 0 {
			record, reference, best = m, r, rank
		}
	}
	return record, reference
}

// reference is the one that an object holds; empty if it holds none that could be remembered. The last one counts where it
// stands twice.
func (v value) reference() (reference string) {
	best := len(referenceNames)
	for m := range v.members() {
		i := slices.Index(referenceNames, m.called().plain)
		if i < 0 || i > best {
			continue
		}
		if s, ok := m.scalar(); ok && isReference(s) {
			reference, best = s, i
		}
	}
	return reference
}

// isReference refuses what no store could keep as a key. Other odd ones are kept; that they cannot be asked for is said
// when they are.
func isReference(s string) bool {
	return s != "" && len(s) <= maxReference && !strings.ContainsRune(s, 0)
}

// answer reads a body as JSON.
func (x *exchange) answer(expected string) (*envelope, error) {
	if x.declaresFailure() {
		return nil, x.drift(expected, "an answer that declares its own failure by its content type")
	}
	root, wrong := x.decode()
	if wrong != "" {
		return nil, x.drift(expected, wrong)
	}
	e := openEnvelope(root)
	if e.twice != "" {
		return nil, x.drift(expected, e.twice)
	}
	if other := e.foreign(x.request); other != "" {
		return nil, x.drift("an answer about what was asked", other)
	}
	return e, nil
}

// declaresFailure says whether an answer is a failure by its content type, whatever its status is.
func (x *exchange) declaresFailure() bool {
	return strings.HasPrefix(strings.ToLower(x.header.Get("Content-Type")), "application/problem+json")
}

func (x *exchange) drift(expected, found string) *DriftError {
	return &DriftError{Request: x.request, Expected: expected, Found: found, Status: x.status}
}

// heads yields the objects that speak of the answer as a whole: the root, and the metadata in it.
func (e *envelope) heads() iter.Seq[object] {
	return func(yield func(object) bool) {
		if !yield(e.top) {
			return
		}
		for _, m := range e.top {
			if m.isObject() && m.isCalled(metaNames) && !yield(m.object()) {
				return
			}
		}
	}
}

// foreign says whether the envelope names another agency or insertion than the one that was asked for: something on the
// way has mixed up two answers.
func (e *envelope) foreign(r Request) string {
	for o := range e.heads() {
		for _, m := range o {
			s, ok := m.text()
			switch {
			case !ok || s == "":
			case m.isCalled(agencyNames) && !strings.EqualFold(s, r.AgencyID):
				return "another agencyId"
			case r.Operation == OperationContactRequests && m.isCalled(referenceNames) && s != r.Reference:
				return "another propertyReferenceId"
			}
		}
	}
	return ""
}

// isForeign says whether a record names another agency. Records may name theirs in a way of their own, so only what has
// the form of the one that was asked for is compared.
func (v value) isForeign(asked string) bool {
	for m := range v.members() {
		if !m.isCalled(agencyNames) {
			continue
		}
		if s, ok := m.text(); ok && usualAgency.MatchString(s) && usualAgency.MatchString(asked) && !strings.EqualFold(s, asked) {
			return true
		}
	}
	return false
}

var usualAgency = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

// declaresFailure says whether an answer declares its own failure, status 200 or not.
func (e *envelope) declaresFailure() bool {
	for o := range e.heads() {
		if slices.ContainsFunc(o, value.saysFailure) {
			return true
		}
	}
	return false
}

func (v value) saysFailure() bool {
	switch {
	case v.isCalled(errorNames):
		return !v.isEmpty() && !v.says("false", "0")
	case v.isCalled(failureNames):
		return v.says("true", "1")
	case v.isCalled(successNames):
		return v.says("false", "0")
	case v.isCalled(codeNames):
		return v.isFailureCode()
	case v.called().plain == "status":
		return v.isFailureStatus()
	}
	return false
}

// says is about a boolean, or a text or number that stands for one.
func (v value) says(word, digit string) bool {
	s, _ := v.scalar()
	return string(v.raw()) == word || s == digit || plain(s) == word
}

// isFailureCode says whether a value is an HTTP status of an error.
func (v value) isFailureCode() bool {
	s, _ := v.scalar()
	n, ok := natural(s)
	return ok && n >= 400 && n <= 599
}

func (v value) isFailureStatus() bool {
	if s, ok := v.text(); ok && containsAny(strings.ToLower(s), "error", "fail", "forbidden", "unauthorized", "denied") {
		return !strings.HasPrefix(plain(s), "no") // NO_ERROR
	}
	for m := range v.members() {
		if m.saysFailure() {
			return true
		}
	}
	return v.isFailureCode()
}

func containsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

const maxTotal = 1 << 40 // nobody has more; what is larger is no count

// totalOf is how many records there are, as the answer says beside the list, further out, or in a header; -1 if it does
// not say.
func (e *envelope) totalOf(l list, records int, h http.Header) int {
	for _, o := range slices.Backward(append([]object{e.top}, l.around...)) {
		for n := range o.counts(totalNames, 2) {
			return n
		}
		for n := range o.counts(countNames, 2) {
			if n > records {
				return n
			}
			break
		}
	}
	return headerTotal(h)
}

func headerTotal(h http.Header) int {
	for _, name := range totalHeaders {
		if n, ok := natural(strings.TrimSpace(h.Get(name))); ok && n <= maxTotal {
			return int(n)
		}
	}
	if parts := contentRange.FindStringSubmatch(h.Get("Content-Range")); parts != nil && parts[1] != "bytes" {
		if n, ok := natural(parts[2]); ok && n <= maxTotal {
			return int(n)
		}
	}
	return -1
}

// contentRange has the form "items 0-19/163".
var contentRange = regexp.MustCompile(`^([a-z]+) +[0-9*-]+/([0-9]+)$`)

// countsNone says whether the answer counts none, and neither a list nor another count contradicts it.
func (e *envelope) countsNone(learned Dialect, h http.Header) bool {
	if slices.ContainsFunc(e.lists, func(l list) bool { return !l.isEmpty() }) {
		return false
	}
	scopes := []object{e.top}
	if learned.Known {
		l, _ := e.at(jsontext.Pointer(learned.Path))
		scopes = append(append(scopes, l.around...), l.object())
	}
	none := headerTotal(h) == 0
	for _, o := range scopes {
		for n := range o.counts(slices.Concat(totalNames, countNames), 2) {
			if n > 0 {
				return false
			}
			none = true
		}
	}
	return none && headerTotal(h) <= 0
}

// counts yields the non-negative integers under the names, in the order of the names, in the object and then in its
// metadata, so many levels down.
func (o object) counts(names []string, deeper int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for m := range o.all(names...) {
			if n, ok := m.count(); ok && !yield(n) {
				return
			}
		}
		if deeper == 0 {
			return
		}
		for m := range o.all(metaNames...) {
			for n := range m.object().counts(names, deeper-1) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// count reads a number; some services say {"value": 12, "relation": "eq"}.
func (v value) count() (int, bool) {
	if v.isObject() {
		v = v.object().get("value")
	}
	digits, ok := v.number()
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && n <= maxTotal
}

// describe tells a body's shape: types, and the names of the outermost members as far as they look like names.
func describe(root value) string {
	if !root.isObject() {
		return root.typeName()
	}
	var parts []string
	for m := range root.members() {
		if len(parts) == 8 {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, printableName(m.called().text)+": "+m.typeName())
	}
	if len(parts) == 0 {
		return "empty object"
	}
	return "object with " + strings.Join(parts, ", ")
}

var looksLikeName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_]{0,39}$`)

// printableName is a name as it may stand in an error: one that does not look like one may be a value that somebody made a
// name of.
func printableName(name string) string {
	if looksLikeName.MatchString(name) {
		return name
	}
	return "(odd name)"
}

// printablePath is a path as it may stand in an error.
func printablePath(path string) string {
	if path == "" {
		return "the root"
	}
	for token := range jsontext.Pointer(path).Tokens() {
		if !looksLikeName.MatchString(token) {
			return "the place known"
		}
	}
	return path
}
