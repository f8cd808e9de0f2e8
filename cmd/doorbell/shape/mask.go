package shape

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"doorbell/poller/listings"
)

// Asked is the request that a response belongs to.
type Asked struct {
	Operation, Agency, Reference string
	Query                        url.Values
}

// Describe returns the form of a response whose body has been read.
func Describe(a Asked, status int, h http.Header, body []byte) Response {
	r := Response{Operation: a.Operation, Status: status, Request: a.form(), Headers: map[string]string{}}
	r.Page = atoi(a.Query.Get("page"))
	size := atoi(cmp.Or(a.Query.Get("pageSize"), a.Query.Get("numberOfItemsPerPage")))
	m := &masker{asked: a, size: size, records: -1, numbers: map[string]int{}}
	root, err := parse(body)
	if err != nil {
		if r.Kind = string(listings.KindOfBody(body, h.Get("Content-Type"))); r.Kind == kindJSON {
			r.Kind = "other"
		}
	} else {
		r.Kind = kindJSON
		m.body(&root)
		r.Body, r.Records = root.append(nil), max(0, m.records)
	}
	for _, name := range describedHeaders {
		if values := h.Values(name); len(values) > 0 {
			r.Headers[name] = m.header(name, strings.Join(values, ", "))
		}
	}
	r.More = m.more
	return r
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

// form is the request without agency and reference, and without the values of the agency's filter.
func (a Asked) form() string {
	query := url.Values{}
	for name := range a.Query {
		query.Set(name, "x")
		if slices.Contains(
			[]string{"pageSize", "page", "numberOfItemsPerPage", "sortBy", "sortOrder"}, name) {
			query.Set(name, a.Query.Get(name))
		}
	}
	if a.Operation == ContactRequests {
		return "GET /ubm-contact-request/property/{propertyReferenceId}?" + query.Encode()
	}
	return "GET /insertion-funnel/integration/{agencyId}/insertions?" + query.Encode()
}

// masker replaces every value of one response by its form.
type masker struct {
	asked   Asked
	size    int            // records asked for
	records int            // in the longest list of objects; -1: there is none
	numbers map[string]int // of different values, by form and value
	moments []time.Time    // of all times in the response, the newest first
	more    bool           // the response says that there are more records than it shows
}

// marker is the first element of the list of records.
const marker = "{records}"

func (m *masker) body(root *value) {
	m.collectMoments(root)
	slices.SortFunc(m.moments, func(a, b time.Time) int { return b.Compare(a) })
	m.moments = slices.CompactFunc(m.moments, time.Time.Equal)
	list := m.longest(root)
	m.mask(place{}, []*value{root})
	if list != nil && len(list.inner) == m.records {
		list.inner = slices.Insert(list.inner, 0, value{kind: '"', name: marker, text: marker})
	}
}

func (m *masker) collectMoments(v *value) {
	if _, at := moment(v.text); !at.IsZero() {
		m.moments = append(m.moments, at)
	}
	for n := range v.inner {
		m.collectMoments(&v.inner[n])
	}
}

// longest finds the longest list, the outermost of several: counts are compared with its length.
func (m *masker) longest(root *value) (list *value) {
	for queue := []*value{root}; len(queue) > 0; queue = queue[1:] {
		v, n := queue[0], -1
		isObject := func(e value) bool { return e.kind == '{' }
		switch {
		case v.kind == '[' && (len(v.inner) == 0 || slices.ContainsFunc(v.inner, isObject)):
			n = len(v.inner)
		case v.kind == '{' && v.indexed() > 0:
			n = v.indexed()
		case v.kind == '{':
			for i := range v.inner {
				queue = append(queue, &v.inner[i])
			}
		}
		if n > m.records {
			m.records, list = n, v
		}
	}
	return list
}

// indexed is the length of a list that is written as an object with indexes for names; 0 for other
// objects.
func (v value) indexed() (n int) {
	for _, m := range v.inner {
		switch {
		case isNatural(m.name) && m.kind == '{':
			n++
		case isNatural(m.name), m.kind == '{', m.kind == '[':
			return 0
		}
	}
	return n
}

func isNatural(s string) bool {
	return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

// place is where a value is.
type place struct {
	name     string // of the member; elements have that of their list
	depth    int
	inRecord bool // the value belongs to a record, so that nothing is kept of it but its form
	speaks   bool // the member, or one around it, says whether the response is a success
}

// mask replaces what is at one place: all values that stand there, in whichever record.
func (m *masker) mask(p place, all []*value) {
	var objects, elements []*value
	for _, v := range all {
		switch {
		case v.kind == '{':
			objects = append(objects, v)
			p.inRecord = p.inRecord || isRecord(*v)
		case v.kind == '[' && isDate(*v):
			m.numbers["date"]++
			*v = value{
				kind: '"', name: v.name,
				text: fmt.Sprintf("{%d date of %d numbers}", m.numbers["date"], len(v.inner)),
			}
		case v.kind == '[':
			for n := range v.inner {
				elements = append(elements, &v.inner[n])
			}
		default:
			m.scalar(p, v)
		}
	}
	if len(objects) > 0 {
		m.members(p, objects)
	}
	if len(elements) > 0 {
		p.depth++
		p.inRecord = p.inRecord || !slices.Contains(remarks, strings.ToLower(p.name))
		m.mask(p, elements)
	}
}

// members masks the members of the objects at one place, and names that may be data.
func (m *masker) members(p place, objects []*value) {
	kept := keptNames(objects, p)
	var order []string
	groups := map[string][]*value{}
	for _, o := range objects {
		for n := range o.inner {
			member := &o.inner[n]
			group := member.name
			if !kept[member.name] {
				group = "{" + nameClass(member.name) + "}"
				member.name = m.numbered("name "+nameClass(member.name), member.name)
			}
			if groups[group] == nil {
				order = append(order, group)
			}
			groups[group] = append(groups[group], member)
		}
	}
	for _, group := range order {
		inner := p
		inner.name, inner.depth = group, p.depth+1
		if group[0] == '{' {
			inner.name, inner.inRecord = "", true
		}
		inner.speaks = p.speaks || listings.SpeaksOfResponse(inner.name)
		m.mask(inner, groups[group])
	}
}

// remarks are lists about the response instead of records.
var remarks = []string{"messages", "notifications", "notices", "alerts", "warnings", "errors"}

// recordNames are members that only a record has.
var recordNames = []string{
	"createdAt", "score", "propertyReferenceId", "objectReference", "email", "firstName",
	"lastName", "phone",
}

func isRecord(v value) bool {
	return slices.ContainsFunc(v.inner, func(m value) bool { return isNamed(m.name, recordNames) })
}

// isNamed reports whether a name is one of others, however it is spelled.
func isNamed(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return listings.SameName(n, name) })
}

