package shape

import (
	"compress/gzip"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options of a Handler.
type Options struct {
	Key      string   // required of requests; empty: none is
	Agencies []string // that exist; empty: all
}

// Handler serves made-up responses in the form of the file, always the same ones. A list that
// counts more records than it shows has further pages.
func (f File) Handler(o Options) (http.Handler, error) {
	h := &handler{o: o, now: time.Now().UTC().Truncate(time.Minute), forms: map[*Response]form{}}
	for n := range f.Responses {
		r := &f.Responses[n]
		if r.Body.Kind == "json" {
			form, err := formOf(r.Body.Lines)
			if err != nil {
				return nil, err
			}
			h.forms[r] = form
		}
		if r.Operation == Insertions {
			h.insertions = append(h.insertions, r)
		} else {
			h.contacts = append(h.contacts, r)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /insertion-funnel/integration/{agency}/insertions", h.list)
	mux.HandleFunc("GET /ubm-contact-request/property/{reference}", h.window)
	return mux, nil
}

type handler struct {
	o                    Options
	now                  time.Time
	insertions, contacts []*Response
	forms                map[*Response]form
}

func (h *handler) admits(r *http.Request) bool {
	agency := r.PathValue("agency")
	return (h.o.Key == "" || r.Header.Get("Authorization") == "ApiKey "+h.o.Key) &&
		(agency == "" || len(h.o.Agencies) == 0 || slices.Contains(h.o.Agencies, agency))
}

// list serves a page of insertions. Pages are numbered from the number that the original begins
// with, as far as that was seen.
func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	q, agency := r.URL.Query(), r.PathValue("agency")
	size, page := atoi(q.Get("pageSize")), atoi(q.Get("page"))
	first, second := pick(h.insertions, size, false), pick(h.insertions, size, true)
	switch {
	case !h.admits(r):
		w.WriteHeader(http.StatusForbidden)
		return
	case first == nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case q.Has("page") && (second == nil || second.Status != http.StatusOK || second.Same):
		page = max(0, page-1)
	}
	m := h.maker(first, agency, "")
	if page >= m.pages && second != nil && !second.Same { // behind the last page
		if behind := h.maker(second, agency, ""); second.Status != http.StatusOK || behind.shown == 0 {
			m = behind
		}
	}
	m.page, m.salt = page, agency+strconv.Itoa(page)
	m.shown = max(0, min(m.shown, m.total-page*m.shown))
	m.write(w)
}

// window serves contact requests: those of a reference have always the same form.
func (h *handler) window(w http.ResponseWriter, r *http.Request) {
	all := slices.DeleteFunc(slices.Clone(h.contacts), func(c *Response) bool { return c.Status != http.StatusOK })
	if len(all) == 0 {
		all = h.contacts
	}
	switch {
	case !h.admits(r):
		w.WriteHeader(http.StatusForbidden)
		return
	case len(all) == 0:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	agency, reference, q := "A100", r.PathValue("reference"), r.URL.Query()
	if len(h.o.Agencies) > 0 {
		agency = h.o.Agencies[0]
	}
	hash := fnv.New32a()
	fmt.Fprint(hash, reference)
	m := h.maker(all[int(hash.Sum32())%len(all)], agency, reference)
	m.reversed = q.Get("sortBy") == "createdAt" && q.Get("sortOrder") == "asc"
	m.write(w)
}

// pick is the response to a request of that size, else a good one, else any.
func pick(all []*Response, size int, later bool) (best *Response) {
	score := -1
	for _, r := range all {
		s := 0
		if r.Size == size {
			s += 2
		}
		if r.Status == http.StatusOK {
			s++
		}
		if (r.Page > 0) == later && s > score {
			best, score = r, s
		}
	}
	return best
}

// maker returns one for the first page, with as many records as the original showed. There are two
// pages more if the original said that there are more records.
func (h *handler) maker(r *Response, agency, reference string) *maker {
	m := &maker{form: h.forms[r], response: r, now: h.now, pages: 1, agency: agency, reference: reference, salt: reference}
	m.shown = m.count(r.Body.Records+"/*") + m.count(r.Body.Records+"/{index}")
	m.total = m.shown
	if r.Operation == Insertions && m.shown > 0 && (slices.ContainsFunc(r.Body.Lines, Line.saysMore) || slices.ContainsFunc(r.Headers, Line.saysMore)) {
		m.total, m.pages = 2*m.shown+(m.shown+1)/2, 3
	}
	return m
}

// bodies are those that are not JSON.
var bodies = map[string]string{
	"html": "<!doctype html><title>made up</title>", "challenge": "<!doctype html><title>made up: captcha</title>", "other": "made up",
}

func (m *maker) write(w http.ResponseWriter) {
	header := w.Header()
	header["Content-Type"], header["Date"] = nil, nil // none, instead of those that net/http adds
	for _, l := range m.response.Headers {
		if value := m.header(l); value != "" {
			header.Set(l.Path, value)
		}
	}
	body := []byte(bodies[m.response.Body.Kind])
	if m.response.Body.Kind == "json" {
		m.value("", 0, false)
		body = m.b
	}
	w.WriteHeader(m.response.Status)
	if header.Get("Content-Encoding") == "gzip" {
		packed := gzip.NewWriter(w)
		_, _ = packed.Write(body)
		_ = packed.Close()
		return
	}
	_, _ = w.Write(body) // refused with a status that has no body
}

// header is the value of a header, as far as it means anything.
func (m *maker) header(l Line) string {
	switch l.Path {
	case "Content-Type":
		return l.Is
	case "Content-Encoding":
		return strings.TrimSuffix(l.Is, "identity")
	case "Link":
		if l.Is == "" || m.isLast() {
			return ""
		}
		return `</made-up/next>; rel="next"`
	}
	n, isRelated := m.related(l.Is, l.Path)
	layout, isTime := strings.CutPrefix(l.Form, "time ")
	switch {
	case isRelated && l.Path == "Content-Range":
		return fmt.Sprintf("items 0-%d/%d", max(0, m.shown-1), n)
	case isRelated:
		return strconv.Itoa(n)
	case isTime && l.Path == "Retry-After":
		return time.Now().UTC().Add(30 * time.Second).Format(layout)
	case isTime:
		return m.now.Format(layout)
	case strings.Trim(l.Form, "9") == "":
		return strings.ReplaceAll(l.Form, "9", "1")
	}
	return ""
}
