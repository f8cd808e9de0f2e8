package listings

import (
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Totals. What is called a count may be that of the page, so that it says something only where it is larger.
var (
	totalNames = []string{
		"total", "totalCount", "totalElements", "totalItems", "totalNumberOfItems", "totalResults", "totalRecords", "totalHits",
		"totalSize", "totalNumberOfElements", "numFound",
	}
	countNames = []string{"count", "resultCount"}
	metaNames  = []string{"meta", "pagination", "paging", "page", "pageInfo", "metadata", "header"}
)

var totalHeaders = []string{"X-Total-Count", "X-Total", "Total-Count", "X-Pagination-Total-Count"}

// totalOf is how many records there are, as the answer says beside the list, further out, or in a header; -1 if it does
// not say.
func (e *envelope) totalOf(l list, records int, h http.Header) int {
	for _, o := range slices.Backward(append([]object{e.top}, l.around...)) {
		if n, ok := countIn(o, totalNames); ok {
			return n
		}
		if n, ok := countIn(o, countNames); ok && n > records {
			return n
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
	told := h.Get("Content-Range")
	if told == "" {
		return -1
	}
	if parts := contentRange.FindStringSubmatch(told); parts != nil && parts[1] != "bytes" {
		if n, ok := natural(parts[2]); ok && n <= maxTotal {
			return int(n)
		}
	}
	return -1
}

// contentRange has the form "items 0-19/163".
var contentRange = regexp.MustCompile(`^([a-z]+) +[0-9*-]+/([0-9]+)$`)

const maxTotal = 1 << 40 // nobody has more; what is larger is no count

// countsNone says whether the answer counts none, and neither a list nor another count contradicts it.
func (e *envelope) countsNone(shape Shape, h http.Header) bool {
	if slices.ContainsFunc(e.lists, func(l list) bool { return !isEmpty(l.raw) }) {
		return false
	}
	scopes := []object{e.top}
	if shape.Known {
		l, _ := e.at(jsontext.Pointer(shape.Path))
		scopes = append(scopes, l.around...)
		scopes = append(scopes, parse(l.raw))
	}
	none := headerTotal(h) == 0
	for _, o := range scopes {
		for n := range countsIn(o, slices.Concat(totalNames, countNames), 2) {
			if n > 0 {
				return false
			}
			none = true
		}
	}
	return none && headerTotal(h) <= 0
}

// countIn is the first of countsIn.
func countIn(o object, names []string) (int, bool) {
	for n := range countsIn(o, names, 2) {
		return n, true
	}
	return 0, false
}

// countsIn yields the non-negative integers under the names, in the order of the names, in the object and then in its
// metadata, so many levels down.
func countsIn(o object, names []string, deeper int) iter.Seq[int] {
	return func(yield func(int) bool) { yieldCounts(o, names, deeper, yield) }
}

func yieldCounts(o object, names []string, deeper int, yield func(int) bool) bool {
	for _, name := range names {
		for _, f := range o {
			if !SameName(f.name, name) {
				continue
			}
			if n, ok := count(f.value); ok && !yield(n) {
				return false
			}
		}
	}
	for _, name := range metaNames {
		if deeper == 0 {
			break
		}
		if inner := o.object(plain(name)); inner != nil && !yieldCounts(inner, names, deeper-1, yield) {
			return false
		}
	}
	return true
}

// count reads a number; some services say {"value": 12, "relation": "eq"}.
func count(value jsontext.Value) (int, bool) {
	if value.Kind() == jsontext.KindBeginObject {
		value = parse(value).get("value")
	}
	digits, ok := number(value)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && n <= maxTotal
}