// numbered is a form with the number of a value among the different ones of that form.
func (m *masker) numbered(form, text string) string {
	key := form + "\x00" + text
	if m.numbers[key] == 0 {
		m.numbers[form]++
		m.numbers[key] = m.numbers[form]
	}
	return fmt.Sprintf("{%d %s}", m.numbers[key], form)
}

// scalar replaces a value that is no object and no list.
func (m *masker) scalar(p place, v *value) {
	text := ""
	switch v.kind {
	case 't', 'f':
		text = m.boolean(p, v.text == "true")
	case '0':
		if text = m.time(v.text); text == "" && !p.inRecord {
			text = m.count(p, v.text)
		}
		if text == "" {
			text = m.numbered(pattern(strings.ToLower(v.text)), v.text)
		}
		if text != v.text {
			text = strings.Replace(text, "{", "{number ", 1)
		}
	case '"':
		text = m.text(p, *v)
	}
	if v.kind != '"' && (text == "" || text == v.text) {
		return
	}
	isLink := v.kind == '"' || v.kind == '0'
	m.more = m.more || isLink && text != "" && !p.inRecord && isNamed(p.name, nextNames)
	*v = value{kind: '"', name: v.name, text: text}
}

var (
	endNames  = []string{"last", "isLast", "lastPage", "isLastPage", "end", "isEnd"}
	moreNames = []string{"hasMore", "hasNext", "hasNextPage", "hasMorePages", "more", "morePages", "next"}
	nextNames = []string{
		"next", "nextPage", "nextLink", "nextUrl", "nextPageUrl", "nextCursor", "nextPageToken",
		"nextToken", "@odata.nextLink",
	}
)

// isTotal reports whether a member or header counts all records instead of those of a page.
func isTotal(name string) bool {
	return listings.CountsRecords(name) || strings.EqualFold(name, "value") ||
		strings.Contains(name, "Total-Count") || name == "X-Total" || name == "Content-Range"
}

func (m *masker) boolean(p place, is bool) string {
	switch {
	case p.inRecord || !p.speaks:
		return "{boolean}"
	case is && isNamed(p.name, moreNames):
		m.more = true
		return "{boolean more}"
	case !is && isNamed(p.name, endNames):
		m.more = true
		return "{boolean last}"
	}
	return strconv.FormatBool(is) // what a response says of itself
}

