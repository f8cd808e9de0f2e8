package shape

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Options of a Handler.
type Options struct {
	Key      string   // required of requests; empty: none is
	Agencies []string // that exist; empty: all
}

// Handler serves made-up responses in the form of the file, always the same ones. A list that
// counts more records than it shows has further pages.
func (f File) Handler(o Options) http.Handler {
	h := &handler{o: o, now: time.Now().UTC().Truncate(time.Minute)}
	for n := range f.Responses {
		r := &f.Responses[n]
		if r.Operation == Insertions {
			h.insertions = append(h.insertions, r)
		} else if r.Status == http.StatusOK {
			h.contacts = append(h.contacts, r)
		} else {
			h.refusals = append(h.refusals, r)
		}
	}
	if len(h.contacts) == 0 {
		h.contacts = h.refusals
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /insertion-funnel/integration/{agency}/insertions", h.list)
	mux.HandleFunc("GET /ubm-contact-request/property/{reference}", h.window)
	return mux
}

type handler struct {
	o          Options
	now        time.Time
	insertions []*Response
	contacts   []*Response // good ones, otherwise the refusals
	refusals   []*Response // of contact requests
}

// maker makes up one response.
type maker struct {
	*Response
	agency, reference string
	now               time.Time // later than all times
	salt              string    // of the values: page and reference
	page, pages       int       // from 0
	shown, total      int       // records on this page, and on all of them
	reversed          bool      // records in the other order
}

// refuses answers a request without the key, or for what the file has no response to.
func (h *handler) refuses(w http.ResponseWriter, r *http.Request, all []*Response) bool {
	agency := r.PathValue("agency")
	switch {
	case h.o.Key != "" && r.Header.Get("Authorization") != "ApiKey "+h.o.Key,
		agency != "" && len(h.o.Agencies) > 0 && !slices.Contains(h.o.Agencies, agency):
		w.WriteHeader(http.StatusForbidden)
	case len(all) == 0:
		w.WriteHeader(http.StatusNotFound)
	default:
		return false
	}
	return true
}

// list serves a page of insertions. Pages are numbered from 0, which is what a request without a
// page gets.
func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	if h.refuses(w, r, h.insertions) {
		return
	}
	agency, page := r.PathValue("agency"), max(0, atoi(r.URL.Query().Get("page")))
	first, later := pick(h.insertions, false), pick(h.insertions, true)
	m := h.maker(first, agency, "")
	behind := later != nil && (later.Status != http.StatusOK || later.Records == 0)
	if page >= m.pages && behind {
		m = h.maker(later, agency, "")
	}
	m.page, m.salt = page, agency+strconv.Itoa(page)
	m.shown = max(0, min(m.shown, m.total-page*m.shown))
	m.write(w)
}

// window serves contact requests: those of a reference have always the same form.
func (h *handler) window(w http.ResponseWriter, r *http.Request) {
	if h.refuses(w, r, h.contacts) {
		return
	}
	agency, reference, q := "A100", r.PathValue("reference"), r.URL.Query()
	if len(h.o.Agencies) > 0 {
		agency = h.o.Agencies[0]
	}
	hash := fnv.New32a()
	fmt.Fprint(hash, reference)
	m := h.maker(h.contacts[int(hash.Sum32())%len(h.contacts)], agency, reference)
	m.reversed = q.Get("sortBy") == "createdAt" && q.Get("sortOrder") == "asc"
	m.write(w)
}

// pick returns the first good response for a page, or to a request without one; otherwise the first
// of any kind, nil if there is none.
func pick(all []*Response, paged bool) (first *Response) {
	for _, r := range all {
		isFit := r.Page > 0 == paged
		if isFit && r.Status == http.StatusOK {
			return r
		}
		if isFit && first == nil {
			first = r
		}
	}
	return first
}

// maker returns one for the first page, with as many records as the original showed. There are two
// pages more if the original said that there are more records.
func (h *handler) maker(r *Response, agency, reference string) *maker {
	if r == nil {
		return &maker{Response: &Response{Status: http.StatusNotFound}, pages: 1}
	}
	m := &maker{Response: r, now: h.now, pages: 1, agency: agency, reference: reference, salt: reference}
	m.shown, m.total = r.Records, r.Records
	if r.Operation == Insertions && m.shown > 0 && r.More {
		m.total, m.pages = 2*m.shown+(m.shown+1)/2, 3
	}
	return m
}

// isMarked reports whether a value is the list of records.
func (v value) isMarked() bool { return len(v.inner) > 0 && v.inner[0].text == marker }

// append appends a value. Of the list of records what is on the page is written.
func (m *maker) append(b []byte, name string, v value, inRecord bool) []byte {
	switch v.kind {
	case '"':
		return m.scalar(b, name, v.text, inRecord)
	case '{', '[':
	default:
		return append(b, v.text...)
	}
	inner := v.inner
	if v.isMarked() {
		inner, inRecord = slices.Clone(inner[1:]), true
		if inner = inner[:min(len(inner), m.shown)]; m.reversed {
			slices.Reverse(inner)
		}
	}
	b = append(b, v.kind)
	for n, one := range inner {
		if n > 0 {
			b = append(b, ',')
		}
		if v.kind == '{' {
			b = append(m.scalar(b, "", one.name, true), ':')
			name = one.name
		}
		b = m.append(b, name, one, inRecord)
	}
	return append(b, v.kind+2) // } and ] follow { and [ in ASCII
}

// token is a form as it is written in a body.
var token = regexp.MustCompile(`(?s)^\{(number )?(?:(\d+) )?(.*)\}$`)

