package shape

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/poller/listings"

	"github.com/go-json-experiment/json/jsontext"
)

// form is the lines of a body by path, and the paths of what is in each, in their order.
type form struct {
	kinds map[string][]kind
	inner map[string][]string
}

// kind is a line with the indexes of the objects or elements that have it.
type kind struct {
	Line
	at []int
}

var errLines = errors.New("lines that do not belong together")

// maxMadeUp bounds how much one line may stand for.
const maxMadeUp = 100_000

func formOf(lines []Line) (form, error) {
	f := form{map[string][]kind{}, map[string][]string{}}
	for n, l := range lines {
		k := kind{Line: l}
		parent := l.Path[:max(0, strings.LastIndex(l.Path, "/"))]
		wrong := l.Length != nil && (l.Length.Min < 0 || l.Length.Max < l.Length.Min)
		if wrong || l.In < 1 || l.In > l.Of || l.Of > maxMadeUp || strings.Count(l.Path, "/") > maxDepth+1 || l.Path != "" && f.kinds[parent] == nil {
			return f, fmt.Errorf("line %d: %w", n+1, errLines)
		}
		at := l.At
		if at == "" {
			at = fmt.Sprintf("1-%d", l.In)
		}
		for run := range strings.SplitSeq(at, ",") {
			from, to, isRun := strings.Cut(run, "-")
			if !isRun {
				to = from
			}
			if atoi(from) < 1 || atoi(to) > l.Of {
				return f, fmt.Errorf("line %d: %w", n+1, errLines)
			}
			for i := atoi(from); i <= atoi(to); i++ {
				k.at = append(k.at, i-1)
			}
		}
		if f.kinds[l.Path] == nil && l.Path != "" {
			f.inner[parent] = append(f.inner[parent], l.Path)
		}
		slices.Sort(k.at)
		f.kinds[l.Path] = append(f.kinds[l.Path], k)
	}
	if len(f.kinds[""]) == 0 {
		return f, errors.New("there is no line of the root")
	}
	return f, nil
}

// find returns the kind that the nth object or element has at a path, and which of that kind it is.
func (f form) find(path string, n int) (k kind, rank int, found bool) {
	for _, k := range f.kinds[path] {
		if rank, found := slices.BinarySearch(k.at, n); found {
			return k, rank, true
		}
	}
	return kind{}, 0, false
}

// count is how many elements or named entries all arrays or objects at a path have.
func (f form) count(path string) int {
	n := 0
	for _, k := range f.kinds[path] {
		n = max(n, k.Of)
	}
	return n
}

// maker writes one made-up body.
type maker struct {
	form
	response          *Response
	agency, reference string
	now               time.Time // later than all times
	salt              string    // of the values: page and reference
	page, pages       int       // from 0
	shown, total      int       // records on this page, and on all of them
	reversed          bool      // records in the other order
	b                 []byte
}

// value writes what the nth object or element around it has at a path.
func (m *maker) value(path string, n int, inRecord bool) {
	k, rank, found := m.find(path, n)
	switch scalar := k.Type == "string" || k.Type == "number"; {
	case !found, m.isLast() && !inRecord && scalar && isNamed(path, nextNames):
		m.b = append(m.b, "null"...)
	case k.Type == "object":
		m.object(k, rank, inRecord)
	case k.Type == "array":
		m.array(k, rank)
	case k.Type == "string":
		m.b = appendText(m.b, m.text(k, rank), k.Form == "broken text")
	case k.Type == "number":
		m.b = append(m.b, m.number(k, rank)...)
	case k.Type == "boolean":
		m.b = append(m.b, m.boolean(k, rank)...)
	default:
		m.b = append(m.b, "null"...)
	}
}

func (m *maker) object(k kind, rank int, inRecord bool) {
	m.b = append(m.b, '{')
	separator := ""
	member := func(path, name string, n int, inRecord bool) {
		m.b = append(m.b, separator...)
		m.b = append(appendText(m.b, name, strings.HasPrefix(name, "broken")), ':')
		m.value(path, n, inRecord)
		separator = ","
	}
	for _, path := range m.inner[k.Path] {
		name := path[len(k.Path)+1:]
		if name[0] == '{' {
			from, to := m.window(k, path, rank)
			for n := from; n < to; n++ {
				member(path, m.entryName(name, path, n), n, true)
			}
		} else if _, _, has := m.find(path, rank); has {
			name, _, _ = strings.Cut(name, "~")
			member(path, name, rank, inRecord)
		}
	}
	m.b = append(m.b, '}')
}

