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

// Where the records of an answer are is decided here, once, by the two tables below.

const (
	maxListDepth = 4      // how deep below the root a list may be
	nearby       = 2      // how deep one may be that is taken by its name alone
	maxRecords   = 20_000 // how many elements a list may have. The widest question asks for a thousand
)

// kind is how the records of an operation are told.
type kind struct {
	what     string                    // in words
	names    []string                  // of their list
	fits     test                      // whether an array holds some
	isRecord func(*search, value) bool // whether an object that stands where an array belongs is one
	beside   bool                      // other lists may stand beside the learned one, see instead
	table    []row
}

// row says which lists may be that of the records, by where they are, which is also what they are called, and what they hold. The
// first row in which a list may be it decides. Of several it is the outer one, of those the one that holds most, where that
// counts; between two that are equal in all that there is no choice.
type row struct {
	at, holds test
	most      func(list) int // nil: how much a list holds does not count
	guess     bool           // only where no other place was learned: else this one would be a guess
	single    bool           // one of several would be a guess, even the outer one
}

type test func(*search, list) bool

// Insertions are told by the reference that each of them holds, whatever their list is called. An empty list is theirs if it is
// unmistakably the place of records, and no list in such a place holds anything.
var insertionRecords = kind{
	what: "an array of objects with propertyReferenceId", names: insertionNames, fits: hasReferences, isRecord: isLoneInsertion,
	table: []row{
		{at: known, holds: hasReferences, most: countReferences},
		{at: anywhere, holds: hasReferences, most: countReferences},
		{at: known, holds: hasOwnReference, single: true},
		{at: known, holds: loneRecord, single: true},
		{at: rootOrKnown, holds: nothingAnywhere, guess: true},
		{at: root, holds: hasOwnReference, guess: true},
	},
}

// Contact requests are told by what their list is called or looks like.
var contactRequestRecords = kind{
	what: "an array of contact requests", names: contactNames, fits: someObjects, isRecord: isLoneContactRequest, beside: true,
	table: []row{
		{at: root, holds: someObjects},
		{at: own, holds: someObjects},
		{at: own, holds: nothing, guess: true},
		{at: generic, holds: sureHints},
		{at: anywhere, holds: sureHints, single: true},
		{at: generic, holds: someObjects, guess: true},
		{at: rootOrKnown, holds: nothing, guess: true},
		{at: unnamed, holds: personsOrIDs, guess: true, single: true},
		{at: unnamedMain, holds: someObjects, guess: true, single: true},
		{at: known, holds: loneRecord, single: true},
		{at: alone, holds: loneRecord, guess: true, single: true},
	},
}

// The first column.
func anywhere(*search, list) bool        { return true }
func root(_ *search, l list) bool        { return l.depth == 0 }
func own(s *search, l list) bool         { return l.isCalled(s.names) }
func generic(_ *search, l list) bool     { return l.isCalled(genericNames) }
func known(s *search, l list) bool       { return own(s, l) || generic(s, l) }
func rootOrKnown(s *search, l list) bool { return root(s, l) || known(s, l) }

// alone is the whole response, or what it calls by the name of one record.
func alone(_ *search, l list) bool { return l.depth == 0 || l.value.isCalled(wrapperNames) }

// unnamed is any list, as long as no member is called like the list of records and is neither one nor an object around one.
func unnamed(s *search, _ list) bool {
	return !slices.ContainsFunc(s.top, func(m value) bool {
		return !m.isArray() && !m.isObject() && (m.isCalled(s.names) || m.isCalled(genericNames))
	})
}

func unnamedMain(s *search, l list) bool { return unnamed(s, l) && !l.isCalled(sideNames) }

// The second column.
func hasReferences(_ *search, l list) bool { return l.isArray() && countReferences(l) > 0 }

func countReferences(l list) (n int) {
	for e := range l.records() {
		if _, reference := referenced(e); reference != "" {
			n++
		}
	}
	return n
}

