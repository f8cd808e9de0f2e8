package listings

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// What a response says around its records: whose they are, that it failed, how many there are, and
// whether these are all.

// Envelope is what is common to the pages of both operations.
type Envelope struct {
	Total    int       // how many records there are, as the API says; -1 if it does not
	Path     string    // JSON pointer to the list of records; "" is the root
	Received time.Time // our clock, after the last byte
	Sum      Sum       // of the response
	Settled  bool      // it was not read: what it says is known
	// Unreadable counts elements of the list that are no record: what they stand for is unknown, so
	// that a page with one of them does not show all that is there.
	Unreadable int

	Claims

	// Found: Path leads to a list. Otherwise the response says by its total alone that there are no
	// records.
	Found bool

	pastEnd bool // nothing in place of the list of insertions, past the first page
	oddEnd  bool // that is not null, but "" or {}, as failures look too
}

// envelope is what a response says without its body.
func (x *exchange) envelope() Envelope {
	return Envelope{Total: headerTotal(x.header), Received: x.received, Sum: x.sum}
}

// Claims is what a response says about its own completeness. A claim can disprove that a walk is
// complete, never prove it.
type Claims struct {
	More       Claim // another page follows
	Pages      int   // how many pages there are; 0: not said
	Incomplete bool  // the response says that it lacks something
}

// Claim is a statement that a response may make.
type Claim int

// The values of a Claim.
const (
	Unsaid Claim = iota
	Denied
	Claimed
)

// decode reads the body. wrong says why it cannot be the response to what was asked for: it is no
// JSON, declares its own failure, or something on the way has mixed up two responses.
func (x *exchange) decode() (root value, wrong string) {
	if x.declaresFailure() {
		return root, "a response that declares its own failure by its content type"
	}
	if root, wrong = decode(trimBOM(x.body)); wrong != "" {
		return root, wrong
	}
	heads := root.object().heads(1)
	for _, m := range heads {
		s, _ := m.text()
		if s != "" && x.asksContacts() && m.isCalled(referenceNames) &&
			!sameReference(s, x.request.Reference) {
			return root, "a response about another propertyReferenceId"
		}
	}
	switch {
	case heads.isForeign(x.request.AgencyID):
		return root, "a response about another agencyId"
	case slices.ContainsFunc(heads, value.saysFailure):
		return root, "a response that declares its own failure"
	}
	return root, ""
}

// declaresFailure reports whether a response is a failure by its content type, whatever its status
// is.
func (x *exchange) declaresFailure() bool {
	return strings.HasPrefix(strings.ToLower(x.header.Get("Content-Type")),
		"application/problem+json")
}

func (x *exchange) asksContacts() bool { return x.request.Operation == OperationContactRequests }

func (x *exchange) drift(expected, found string) *DriftError {
	return &DriftError{Request: x.request, Expected: expected, Found: found, Status: x.status}
}

// heads are the members that speak of the response as a whole: those of an object around the list,
// and of the metadata in it to a depth of deeper.
func (o object) heads(deeper int) object {
	all := slices.Clip(o)
	for _, m := range o {
		if deeper > 0 && (m.isCalled(metaNames) || m.isCalled(linksNames)) {
			all = append(all, m.object().heads(deeper-1)...)
		}
	}
	return all
}

// isForeign reports whether an object names another agency. Some name theirs in a way of their own,
// so only what has the form of the one that was asked for is compared.
func (o object) isForeign(asked string) bool {
	for m := range o.all(agencyNames...) {
		if s, ok := m.text(); ok && usualAgency.MatchString(s) && usualAgency.MatchString(asked) &&
			!strings.EqualFold(s, asked) {
			return true
		}
	}
	return false
}

var usualAgency = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

// saysFailure reports whether a member declares that the response is a failure, status 200 or not.
func (v value) saysFailure() bool {
	switch {
	case v.isCalled(errorNames):
		return v.isTrue()
	case v.isCalled(failureNames):
		return v.says("true", "1")
	case v.isCalled(successNames):
		return v.says("false", "0")
	case v.isCalled(codeNames):
		return v.isFailureCode()
	case v.name.plain == "status":
		s, _ := v.text()
		return failureWords.MatchString(s) && !strings.HasPrefix(plain(s), "no") || // NO_ERROR
			slices.ContainsFunc(v.object(), value.saysFailure) || v.isFailureCode()
	}
	return false
}

// speaksOfError reports whether a member beside an empty list, or in the metadata of the response,
// is about an error. Beside records it would be a remark.
func (o object) speaksOfError() bool { return slices.ContainsFunc(o.heads(1), value.speaksOfError) }

func (v value) speaksOfError() bool {
	s, isText := v.text()
	harmless := isText && harmlessWords.MatchString(strings.TrimSpace(s))
	isPrefix := func(prefix string) bool { return strings.HasPrefix(v.name.plain, prefix) }
	isOfErrorKind := func(o value) bool {
		return slices.ContainsFunc(o.object(), func(m value) bool {
			s, _ := m.text()
			return m.isCalled(kindNames) && errorWords.MatchString(s)
		})
	}
	switch name := v.name.plain; {
	case slices.ContainsFunc(errorPrefixes, isPrefix):
		return v.isTrue() && !harmless
	case isText && v.isCalled(wordCodes):
		return !harmless
	case (name == "status" || name == "state") && errorWords.MatchString(s):
		return !harmless
	case v.isCalled(messageLists):
		return slices.ContainsFunc(v.inner, isOfErrorKind)
	}
	return v.saysFailure()
}

