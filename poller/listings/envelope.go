package listings

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a response says around its records: whose they are, that it failed, how many there are, and
// whether these are all.

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

// foreign reports whether a response names another agency or insertion than the one that was asked
// for: something on the way has mixed up two responses.
func foreign(heads object, r Request) string {
	for _, m := range heads {
		s, _ := m.text()
		if s != "" && r.Operation == OperationContactRequests && m.isCalled(referenceNames) && !sameReference(s, r.Reference) {
			return "another propertyReferenceId"
		}
	}
	if heads.isForeign(r.AgencyID) {
		return "another agencyId"
	}
	return ""
}

// isForeign reports whether an object names another agency. Some name theirs in a way of their own,
// so only what has the form of the one that was asked for is compared.
func (o object) isForeign(asked string) bool {
	for m := range o.all(agencyNames...) {
		if s, ok := m.text(); ok && usualAgency.MatchString(s) && usualAgency.MatchString(asked) && !strings.EqualFold(s, asked) {
			return true
		}
	}
	return false
}

var usualAgency = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

// declaresFailure reports whether a response is a failure by its content type, whatever its status
// is.
func (x *exchange) declaresFailure() bool {
	return strings.HasPrefix(strings.ToLower(x.header.Get("Content-Type")), "application/problem+json")
}

func (x *exchange) drift(expected, found string) *DriftError {
	return &DriftError{Request: x.request, Expected: expected, Found: found, Status: x.status}
}

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

var failureWords = regexp.MustCompile(`(?i)error|fail|forbidden|unauthorized|denied`)

// speaksOfError reports whether a member beside an empty list, or in the metadata of the response,
// is about an error. Beside records it would be a remark.
func (o object) speaksOfError() bool { return slices.ContainsFunc(o.heads(1), value.speaksOfError) }

func (v value) speaksOfError() bool {
	s, isText := v.text()
	harmless := isText && harmlessWords.MatchString(strings.TrimSpace(s))
	switch name := v.name.plain; {
	case slices.ContainsFunc(errorPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }):
		return v.isTrue() && !harmless
	case isText && v.isCalled(wordCodes):
		return !harmless
	case name == "status" || name == "state":
		if isText && errorWords.MatchString(s) {
			return !harmless
		}
	case v.isCalled(messageLists):
		return slices.ContainsFunc(v.inner, value.isOfErrorKind)
	}
	return v.saysFailure()
}

// isOfErrorKind reports whether an object says of itself that it is an error.
func (v value) isOfErrorKind() bool {
	return slices.ContainsFunc(v.object(), func(m value) bool {
		s, isText := m.text()
		return isText && m.isCalled(kindNames) && errorWords.MatchString(s)
	})
}

var (
	errorPrefixes = []string{
		"error", "exception", "fault", "failure", "problem", "lasterror", "haserror", "apierror", "@error", "odata.error",
	}
	messageLists = []string{"messages", "message", "notifications", "notices", "alerts", "result", "info"}
	kindNames    = []string{"type", "kind", "level", "severity", "category", "status", "messagetype"}
	wordCodes    = []string{"code", "statuscode", "resultcode", "responsecode", "returncode", "reasoncode", "reason"}
	errorWords   = regexp.MustCompile(`(?i)error|exception|fault|fail|fatal|critical|severe|forbidden|unauthori[sz]ed|denied|` +
		`exceed|limit|quota|throttl|unavailable|overload|timeout|timed.?out|too.?many|invalid|refused|abort`)
	harmlessWords = regexp.MustCompile(`(?i)^(ok(ay)?|success(ful)?|succeeded|fine|done|none|ended|empty|found|ready|completed?|[0-9]*|` +
		`no[_ -]?(errors?|results?|records?|content|data))$`)
)

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

// totalOf is how many records there are, as the response says beside the list, further out, or in a
// header; -1 if it does not say.
func totalOf(scopes []object, records int, h http.Header) int {
	for _, o := range slices.Backward(scopes) {
		if totals := o.counts(totalNames); len(totals) > 0 {
			return totals[0]
		}
		if counts := o.counts(countNames); len(counts) > 0 && counts[0] > records {
			return counts[0]
		}
	}
	return headerTotal(h)
}

func headerTotal(h http.Header) int {
	for _, name := range totalHeaders {
		if n, ok := natural(strings.TrimSpace(h.Get(name))); ok {
			return n
		}
	}
	if parts := contentRange.FindStringSubmatch(h.Get("Content-Range")); parts != nil && parts[1] != "bytes" {
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

var looksLikeName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_]{0,39}$`)

// printableName is a name as it may stand in an error: one that does not look like a name may be a
// value that was made a name.
func printableName(name string) string {
	if looksLikeName.MatchString(name) {
		return name
	}
	return "(odd name)"
}

// natural reads digits. No service counts more than 2^40: what is larger is something else.
func natural(digits string) (n int, ok bool) {
	read, err := strconv.ParseUint(digits, 10, 64)
	return int(read), err == nil && read <= 1<<40
}