// hasOwnReference is an insertion itself, and not what it stands in.
func hasOwnReference(_ *search, l list) bool {
	return l.isObject() && !l.isIndexed() && l.reference() != ""
}

func loneRecord(s *search, l list) bool { return l.isObject() && s.isRecord(s, l.value) }

func someObjects(_ *search, l list) bool {
	for e := range l.elements() {
		if isFilled(e) {
			return true
		}
	}
	return false
}

func sureHints(s *search, l list) bool { return someObjects(s, l) && hints(l, surest) }

func personsOrIDs(s *search, l list) bool {
	return someObjects(s, l) && (hints(l, personal) || hints(l, s.idFields))
}

// nothing is an empty list that no other stands in for.
func nothing(s *search, l list) bool {
	if !l.isArray() && !s.standsForNone(l) || !l.isEmpty() || l.depth > nearby && !l.isWithin(s.names) {
		return false
	}
	best := s.instead(l)
	return len(best) == 1 && best[0].path == l.path
}

// nothingAnywhere is an empty list, if no list in a place for records holds anything.
func nothingAnywhere(s *search, l list) bool {
	return l.isArray() && l.isEmpty() && l.depth <= nearby && !slices.ContainsFunc(s.lists, func(l list) bool { return someObjects(s, l) && rootOrKnown(s, l) })
}

// standsForNone reports whether something empty where the list of contact requests belongs means that there are none: no list holds
// anything, nothing is counted, and it is not part of a contact request.
func (s *search) standsForNone(l list) bool {
	full := func(l list) bool { return l.isArray() && !l.isCalled(sideNames) && someObjects(s, l) }
	counts := slices.Concat(s.top.counts(totalNames, 2), s.top.counts(countNames, 2), []int{0})
	return s.beside && l.isNothing() && slices.Max(counts) == 0 && !slices.ContainsFunc(s.envelope.lists, full) &&
		!slices.ContainsFunc(l.around, func(o object) bool { return o.hint(surest, 0) })
}

// search is one look for the records of an answer.
type search struct {
	*envelope
	kind
	idFields []string // of contact requests
	lists    []list   // that may be it; nil: not collected yet
}

// locate finds the list of records in a body, and how many there are in all, -1 if the answer does not say. It is the one place
// where it is decided what an answer holds: a list, nothing by its own count (then the list is absent), or something else. What
// is configured is the only place. What was learned comes first, and only there is an empty list of any name none; records
// elsewhere are taken, an empty list elsewhere is not.
func (x *exchange) locate(k kind, idFields []string, configured string) (l list, total int, err error) {
	root, wrong := value{}, "an answer that declares its own failure by its content type"
	if !x.declaresFailure() {
		root, wrong = decode(trimBOM(x.body))
	}
	if wrong != "" {
		return l, -1, x.drift(k.what, wrong)
	}
	e := openEnvelope(root)
	switch other := e.foreign(x.request); {
	case e.twice != "":
		return l, -1, x.drift(k.what, e.twice)
	case other != "":
		return l, -1, x.drift("an answer about what was asked", other)
	case slices.ContainsFunc(e.heads(), value.saysFailure):
		return l, -1, x.drift(k.what, "an answer that declares its own failure: "+describe(root))
	}
	learned := x.expect.Dialect
	if configured != "" {
		learned = Dialect{Path: configured, Known: true}
	}
	s := &search{envelope: e, kind: k, idFields: idFields}
	switch found := s.find(learned, configured != ""); {
	case len(found) > 1:
		return l, -1, x.drift(k.what, "several lists that may be it: "+describe(root))
	case len(found) == 1:
		l = found[0]
	case e.countsNone(learned, x.header):
	case learned.Known:
		return l, -1, x.drift(k.what+" at "+cmp.Or(learned.Printable().Path, "the root"), describe(root))
	default:
		return l, -1, x.drift(k.what, describe(root))
	}
	records := l.count()
	if records > maxRecords {
		return l, -1, x.drift("a page of records", "more records than fit any page")
	}
	return l, e.totalOf(l, records, x.header), nil
}