// isTrue reports whether a value says something other than no.
func (v value) isTrue() bool { return v.raw != nil && !v.isEmpty() && !v.says("false", "0") }

// says is about a boolean, or a text or number that stands for one.
func (v value) says(word, digit string) bool {
	s, _ := v.scalar()
	return string(v.raw) == word || s == digit || plain(s) == word
}

// isFailureCode reports whether a value is an HTTP status of an error.
func (v value) isFailureCode() bool {
	s, _ := v.scalar()
	n, _ := natural(s)
	return n >= 400 && n <= 599
}

func headerTotal(h http.Header) int {
	for _, name := range totalHeaders {
		if n, ok := natural(strings.TrimSpace(h.Get(name))); ok {
			return n
		}
	}
	if parts := contentRange.FindStringSubmatch(h.Get("Content-Range")); parts != nil &&
		parts[1] != "bytes" {
		if n, ok := natural(parts[2]); ok {
			return n
		}
	}
	return -1
}

// contentRange has the form "items 0-19/163".
var contentRange = regexp.MustCompile(`^([a-z]+) +[0-9*-]+/([0-9]+)$`)

// counts are the non-negative integers under the names, in the object and its metadata.
func (o object) counts(names []string) (list []int) {
	for m := range o.heads(2).all(names...) {
		if n, ok := m.count(); ok {
			list = append(list, n)
		}
	}
	return list
}

// highest is the largest of all counts in the object and its metadata; -1 if there is none.
func (o object) highest() int {
	return slices.Max(slices.Concat(o.counts(totalNames), o.counts(countNames), []int{-1}))
}

// count reads a number; some services say {"value": 12, "relation": "eq"}.
func (v value) count() (int, bool) {
	if v.isObject() {
		v = v.object().get("value")
	}
	digits, _ := v.number()
	return natural(digits)
}

// natural reads digits. No service counts more than 2^40: what is larger is something else.
func natural(digits string) (n int, ok bool) {
	read, err := strconv.ParseUint(digits, 10, 64)
	return int(read), err == nil && read <= 1<<40
}

// readClaims reads what the objects around a list say of the number of records and of its
// completeness, the metadata in them too. What is beside the list takes precedence over what is
// further out, and headers come last.
func (x *exchange) readClaims(e *Envelope, scopes []object, records int) {
	for _, scope := range scopes {
		if counts := scope.counts(countNames); len(counts) > 0 && counts[0] > records {
			e.Total = counts[0]
		}
		if totals := scope.counts(totalNames); len(totals) > 0 {
			e.Total = totals[0]
		}
		for _, m := range scope.heads(1) {
			e.More = max(e.More, x.claimOfMore(m))
			if n, ok := m.count(); ok && m.isCalled(pagesNames) && n != records {
				e.Pages = max(e.Pages, n)
			}
			e.Incomplete = e.Incomplete || m.saysIncomplete()
		}
	}
	if parts := nextLink.FindStringSubmatch(
		strings.Join(x.header.Values("Link"), ",")); parts != nil {
		e.More = max(e.More, x.claimOfLink(parts[1]))
	}
}

var nextLink = regexp.MustCompile(`<([^<>]*)> *;[^<>]*rel="?next"?`)

func (x *exchange) claimOfMore(m value) Claim {
	// a number is that of the last page
	isEnd := m.isCalled(endNames) && m.kind() != jsontext.KindNumber
	no, yes := m.says("false", "0"), m.says("true", "1")
	switch {
	case isEnd && no, m.isCalled(moreNames) && yes:
		return Claimed
	case isEnd && yes, m.isCalled(moreNames) && no:
		return Denied
	case m.isCalled(nextNames):
		return x.claimOfNext(m)
	case m.isCalled(linksNames):
		for _, link := range m.inner {
			if plain(link.object().text("rel")) == "next" {
				return x.claimOfNext(link)
			}
		}
	}
	return Unsaid
}

// claimOfNext reads a link, a number or a token of the next page.
func (x *exchange) claimOfNext(m value) Claim {
	if m.isObject() {
		m = m.object().get("href", "url")
	}
	switch s, _ := m.scalar(); {
	case m.raw == nil:
		return Unsaid
	case m.isTrue():
		return x.claimOfLink(s)
	}
	return Denied
}

// claimOfLink ignores a link to another origin: it may stand for a gateway that the API does not
// know, and no link is followed.
func (x *exchange) claimOfLink(s string) Claim {
	link, err := url.Parse(s)
	if err == nil && link.Host != "" && !strings.EqualFold(link.Host, x.host) {
		return Unsaid
	}
	return Claimed
}

// saysIncomplete reports whether a member says that the response lacks something.
func (v value) saysIncomplete() bool {
	name := v.name.plain
	switch {
	case strings.HasPrefix(name, "incomplete"), strings.HasPrefix(name, "isincomplete"),
		v.isCalled(partialNames):
		return v.isTrue()
	case v.isCalled(completeNames):
		return v.says("false", "0")
	case name == "shards":
		n, ok := v.object().get("failed").count()
		return ok && n > 0
	case name == "status", name == "state", name == "completeness":
		s, _ := v.text()
		return partialWords.MatchString(s)
	}
	return false
}