// count is how a number of the envelope relates to the records and the request; empty if it does
// not. 0, 1 and the size asked for are written as they are.
func (m *masker) count(p place, text string) string {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return ""
	case n >= 400 && n <= 599 && p.speaks:
		return "{failure}"
	case n == m.records && isTotal(p.name):
		return "{total}"
	case n == m.records:
		return "{all}"
	case n == 0, n == 1, n == m.size:
		return text
	case n > m.records && isTotal(p.name):
		m.more = true
		return "{larger total}"
	case n > m.records:
		return "{more}"
	}
	return "{fewer}"
}

var usualAgency = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

// text is the form of a text. Only words of a fixed list are written as they are.
func (m *masker) text(p place, v value) string {
	s := v.text
	loose := func(s string) string {
		if decoded, err := url.PathUnescape(s); err == nil {
			s = decoded
		}
		return strings.TrimRight(strings.ToLower(strings.TrimSpace(s)), "#")
	}
	switch {
	case v.broken:
		return m.numbered("broken text", s)
	case !p.inRecord && p.speaks && listings.Remark(s) != "":
		return listings.Remark(s)
	case m.asked.Agency != "" && strings.EqualFold(s, m.asked.Agency):
		return "{agencyId}"
	case listings.SameName(p.name, "agencyId") && usualAgency.MatchString(s) &&
		usualAgency.MatchString(m.asked.Agency):
		return "{another agencyId}"
	case m.asked.Reference != "" && loose(s) == loose(m.asked.Reference):
		return "{propertyReferenceId}"
	case !p.inRecord && isNatural(s):
		if count := m.count(p, s); count != "" {
			return count
		}
	}
	if at := m.time(s); at != "" || s == "" {
		return at
	}
	return m.numbered(textForm(s), s)
}

// textForms are forms of texts that a pattern tells.
var textForms = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"uuid", uuid},
	{"e-mail", email},
	{"url", regexp.MustCompile(`^https?://`)},
}

var (
	uuid = regexp.MustCompile(
		`^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$`)
	email     = regexp.MustCompile(`^[^@\s<>:]+@[^@\s<>]+\.[^@\s<>.]+$`)
	numeric   = regexp.MustCompile(`^[0-9 .,:;/()+'_-]{1,40}$`)
	reference = regexp.MustCompile(`^[^\r\n<]{0,199}$`)
	segment   = regexp.MustCompile(`[^#]+`)
	digit     = regexp.MustCompile(`[0-9]`)
)

// pattern is a number with 9 for each digit.
func pattern(text string) string { return digit.ReplaceAllString(text, "9") }

// longText is longer than any reference may be.
const longText = 4 << 10

func textForm(s string) string {
	switch {
	case len(s) > longText:
		return "long text"
	case numeric.MatchString(s):
		return pattern(s)
	}
	for _, f := range textForms {
		if f.pattern.MatchString(s) {
			return f.name
		}
	}
	// it has the form x#x##
	if n := strings.Count(s, "#"); n > 0 && n < 5 && reference.MatchString(s) {
		return segment.ReplaceAllString(s, "x")
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return "control text"
	}
	return "text"
}

// describedHeaders are the headers that say something about access, paging or caching.
var describedHeaders = []string{
	"Content-Type", "Content-Range", "Date", "Retry-After", "Link", "X-Total-Count", "X-Total",
	"Total-Count", "X-Pagination-Total-Count", "X-Ratelimit-Limit", "X-Ratelimit-Remaining",
	"X-Ratelimit-Reset",
}

// knownWords are the media types and charsets that are written as they are.
var knownWords = []string{
	"application/json", "application/hal+json", "application/vnd.api+json", "application/ld+json",
	"application/problem+json", "text/json", "text/html", "text/plain", "application/xml",
	"text/xml", "application/octet-stream", "application/x-ndjson",
	"utf-8", "utf8", "iso-8859-1", "iso-8859-15", "latin1", "windows-1252", "us-ascii", "utf-16",
}

func (m *masker) header(name, text string) string {
	switch name {
	case "Content-Type":
		media, parameters, _ := mime.ParseMediaType(text)
		charset := strings.ToLower(parameters["charset"])
		switch {
		case !slices.Contains(knownWords, media):
			return "{1 text}"
		case slices.Contains(knownWords, charset):
			return media + "; charset=" + charset
		}
		return media
	case "Link":
		if listings.LinksToNext(text) {
			m.more = true
			return "{next}"
		}
		return "{1 text}"
	case "Content-Range":
		if _, total, _ := strings.Cut(text, "/"); isNatural(total) {
			return "items " + m.count(place{name: name}, total)
		}
		return "{1 text}"
	}
	if isCount := strings.Contains(name, "Total"); isCount && isNatural(text) {
		return m.count(place{name: name}, text)
	}
	return cmp.Or(m.time(text), "{1 "+textForm(text)+"}")
}