// find returns the lists that are equally good: none, the one, or several between which there is no choice.
func (s *search) find(learned Dialect, only bool) []list {
	if learned.Known {
		switch l, ok := s.at(jsontext.Pointer(learned.Path)); {
		case ok && s.isThere(l) && s.beside && !only:
			return s.instead(l)
		case ok && s.isThere(l):
			return []list{l}
		case only:
			return nil
		}
	}
	for _, r := range s.table {
		if r.guess && learned.Known {
			continue
		}
		if best := s.choose(r); len(best) > 0 {
			return best
		}
	}
	return nil
}

// choose returns the lists of a row that are equally good. Of two that are empty either says the same.
func (s *search) choose(r row) (best []list) {
	for _, l := range s.candidates() {
		if !r.at(s, l) || !r.holds(s, l) {
			continue
		}
		order := 0 // to the best so far
		if len(best) > 0 && !r.single {
			order = best[0].depth - l.depth
		}
		if len(best) > 0 && order == 0 && r.most != nil {
			order = r.most(l) - r.most(best[0])
		}
		switch {
		case len(best) == 0 || order > 0:
			best = []list{l}
		case order == 0 && !l.isEmpty():
			best = append(best, l)
		}
	}
	return best
}

// isThere says whether an expected place holds the list, or one record in place of it.
func (s *search) isThere(l list) bool {
	return l.isArray() && (l.isEmpty() || s.fits(s, l)) || l.isObject() && s.isRecord(s, l.value) || s.standsForNone(l)
}

// instead is what to take where a list stands next to others that unmistakably hold contact requests, as where a service keeps
// those that were read apart: the other one where this one is empty and its name does not say that there are none; several where
// each would be a guess.
func (s *search) instead(l list) []list {
	if l.depth == 0 || own(s, l) {
		return []list{l}
	}
	var others []list
	for _, o := range s.candidates() {
		if o.path != l.path && o.path.Parent() == l.path.Parent() && !o.isCalled(sideNames) && hints(o, surest) && hints(o, personal) {
			others = append(others, o)
		}
	}
	switch {
	case len(others) == 0 || !l.isEmpty() && generic(s, l):
		return []list{l}
	case l.isEmpty():
		return others
	}
	return append(others, l)
}

// candidates is the lists without those that are part of one contact request which stands where an array belongs: its telephone
// numbers, or when it would like to come. A list that looks more like contact requests than what is around it stays.
func (s *search) candidates() []list {
	if s.lists == nil {
		s.lists = slices.DeleteFunc(slices.Clone(s.envelope.lists), func(l list) bool {
			return s.beside && l.isArray() && slices.ContainsFunc(l.around, func(o object) bool {
				return o.isLoneContactRequest(s.idFields) && (!hints(l, surest) || o.hint(personal, 0) && !hints(l, personal))
			})
		})
	}
	return s.lists
}

// envelope is an answer around its records.
type envelope struct {
	root  value
	top   object // the members of the root
	lists []list // that may be the list of records, outer ones first, then by name, as the order of members says nothing
	twice string // says of an object that it holds a name twice: which of the two is meant nobody knows
}

// list is an array of the envelope, or an object at the root or one level down that is called like a list and may be the only
// record of it.
type list struct {
	value
	path   jsontext.Pointer
	depth  int
	around []object // that hold it, the root first; none for the root itself
	only   value    // what it is the only member of, as <list><element/></list> becomes in JSON
}

// isCalled reports whether a list has one of the names, or what it alone stands in.
func (l list) isCalled(names []string) bool {
	return l.value.isCalled(names) || l.only.doc != nil && l.only.isCalled(names)
}