func (m *maker) array(k kind, rank int) {
	if k.Form == "time as numbers" {
		at := m.moment(k, rank)
		parts := strings.Fields(fmt.Sprint(at.Year(), int(at.Month()), at.Day(), at.Hour(), at.Minute(), at.Second(), 0))
		m.b = append(append(append(m.b, '['), strings.Join(parts[:min(7, max(5, k.Length.max()))], ",")...), ']')
		return
	}
	m.b = append(m.b, '[')
	if k.Form != "empty" {
		from, to := m.window(k, k.Path+"/*", rank)
		for n := from; n < to; n++ {
			if n > from {
				m.b = append(m.b, ',')
			}
			at := n
			if m.reversed && k.Path == m.response.Body.Records {
				at = from + to - 1 - n
			}
			m.value(k.Path+"/*", at, true)
		}
	}
	m.b = append(m.b, ']')
}

// window deals out what is in arrays or objects, of the list of records what is on the page.
func (m *maker) window(k kind, path string, rank int) (from, to int) {
	of := m.count(path)
	from, to = (rank*of+k.In-1)/k.In, ((rank+1)*of+k.In-1)/k.In
	if k.Path == m.response.Body.Records {
		to = min(to, from+m.shown)
	}
	return from, to
}

// sum is what differs between everything that is made up.
func (m *maker) sum(path string, n int) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", m.salt, path, n))
}

func (s Line) nth(rank int) int { return rank % max(1, s.Distinct) }

func filled(pattern string, sum [32]byte) string {
	return fmt.Sprintf(pattern, sum[:4], sum[4:6], sum[6:12])
}

func (m *maker) entryName(class, path string, n int) string {
	sum := m.sum(path, n)
	switch class {
	case "{index}":
		return strconv.Itoa(n)
	case "{digits}":
		return fmt.Sprintf("0%09d", binary.BigEndian.Uint32(sum[:])%1_000_000_000)
	case "{broken text}":
		return filled("broken %[1]x", sum)
	}
	for _, f := range textForms {
		if "{"+f.name+"}" == class {
			return filled(f.madeUp, sum)
		}
	}
	return filled("odd name %[1]x", sum)
}

// moment is a time of a rank, in the order of the original. Later pages are older.
func (m *maker) moment(k kind, rank int) time.Time {
	n := k.nth(rank)
	switch k.Order {
	case "ascending":
		n = k.In - 1 - n
	case "":
		n ^= 1
	}
	return m.now.Add(-time.Duration(m.page*k.In+n+1) * 97 * time.Minute)
}

// perSecond are the units of times since 1970.
var perSecond = map[string]int64{
	listings.FormSeconds: 1, listings.FormMilliseconds: 1e3, listings.FormMicroseconds: 1e6, listings.FormNanoseconds: 1e9,
}

// time is a text or number with the form of a time; empty if the form is another.
func (m *maker) time(k kind, rank int) string {
	layout, isTime := strings.CutPrefix(k.Form, "time ")
	if !isTime {
		return ""
	}
	at := m.moment(k, rank)
	if unit := perSecond[layout]; unit > 0 {
		return strconv.FormatInt(at.Unix()*unit, 10)
	}
	layout, none := strings.CutSuffix(layout, noMoment)
	if none {
		at = time.Time{}
	}
	return at.Format(layout)
}

func (m *maker) number(k kind, rank int) string {
	if text := m.time(k, rank); text != "" {
		return text
	}
	if n, ok := m.related(k.Is, k.Path); ok {
		return strconv.Itoa(n)
	}
	sign, form := "", k.Form
	if strings.HasPrefix(form, "-") {
		sign, form = "-", form[1:]
	}
	length := min(max(k.Length.max()-len(sign)-len(form)+1, 1), 15)
	n := k.nth(rank)
	low := 1
	for range length - 1 {
		low *= 10
	}
	if length > 3 {
		sum := m.sum(k.Path, 0)
		n += int(binary.BigEndian.Uint32(sum[:]))
	}
	digits := strconv.Itoa(low + n%(9*low))
	_, rest, _ := strings.Cut(form, "9")
	return sign + digits + strings.ReplaceAll(rest, "9", "5")
}

