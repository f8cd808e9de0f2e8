package shape

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"doorbell/poller/listings"
)

// Asked is the request that a response belongs to.
type Asked struct {
	Operation, Agency, Reference string
	Query                        url.Values
}

// Describe describes a response whose body has been read.
func Describe(a Asked, status int, h http.Header, body []byte) Response {
	path := "/insertion-funnel/integration/{agencyId}/insertions"
	if a.Operation == ContactRequests {
		path = "/ubm-contact-request/property/{propertyReferenceId}"
	}
	r := Response{Operation: a.Operation, Status: status, Request: "GET " + path + a.form()}
	r.Size = atoi(cmp.Or(a.Query.Get("pageSize"), a.Query.Get("numberOfItemsPerPage")))
	r.Page = atoi(a.Query.Get("page"))
	d := &describer{asked: a, size: r.Size, status: status, records: -1}
	r.Body = d.body(body, h.Get("Content-Type"))
	r.Headers = d.headers(h)
	return r
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

// form is the query without the values of the agency's filter.
func (a Asked) form() string {
	separator, text := "?", ""
	for _, name := range sorted(a.Query) {
		value := "…"
		if slices.Contains([]string{"pageSize", "page", "numberOfItemsPerPage", "sortBy", "sortOrder"}, name) {
			value = a.Query.Get(name)
		}
		text += separator + name + "=" + value
		separator = "&"
	}
	return text
}

func sorted[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// describer holds what the values of one response are compared with.
type describer struct {
	asked   Asked
	size    int
	status  int
	records int // elements of the longest list of objects; -1: there is none
	lines   []Line
}

// maxLines bounds the description; a response of this API has one or two hundred.
const maxLines = 5000

func (d *describer) body(body []byte, contentType string) Body {
	root, err := parse(body)
	if err != nil {
		kind := string(listings.KindOfBody(body, contentType))
		if kind == string(listings.BodyJSON) {
			kind = "other"
		}
		return Body{Kind: kind, Bytes: len(body)}
	}
	records := d.longest(root)
	d.node(place{}, 1, []occurrence{{0, root}})
	return Body{Kind: "json", Bytes: len(body), Records: records, Lines: d.lines}
}

// longest finds the longest list, the outermost of several: counts are compared with its length.
func (d *describer) longest(root value) (path string) {
	type located struct {
		value
		place
	}
	for queue := []located{{root, place{}}}; len(queue) > 0; queue = queue[1:] {
		v := queue[0]
		n := -1
		switch {
		case v.kind == '[' && (len(v.inner) == 0 || slices.ContainsFunc(v.inner, func(e value) bool { return e.kind == '{' })):
			n = len(v.inner)
		case v.kind == '{':
			n = v.indexed()
		}
		if n > d.records {
			d.records, path = n, v.path
		}
		if v.kind != '{' || n >= 0 {
			continue
		}
		kept := keptNames([]value{v.value}, v.place)
		for _, m := range v.inner {
			queue = append(queue, located{m, v.member(tokenOf(m, kept))})
		}
	}
	return path
}

// indexed is the length of a list that is written as an object with indexes for names; -1 for other
// objects.
func (v value) indexed() int {
	n := 0
	for _, m := range v.inner {
		if isNatural(m.name) && m.kind == '{' {
			n++
		} else if isNatural(m.name) || m.kind == '{' || m.kind == '[' {
			return -1
		}
	}
	return cmp.Or(n, -1)
}

func isNatural(s string) bool {
	return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

// place is where a value is.
type place struct {
	path     string
	name     string // of the member; elements have that of their list
	depth    int
	inRecord bool // the value belongs to a record, so that nothing is said of it but its class
	speaks   bool // the member, or one around it, says whether the response is a success
}

func (p place) member(token string) place {
	p.path += "/" + token
	p.depth++
	if p.name = token; token[0] == '{' {
		p.name, p.inRecord = "", true
	}
	p.speaks = p.speaks || listings.SpeaksOfResponse(p.name)
	return p
}

// occurrence is one of the values at a place.
type occurrence struct {
	at int // index of the object or element around it
	value
}

// class is what the lines of one place differ in.
type class struct{ kind, form, is string }

// node writes the lines of a place, then those of the places in it.
func (d *describer) node(p place, of int, all []occurrence) {
	if len(all) == 0 || len(d.lines) >= maxLines {
		return
	}
	var order []class
	groups := map[class][]occurrence{}
	for _, o := range all {
		c := d.classOf(p, o.value)
		if groups[c] == nil {
			order = append(order, c)
		}
		groups[c] = append(groups[c], o)
	}
	for _, c := range order {
		d.lines = append(d.lines, newLine(p, c, of, groups[c]))
	}
	for _, c := range order {
		switch {
		case c.kind == "object":
			d.members(p, groups[c])
		case c.kind == "array" && c.form == "":
			d.elements(p, groups[c])
		}
	}
}

func newLine(p place, c class, of int, all []occurrence) Line {
	l := Line{Path: p.path, Type: c.kind, In: len(all), Of: of, Form: c.form, Is: c.is}
	if len(all) < of {
		l.At = runs(all)
	}
	distinct, alphabet := map[string]bool{}, map[string]bool{}
	for _, o := range all {
		switch c.kind {
		case "array":
			l.Length = l.Length.add(len(o.inner))
		case "string", "number":
			if c.is != "" && c.kind == "string" { // its length and number would be those of a word
				continue
			}
			distinct[o.text] = true
			l.Length = l.Length.add(len([]rune(o.text)))
			if strings.HasSuffix(c.form, "text") {
				addClasses(alphabet, o.text)
			}
		}
	}
	l.Distinct, l.Alphabet = len(distinct), sorted(alphabet)
	compare := func(a, b occurrence) int { return cmp.Or(len(a.text)-len(b.text), strings.Compare(a.text, b.text)) }
	switch {
	case !strings.HasPrefix(c.form, "time ") || len(all) < 2:
	case slices.IsSortedFunc(all, func(a, b occurrence) int { return compare(b, a) }):
		l.Order = "descending"
	case slices.IsSortedFunc(all, compare):
		l.Order = "ascending"
	}
	return l
}

// runs writes positions like 1-3,5.
func runs(all []occurrence) string {
	var parts []string
	for i := 0; i < len(all); i++ {
		from := all[i].at + 1
		for i+1 < len(all) && all[i+1].at == all[i].at+1 {
			i++
		}
		if to := all[i].at + 1; from < to {
			parts = append(parts, fmt.Sprintf("%d-%d", from, to))
		} else {
			parts = append(parts, strconv.Itoa(from))
		}
	}
	return strings.Join(parts, ",")
}

// members describes the members of objects. Those whose names may be data are described together,
// like the elements of a list.
func (d *describer) members(p place, objects []occurrence) {
	list := make([]value, len(objects))
	for n, o := range objects {
		list[n] = o.value
		p.inRecord = p.inRecord || isRecord(o.value)
	}
	kept := keptNames(list, p)
	var order []string
	found := map[string][]occurrence{}
	for n, o := range objects {
		for _, m := range o.inner {
			token, at := tokenOf(m, kept), n
			switch {
			case token[0] == '{':
				at = len(found[token])
			case m.again > 0:
				token = fmt.Sprintf("%s~%d", token, m.again+1)
			}
			if found[token] == nil {
				order = append(order, token)
			}
			found[token] = append(found[token], occurrence{at, m})
		}
	}
	for _, token := range order {
		of := len(objects)
		if token[0] == '{' {
			of = len(found[token])
		}
		d.node(p.member(token), of, found[token])
	}
}

func (d *describer) elements(p place, arrays []occurrence) {
	var all []occurrence
	for _, a := range arrays {
		for _, e := range a.inner {
			all = append(all, occurrence{len(all), e})
		}
	}
	p.path += "/*"
	p.depth++
	p.inRecord = p.inRecord || !slices.Contains(remarks, strings.ToLower(p.name))
	d.node(p, len(all), all)
}

// remarks are lists about the response instead of records.
var remarks = []string{"messages", "notifications", "notices", "alerts", "warnings", "errors"}

// recordNames are members that only a record has.
var recordNames = []string{"createdAt", "score", "propertyReferenceId", "objectReference", "email", "firstName", "lastName", "phone"}

// isRecord reports whether an object is a single record instead of an envelope.
func isRecord(v value) bool {
	return slices.ContainsFunc(v.inner, func(m value) bool {
		return slices.ContainsFunc(recordNames, func(name string) bool { return listings.SameName(m.name, name) })
	})
}

// describedHeaders are the headers that say something about access, paging or caching.
var describedHeaders = []string{
	"Content-Type", "Content-Encoding", "Content-Language", "Content-Range", "Date", "Age", "Expires", "Cache-Control", "Retry-After", "Link", "Location",
	"Etag", "Last-Modified", "Www-Authenticate", "X-Total-Count", "X-Total", "Total-Count", "X-Pagination-Total-Count",
	"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset",
}

// knownWords are the media types, charsets and encodings that are written as they are.
var knownWords = []string{
	"application/json", "application/hal+json", "application/vnd.api+json", "application/ld+json", "application/problem+json", "text/json", "text/html",
	"text/plain", "application/xml", "text/xml", "application/octet-stream", "application/x-ndjson",
	"utf-8", "utf8", "iso-8859-1", "iso-8859-15", "latin1", "windows-1252", "us-ascii", "utf-16", "gzip", "identity",
}

func (d *describer) headers(h http.Header) []Line {
	lines := []Line{}
	for _, name := range describedHeaders {
		if len(h.Values(name)) == 0 {
			continue
		}
		text := strings.Join(h.Values(name), ", ")
		l := Line{Path: name, Type: "string", In: 1, Of: 1}
		switch name {
		case "Content-Type", "Content-Encoding":
			if media, parameters, _ := mime.ParseMediaType(text); slices.Contains(knownWords, media) {
				l.Is = media
				if charset := strings.ToLower(parameters["charset"]); slices.Contains(knownWords, charset) {
					l.Is += "; charset=" + charset
				}
			}
		case "Link":
			if l.Form = "links"; listings.LinksToNext(text) {
				l.Is = "next"
			}
		case "Content-Range":
			l.Form = "range"
			if _, total, _ := strings.Cut(text, "/"); isNatural(total) {
				l.Is = d.relation(place{}, total)
			}
		}
		if l.Is == "" && l.Form == "" {
			c := d.classOf(place{name: name, inRecord: !strings.Contains(name, "Total")}, value{kind: '"', text: text})
			l.Form, l.Is, l.Length = c.form, c.is, l.Length.add(len(text))
		}
		lines = append(lines, l)
	}
	return lines
}