// isWithin reports whether what holds a list has one of the names.
func (l list) isWithin(names []string) bool {
	tokens := slices.Collect(l.path.Tokens())
	return len(tokens) > 1 && slices.Contains(names, plain(tokens[len(tokens)-2]))
}

// isArray reports whether a list is an array, or an object with the keys "0", "1" and so on.
func (l list) isArray() bool { return l.value.isArray() || l.isIndexed() }

func (l list) isIndexed() bool {
	for m := range l.members() {
		if _, is := natural(m.called().text); !is || !m.isObject() {
			return false
		}
	}
	return l.isObject() && !l.isEmpty()
}

// elements yields those of a list in their order.
func (l list) elements() iter.Seq[value] {
	if !l.isIndexed() {
		return l.value.elements()
	}
	key := func(m value) int64 {
		n, _ := natural(m.called().text)
		return n
	}
	return slices.Values(slices.SortedFunc(l.members(), func(a, b value) int { return cmp.Compare(key(a), key(b)) }))
}

// records yields the elements, or the one record that stands in place of the array.
func (l list) records() iter.Seq[value] {
	if l.isObject() && !l.isNothing() && !l.isIndexed() {
		return func(yield func(value) bool) { yield(l.value) }
	}
	return l.elements()
}

// isNothing reports whether something empty stands where a list belongs: null, "" or {}, as several libraries write a list of none.
func (l list) isNothing() bool { return l.depth > 0 && !l.isArray() && l.isEmpty() }

// count is how many records there are.
func (l list) count() (n int) {
	for range l.records() {
		n++
	}
	return n
}

func openEnvelope(root value) *envelope {
	e := &envelope{root: root, top: root.object()}
	e.explore(list{value: root}, e.top)
	slices.SortStableFunc(e.lists, func(a, b list) int { return a.depth - b.depth })
	return e
}

