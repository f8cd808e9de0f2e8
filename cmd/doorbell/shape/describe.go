package shape

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"doorbell/poller/listings"
)

// Asked is what a response responds to.
type Asked struct {
	Operation, Agency, Reference string
	Query                        url.Values
	Host                         string // of the API
}

// Describe writes down the form of a response whose body was read.
func Describe(a Asked, status int, h http.Header, body []byte) Response {
	path := "/insertion-funnel/integration/{agencyId}/insertions"
	if a.Operation == ContactRequests {
		path = "/ubm-contact-request/property/{propertyReferenceId}"
	}
	r := Response{Operation: a.Operation, Status: status, Request: "GET " + path}
	if q := a.form(); q != "" {
		r.Request += "?" + q
	}
	r.Size = atoi(cmp.Or(a.Query.Get("pageSize"), a.Query.Get("numberOfItemsPerPage")))
	r.Page = atoi(a.Query.Get("page"))
	d := &describer{asked: a, size: r.Size, status: status, records: -1}
	r.Body = d.body(body, h.Get("Content-Type"))
	r.Headers = d.headers(h)
	return r
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

// form is the query with the values of our own parameters alone: those of a filter are the
// agency's.
func (a Asked) form() string {
	var parts []string
	for _, name := range sorted(a.Query) {
		value := "…"
		if slices.Contains([]string{"pageSize", "page", "numberOfItemsPerPage", "sortBy", "sortOrder"}, name) {
			value = a.Query.Get(name)
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, "&")
}

// describer holds what the values of one response are compared with.
type describer struct {
	asked   Asked
	size    int
	status  int
	records int // elements of the longest list of objects; -1: there is none
	lines   []Line
}

// maxLines bounds what is written; a response of this API has a hundred or two.
const maxLines = 5000

func (d *describer) body(body []byte, contentType string) Body {
	b := Body{Kind: "other", Bytes: len(body)}
	root, err := parse(body)
	if err != nil {
		if kind := listings.KindOfBody(body, contentType); kind != listings.BodyJSON {
			b.Kind = string(kind)
		}
		return b
	}
	b.Kind = "json"
	path := ""
	d.longest(root, &path)
	d.node(place{}, 1, []occurrence{{0, root}})
	b.Lines = d.lines
	if d.records >= 0 {
		b.Records = path
	}
	return b
}

// longest finds the longest list, the outermost of several: counts are compared with it.
func (d *describer) longest(root value, path *string) {
	type at struct {
		value
		place
	}
	for queue := []at{{root, place{}}}; len(queue) > 0; queue = queue[1:] {
		v := queue[0]
		n := -1
		switch {
		case v.kind == '[' && (len(v.inner) == 0 || slices.ContainsFunc(v.inner, func(e value) bool { return e.kind == '{' })):
			n = len(v.inner)
		case v.kind == '{' && isIndexed(v.value):
			n = len(slices.DeleteFunc(slices.Clone(v.inner), func(m value) bool { return !isNatural(m.name) }))
		}
		if n > d.records {
			d.records, *path = n, v.path
		}
		if v.kind != '{' || n >= 0 || v.depth > 3 {
			continue
		}
		keeps := keptNames([]value{v.value}, v.place)
		for _, m := range v.inner {
			queue = append(queue, at{m, v.member(tokenOf(m, keeps), m.name)})
		}
	}
}

// isIndexed reports whether an object is a list with the numbers of its elements as names.
func isIndexed(v value) bool {
	objects := 0
	for _, m := range v.inner {
		if isNatural(m.name) && m.kind == '{' {
			objects++
		} else if isNatural(m.name) || m.kind == '{' || m.kind == '[' {
			return false
		}
	}
	return objects > 0
}

func isNatural(s string) bool {
	return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

// place is where a value stands.
type place struct {
	path     string
	name     string // of the member; of an element that of its list
	depth    int
	inRecord bool // in a list, or in an object that is a record
	speaks   bool // the member, or one around it, says how the response is to be taken
}

func (p place) member(token, name string) place {
	p.path += "/" + token
	p.depth++
	if p.name = ""; token == name {
		p.name = name
	}
	p.speaks = p.speaks || p.name != "" && listings.SpeaksOfResponse(p.name)
	return p
}

// occurrence is one of the values that stand at a place of as many objects or elements.
type occurrence struct {
	at int // of the one around it
	value
}

// class is what the lines of a place are told apart by.
type class struct{ kind, form, is string }

// node writes the lines of a place, then those of what is in it.
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
	order = d.fewer(order, groups)
	for _, c := range order {
		d.lines = append(d.lines, d.line(p, c, of, groups[c]))
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

// maxForms is how many forms of texts are written for one place.
const maxForms = 12

// fewer joins the forms of texts at a place where these are many.
func (d *describer) fewer(order []class, groups map[class][]occurrence) []class {
	if len(order) <= maxForms {
		return order
	}
	text := class{kind: "string", form: "text"}
	var kept []class
	for _, c := range order {
		if c.kind != "string" || c == text {
			kept = append(kept, c)
			continue
		}
		groups[text] = append(groups[text], groups[c]...)
	}
	if !slices.Contains(kept, text) {
		kept = append(kept, text)
	}
	slices.SortFunc(groups[text], func(a, b occurrence) int { return a.at - b.at })
	return kept
}

func (d *describer) line(p place, c class, of int, all []occurrence) Line {
	l := Line{Path: p.path, Type: c.kind, In: len(all), Of: of, Form: c.form, Is: c.is}
	l.Again = all[0].again
	if len(all) < of {
		l.At = runs(all)
	}
	switch c.kind {
	case "array":
		for _, o := range all {
			l.Length = l.Length.add(len(o.inner))
		}
	case "string", "number":
		distinct, alphabet := map[string]bool{}, map[string]bool{}
		for _, o := range all {
			distinct[o.text] = true
			l.Length = l.Length.add(len([]rune(o.text)))
			if strings.HasSuffix(c.form, "text") || c.form == "word" {
				addClasses(alphabet, o.value)
			}
		}
		l.Distinct, l.Alphabet = len(distinct), sorted(alphabet)
		if strings.HasPrefix(c.form, "9999") || strings.HasPrefix(c.form, "moment") {
			l.Order = orderOf(all)
		}
		if c.is != "" && c.kind == "string" { // the length of a word is the word
			l.Length, l.Distinct = nil, 0
		}
	}
	return l
}

func orderOf(all []occurrence) string {
	compare := func(a, b occurrence) int { return cmp.Or(len(a.text)-len(b.text), strings.Compare(a.text, b.text)) }
	switch {
	case len(all) < 2:
		return ""
	case slices.IsSortedFunc(all, func(a, b occurrence) int { return compare(b, a) }):
		return "descending"
	case slices.IsSortedFunc(all, compare):
		return "ascending"
	}
	return ""
}

// maxRuns bounds how long At is.
const maxRuns = 60

// runs writes positions as 1-3,5; empty where they are too many.
func runs(all []occurrence) string {
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1].at == all[j].at+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(all[i].at+1))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", all[i].at+1, all[j].at+1))
		}
		i = j + 1
	}
	if len(parts) > maxRuns {
		return ""
	}
	return strings.Join(parts, ",")
}