func (m *maker) text(k kind, rank int) string {
	if word, ok := strings.CutPrefix(k.Is, "says: "); ok {
		return word
	}
	switch k.Is {
	case "agencyId asked for":
		return m.agency
	case "another agencyId":
		return "Z999"
	case "propertyReferenceId asked for":
		return m.reference
	}
	if n, ok := m.related(k.Is, k.Path); ok {
		return strconv.Itoa(n)
	}
	if text := m.time(k, rank); text != "" {
		return text
	}
	n := k.nth(rank)
	sum := m.sum(k.Path, n)
	for _, f := range textForms {
		if f.name == k.Form {
			return filled(f.madeUp, sum)
		}
	}
	switch {
	case k.Form == "empty":
		return ""
	case k.Form == "text", strings.HasSuffix(k.Form, " text"):
		return k.madeUpText(sum, n)
	case strings.Contains(k.Form, "x"):
		i := 0
		return replaceEach(k.Form, "x", func() string { i += 2; return fmt.Sprintf("m%x", sum[i:i+2]) })
	}
	digits := fmt.Sprintf("%020d", binary.BigEndian.Uint64(sum[:])>>1%1_000_000_000_000+uint64(n))
	i := len(digits) - strings.Count(k.Form, "9")
	return replaceEach(k.Form, "9", func() string {
		i++
		return string(max('1', digits[(i+len(digits)-1)%len(digits)]))
	})
}

func replaceEach(s, what string, with func() string) string {
	parts := strings.Split(s, what)
	text := parts[0]
	for _, p := range parts[1:] {
		text += with() + p
	}
	return text
}

// appendText appends a JSON string; a broken one is not UTF-8.
func appendText(b []byte, text string, broken bool) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	if broken {
		b = append(b[:len(b)-1], "\xff\""...)
	}
	return b
}

// related is a number of the envelope.
func (m *maker) related(is, path string) (int, bool) {
	switch is {
	case "records":
		if m.page == 0 || strings.Contains(strings.ToLower(lastOf(path)), "total") {
			return m.total, true
		}
		return m.shown, true
	case "more than records":
		if isTotal(path) {
			return max(m.total, m.shown+1), true
		}
		return m.shown + 20, true
	case "fewer than records":
		return max(m.shown-1, min(m.pages, 2)), true
	case "none":
		return 0, true
	case "one":
		return 1, true
	case "size asked for":
		return m.response.Size, true
	case "a status of failure":
		return max(m.response.Status, http.StatusBadRequest), true
	}
	return 0, false
}

func lastOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// isTotal reports whether a member or header counts all records instead of those of a page.
func isTotal(path string) bool {
	name := lastOf(path)
	return listings.CountsRecords(name) || strings.EqualFold(name, "value") || strings.Contains(name, "Total-Count") || name == "X-Total" || name == "Content-Range"
}

// boolean repeats what a response says of itself; later pages say which is the last.
func (m *maker) boolean(k kind, rank int) string {
	switch {
	case k.Is == "":
		return strconv.FormatBool(rank%2 == 0)
	case m.isLast() && isNamed(k.Path, endNames):
		return "true"
	case m.isLast() && isNamed(k.Path, moreNames):
		return "false"
	}
	return k.Is
}

// isLast reports whether a page is the last of several, or behind it.
func (m *maker) isLast() bool { return m.page > 0 && m.page >= m.pages-1 }

var (
	endNames  = []string{"last", "isLast", "lastPage", "isLastPage", "end", "isEnd"}
	moreNames = []string{"hasMore", "hasNext", "hasNextPage", "hasMorePages", "more", "morePages", "next"}
	nextNames = []string{"next", "nextPage", "nextLink", "nextUrl", "nextPageUrl", "nextCursor", "nextPageToken", "nextToken", "@odata.nextLink"}
)

// isNamed reports whether a path ends with one of the names.
func isNamed(path string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return listings.SameName(n, lastOf(path)) })
}

// saysMore reports whether a line says that there are more records than those shown.
func (l Line) saysMore() bool {
	switch {
	case l.Type == "boolean":
		return l.Is == "true" && isNamed(l.Path, moreNames) || l.Is == "false" && isNamed(l.Path, endNames)
	case l.Is == "more than records" && isTotal(l.Path), l.Path == "Link" && l.Is == "next":
		return true
	}
	return (l.Type == "string" && l.Form != "empty" || l.Type == "number") && isNamed(l.Path, nextNames)
}