// explore collects arrays. It does not look into them: what stands there are records, or nothing we know. o are the members
// of an object.
func (e *envelope) explore(at list, o object) {
	named := 0 < at.depth && at.depth <= nearby && at.isCalled(listNames)
	if at.isArray() || named && (at.isObject() || at.isNothing()) || at.mayBeLone(o) {
		e.lists = append(e.lists, at)
	}
	if !at.isObject() || at.depth == maxListDepth || at.isIndexed() {
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

// mayBeLone reports whether an object is a record that stands in place of a list of one: as the whole response, under the name of
// one record, or as the only element of its list.
func (l list) mayBeLone(o object) bool {
	switch {
	case !l.isObject():
		return false
	case l.depth == 0, l.depth <= nearby && l.value.isCalled(wrapperNames):
		return l.reference() != "" && l.value.object().counts(totalNames, 0) == nil || o.isLoneContactRequest(nil)
	}
	return l.only.doc != nil && l.only.isCalled(listNames)
}

// below is what a member of o holds, which l is. The objects around are copied, as siblings would write over each other's.
func (l list) below(o object, m value) list {
	inner := list{value: m, path: l.path.AppendToken(m.called().text), depth: l.depth + 1, around: append(slices.Clip(l.around), o)}
	if len(o) == 1 && l.depth > 0 && (m.isCalled(wrapperNames) || m.isCalled(insertionMembers)) {
		inner.only = l.value
	}
	return inner
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

func isLoneContactRequest(s *search, v value) bool {
	return v.object().isLoneContactRequest(s.idFields)
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
	return v.called().plain == "emails" && v.isArray() && !hints(l, surest) &&
		!hints(l, []string{"message", "contact", "sender", "contactrequest"})
}

// hints says whether an element has a member with one of the names, directly or in an object around the request.
func hints(l list, names []string) bool {
	for e := range l.elements() {
		if e.object().hint(names, 1) {
			return true
		}
	}
	return false
}

func (o object) hint(names []string, deeper int) bool {
	return slices.ContainsFunc(o, func(m value) bool {
		return m.isCalled(names) || deeper > 0 && m.isCalled(wrapperNames) && m.object().hint(names, deeper-1)
	})
}

// isLoneInsertion refuses an object of several insertions, of which only one would be read.
func isLoneInsertion(_ *search, o value) bool {
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
	var best uint // unknown names are last
	for _, m := range element.object() {
		rank := uint(slices.Index(insertionMembers, m.called().plain))
		if r := m.reference(); r != "" && (reference == "" || rank < best || m.called().text == record.called().text) { // of one name the last
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

// declaresFailure says whether an answer is a failure by its content type, whatever its status is.
func (x *exchange) declaresFailure() bool {
	return strings.HasPrefix(strings.ToLower(x.header.Get("Content-Type")), "application/problem+json")
}

func (x *exchange) drift(expected, found string) *DriftError {
	return &DriftError{Request: x.request, Expected: expected, Found: found, Status: x.status}
}

// heads are the members that speak of the answer as a whole: those of the root, and of the metadata in it.
func (e *envelope) heads() []value {
	all := slices.Clip(e.top)
	for _, m := range e.top {
		if m.isCalled(metaNames) {
			all = append(all, m.object()...)
		}
	}
	return all
}

// foreign says whether the envelope names another agency or insertion than the one that was asked for: something on the
// way has mixed up two answers.
func (e *envelope) foreign(r Request) string {
	for _, m := range e.heads() {
		s, ok := m.text()
		switch {
		case !ok || s == "":
		case m.isCalled(agencyNames) && !strings.EqualFold(s, r.AgencyID):
			return "another agencyId"
		case r.Operation == OperationContactRequests && m.isCalled(referenceNames) && !sameReference(s, r.Reference):
			return "another propertyReferenceId"
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

// saysFailure says whether a member declares that the answer is a failure, status 200 or not.
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
	if s, ok := v.text(); ok && failureWords.MatchString(s) {
		return !strings.HasPrefix(plain(s), "no") // NO_ERROR
	}
	return slices.ContainsFunc(v.object(), value.saysFailure) || v.isFailureCode()
}

var failureWords = regexp.MustCompile(`(?i)error|fail|forbidden|unauthorized|denied`)

const maxTotal = 1 << 40 // nobody has more; what is larger is no count

// totalOf is how many records there are, as the answer says beside the list, further out, or in a header; -1 if it does
// not say.
func (e *envelope) totalOf(l list, records int, h http.Header) int {
	for _, o := range slices.Backward(append([]object{e.top}, l.around...)) {
		if totals := o.counts(totalNames, 2); len(totals) > 0 {
			return totals[0]
		}
		if counts := o.counts(countNames, 2); len(counts) > 0 && counts[0] > records {
			return counts[0]
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
	if slices.ContainsFunc(e.lists, func(l list) bool { return l.isArray() && !l.isEmpty() }) {
		return false
	}
	scopes := []object{e.top}
	if learned.Known {
		l, _ := e.at(jsontext.Pointer(learned.Path))
		scopes = append(append(scopes, l.around...), l.object())
	}
	var all []int
	if n := headerTotal(h); n >= 0 {
		all = append(all, n)
	}
	for _, o := range scopes {
		all = append(append(all, o.counts(totalNames, 2)...), o.counts(countNames, 2)...)
	}
	return len(all) > 0 && slices.Max(all) == 0
}

// counts are the non-negative integers under the names, in the order of the names, in the object and then in its metadata, so many
// levels down.
func (o object) counts(names []string, deeper int) (list []int) {
	for m := range o.all(names...) {
		if n, ok := m.count(); ok {
			list = append(list, n)
		}
	}
	if deeper > 0 {
		for m := range o.all(metaNames...) {
			list = append(list, m.object().counts(names, deeper-1)...)
		}
	}
	return list
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

func natural(digits string) (n int64, ok bool) {
	if digits == "" || len(digits) > 15 {
		return 0, false
	}
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, true
}