// members writes what is in objects: by names that are kept, and by their class where a name may be
// data.
func (d *describer) members(p place, objects []occurrence) {
	list := make([]value, len(objects))
	for n, o := range objects {
		list[n] = o.value
		p.inRecord = p.inRecord || isRecord(o.value)
	}
	keeps := keptNames(list, p)
	type key struct {
		token string
		again int
	}
	var order []key
	found, names := map[key][]occurrence{}, map[key]string{}
	for n, o := range objects {
		met := map[string]int{}
		for _, m := range o.inner {
			token := tokenOf(m, keeps)
			k := key{token, m.again}
			if token != m.name { // several names of one class are several members
				k.again = met[token]
				met[token]++
			}
			if found[k] == nil {
				order = append(order, k)
			}
			m.again = k.again
			found[k] = append(found[k], occurrence{n, m})
			names[k] = m.name
		}
	}
	for _, k := range order {
		if isData := k.token != names[k]; !isData {
			d.node(p.member(k.token, names[k]), len(objects), found[k])
		} else if k.again == 0 {
			var all []occurrence
			for _, other := range order { // as the elements of a list
				if other.token == k.token {
					all = append(all, found[other]...)
				}
			}
			slices.SortStableFunc(all, func(a, b occurrence) int { return a.at - b.at })
			inner := p.member(k.token, names[k])
			inner.inRecord = true
			for n := range all {
				all[n].at, all[n].again = n, 0
			}
			d.node(inner, len(all), all)
		}
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

// remarks are lists about the response, and no records.
var remarks = []string{"messages", "notifications", "notices", "alerts", "warnings", "errors"}

// isRecord reports whether an object is a record in place of a list: what is in it is data.
func isRecord(v value) bool {
	return slices.ContainsFunc(v.inner, func(m value) bool {
		for _, name := range []string{"createdAt", "score", "propertyReferenceId", "objectReference", "email", "firstName", "lastName", "phone"} {
			if listings.SameName(m.name, name) {
				return true
			}
		}
		return false
	})
}

// headersThatMatter are those whose form is written.
var headersThatMatter = []string{
	"Content-Type", "Content-Encoding", "Content-Language", "Content-Range", "Date", "Age", "Expires", "Cache-Control", "Retry-After", "Link", "Location",
	"Etag", "Last-Modified", "Www-Authenticate", "X-Total-Count", "X-Total", "Total-Count", "X-Pagination-Total-Count",
	"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset",
}

// mediaTypes are the content types that are written as they are, with a charset of this list.
var mediaTypes = []string{
	"application/json", "application/hal+json", "application/vnd.api+json", "application/ld+json", "application/problem+json", "text/json", "text/html",
	"text/plain", "application/xml", "text/xml", "application/octet-stream", "application/x-ndjson",
}

var charsets = []string{"utf-8", "utf8", "iso-8859-1", "iso-8859-15", "latin1", "windows-1252", "us-ascii", "utf-16"}

func (d *describer) headers(h http.Header) []Line {
	lines := []Line{}
	for _, name := range headersThatMatter {
		values := h.Values(name)
		if len(values) == 0 {
			continue
		}
		text := strings.Join(values, ", ")
		l := Line{Path: name, Type: "string", In: 1, Of: 1}
		switch name {
		case "Content-Type":
			l.Is = contentType(text)
		case "Content-Encoding":
			if e := strings.ToLower(text); e == "gzip" || e == "identity" {
				l.Is = e
			}
		case "Link":
			l.Form = "links"
			if next := nextLink.FindStringSubmatch(text); next != nil {
				l.Is = "next: " + d.classOf(place{}, value{kind: '"', text: next[1]}).form
			}
		case "Content-Range":
			l.Form = mask(text)
			if _, total, ok := strings.Cut(text, "/"); ok && isNatural(total) {
				l.Is = d.relation(place{name: "total"}, total)
			}
		}
		if l.Is == "" && l.Form == "" {
			c := d.classOf(place{name: name, inRecord: !strings.Contains(name, "Total")}, value{kind: '"', text: text})
			l.Form, l.Is = c.form, c.is
			l.Length = l.Length.add(len(text))
		}
		lines = append(lines, l)
	}
	return lines
}

// contentType is one that is known, as this package writes it; else empty.
func contentType(text string) string {
	media, parameters, _ := strings.Cut(strings.ToLower(text), ";")
	if media = strings.TrimSpace(media); !slices.Contains(mediaTypes, media) {
		return ""
	}
	name, charset, _ := strings.Cut(strings.TrimSpace(parameters), "=")
	if charset = strings.Trim(charset, `"' `); strings.TrimSpace(name) == "charset" && slices.Contains(charsets, charset) {
		return media + "; charset=" + charset
	}
	return media
}

func sorted[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