// scalar appends a text, a number or a boolean of the form that a text stands for.
func (m *maker) scalar(b []byte, name, text string, inRecord bool) []byte {
	parts := token.FindStringSubmatch(text)
	isNext := !inRecord && isNamed(name, nextNames) && !strings.HasPrefix(text, "{boolean")
	switch {
	case isNext && m.isLast():
		return append(b, "null"...)
	case parts == nil:
		b, _ = jsontext.AppendQuote(b, text)
		return b
	}
	n, form := atoi(parts[2]), strings.TrimPrefix(parts[3], "name ")
	switch form {
	case "boolean", "boolean more":
		return strconv.AppendBool(b, form == "boolean" || !m.isLast())
	case "boolean last":
		return strconv.AppendBool(b, m.isLast())
	case "broken text":
		return fmt.Appendf(b, "\"broken %d\xff\"", n)
	}
	var count int
	if _, err := fmt.Sscanf(form, "date of %d numbers", &count); err == nil && 0 <= count && count <= 7 {
		at := m.now.Add(-time.Duration(1000*m.page+n) * 97 * time.Minute)
		all := []int{at.Year(), int(at.Month()), at.Day(), at.Hour(), at.Minute(), at.Second(), 0}
		return append(append(append(b, '['),
			strings.Trim(strings.ReplaceAll(fmt.Sprint(all[:count]), " ", ","), "[]")...), ']')
	}
	made := m.made(form, n)
	if parts[1] != "" {
		return append(b, made...)
	}
	b, _ = jsontext.AppendQuote(b, made)
	return b
}

// made is the text of a form: for different numbers different ones, on every page and of every
// reference.
func (m *maker) made(form string, n int) string {
	if count, is := m.count(form); is {
		return strconv.Itoa(count)
	}
	if layout, isTime := strings.CutPrefix(form, "time "); isTime {
		return m.moment(n, layout)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", m.salt, form, n))
	x := fmt.Sprintf("%x", sum[:4])
	switch form {
	case "agencyId":
		return m.agency
	case "another agencyId":
		return "Z999"
	case "propertyReferenceId":
		return m.reference
	case "uuid":
		return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	case "e-mail":
		return "person." + x + "@example.org"
	case "url":
		return "https://elsewhere.example.org/" + x
	case "index":
		return strconv.Itoa(n - 1)
	case "long text":
		return strings.Repeat("long ", longText/4) + x
	case "control text":
		return "\x00" + x
	case "text":
		return "text " + x
	}
	if strings.Contains(form, "x") { // a reference
		return strings.ReplaceAll(form, "x", "m"+x)
	}
	return m.numberOf(form, n)
}

// numberOf fills the digits of a pattern: different numbers give different ones.
func (m *maker) numberOf(form string, n int) string {
	length := strings.Count(form, "9")
	low := int64(1)
	for range min(length, 16) - 1 {
		low *= 10
	}
	if length > 3 {
		sum := sha256.Sum256([]byte(m.salt))
		n += int(binary.BigEndian.Uint32(sum[:]) >> 1)
	}
	digits := strconv.FormatInt(low+int64(n)%(9*low), 10)
	digits = strings.Repeat("1", max(0, length-len(digits))) + digits
	return digit.ReplaceAllStringFunc(form, func(string) string {
		first := digits[:1]
		digits = digits[1:]
		return first
	})
}

// count is a number of the envelope, by its form.
func (m *maker) count(form string) (n int, is bool) {
	switch form {
	case "all":
		return m.shown, true
	case "total":
		return m.total, true
	case "larger total":
		return max(m.total, m.shown+1), true
	case "more":
		return m.shown + 20, true
	case "fewer":
		return max(m.shown-1, min(m.pages, 2)), true
	case "failure":
		return max(m.Status, http.StatusBadRequest), true
	}
	return 0, false
}

// isLast reports whether a page is the last of several, or behind it.
func (m *maker) isLast() bool { return m.page > 0 && m.page >= m.pages-1 }

// moment is a time that is made up: the higher its number, the older. 0 is no moment.
func (m *maker) moment(n int, layout string) string {
	at := m.now.Add(-time.Duration(1000*m.page+n) * 97 * time.Minute)
	if n == 0 {
		at = time.Time{}
	}
	if unit := perSecond[layout]; unit > 0 {
		return strconv.FormatInt(at.Unix()*unit, 10)
	}
	return at.Format(layout)
}

// bodies are those that are not JSON.
var bodies = map[string]string{
	"html":      "<!doctype html><title>made up</title>",
	"challenge": "<!doctype html><title>made up: captcha</title>",
	"other":     "made up",
}

func (m *maker) write(w http.ResponseWriter) {
	header := w.Header()
	header["Content-Type"], header["Date"] = nil, nil // none, instead of those that net/http adds
	for name, form := range m.Headers {
		if made := m.header(name, form); made != "" {
			header.Set(name, made)
		}
	}
	body := []byte(bodies[m.Kind])
	if m.Kind == kindJSON {
		body = m.append(nil, "", m.root, false)
	}
	w.WriteHeader(m.Status)
	_, _ = w.Write(body) // refused with a status that has no body
}

// header is the value of a header, as far as it means anything.
func (m *maker) header(name, form string) string {
	parts := token.FindStringSubmatch(strings.TrimPrefix(form, "items "))
	switch {
	case name == "Content-Range" && parts != nil:
		total, _ := m.count(parts[3])
		return fmt.Sprintf("items 0-%d/%d", max(0, m.shown-1), total)
	case parts == nil:
		return form
	case parts[3] == "next" && !m.isLast():
		return `</made-up/next>; rel="next"`
	case parts[3] == "next", strings.Contains(parts[3], "text"):
		return ""
	case strings.HasPrefix(parts[3], "time "):
		return m.now.Format(strings.TrimPrefix(parts[3], "time "))
	}
	return m.made(parts[3], 1)
}
