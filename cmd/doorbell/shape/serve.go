package shape

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options of a Handler.
type Options struct {
	Key      string   // that is demanded; empty: none is
	Agencies []string // that exist; empty: all
}

// Handler serves made-up responses in the form of the file, always the same ones. A list that
// counts more than it showed has further pages.
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
	return h, nil
}

type handler struct {
	o                    Options
	now                  time.Time
	insertions, contacts []*Response
	forms                map[*Response]form
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const list, window = "/insertion-funnel/integration/", "/ubm-contact-request/property/"
	path, q := r.URL.EscapedPath(), r.URL.Query()
	agency, isList := strings.CutPrefix(strings.TrimSuffix(path, "/insertions"), list)
	reference, isWindow := strings.CutPrefix(path, window)
	agency, _ = url.PathUnescape(agency)
	reference, _ = url.PathUnescape(reference)
	switch {
	case r.Method != http.MethodGet || !isList && !isWindow:
		w.WriteHeader(http.StatusNotFound)
	case h.o.Key != "" && r.Header.Get("Authorization") != "ApiKey "+h.o.Key,
		isList && len(h.o.Agencies) > 0 && !slices.Contains(h.o.Agencies, agency):
		w.WriteHeader(http.StatusForbidden)
	case isList:
		h.list(w, r, agency, atoi(q.Get("page")), atoi(q.Get("pageSize")), q.Has("page"))
	default:
		h.window(w, r, reference, q)
	}
}

// list serves a page of insertions. Pages count from where the original's did, as far as that was
// seen.
func (h *handler) list(w http.ResponseWriter, r *http.Request, agency string, page, size int, paged bool) {
	first := pick(h.insertions, size, func(r *Response) bool { return r.Page == 0 })
	if first == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	second := pick(h.insertions, size, func(r *Response) bool { return r.Page > 0 })
	m := h.maker(first, r.Host)
	m.agency, m.page = agency, page
	fromZero := second != nil && second.Status == http.StatusOK && !second.Same
	if paged && !fromZero {
		m.page = max(0, page-1)
	}
	if paged && m.page > 0 && m.pages <= m.page && second != nil && !second.Same {
		t := h.maker(second, r.Host) // as the original ended
		t.agency, t.page, t.pages, t.salt = agency, m.page, m.pages, "page"+strconv.Itoa(m.page)
		if second.Status != http.StatusOK || t.shown == 0 {
			h.write(w, t)
			return
		}
	}
	m.salt = agency + strconv.Itoa(m.page)
	m.shown = max(0, min(m.shown, m.total-m.page*m.shown))
	h.write(w, m)
}

// window serves contact requests: each reference has one of the forms, always the same.
func (h *handler) window(w http.ResponseWriter, r *http.Request, reference string, q url.Values) {
	var all []*Response
	for _, c := range h.contacts {
		if c.Status == http.StatusOK {
			all = append(all, c)
		}
	}
	if all = append(all, h.contacts...); len(all) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	n := len(h.contacts)
	if all[0].Status == http.StatusOK {
		n = len(all) - len(h.contacts)
	}
	hash := fnv.New32a()
	fmt.Fprint(hash, reference)
	m := h.maker(all[int(hash.Sum32())%n], r.Host)
	m.reference, m.salt, m.pages = reference, reference, 1
	m.reversed = q.Get("sortBy") == "createdAt" && q.Get("sortOrder") == "asc"
	h.write(w, m)
}

// agency is the one to which all insertions belong.
func (h *handler) agency() string {
	if len(h.o.Agencies) == 0 {
		return "A100"
	}
	return h.o.Agencies[0]
}

// pick is the response to a request of that size, else a good one, else any.
func pick(all []*Response, size int, fits func(*Response) bool) (best *Response) {
	score := -1
	for _, r := range all {
		s := 0
		if r.Size == size {
			s += 2
		}
		if r.Status == http.StatusOK {
			s++
		}
		if fits(r) && s > score {
			best, score = r, s
		}
	}
	return best
}

// maker is set up for the first page: as many records as the original showed, and more behind where
// it counted more.
func (h *handler) maker(r *Response, host string) *maker {
	m := &maker{form: h.forms[r], response: r, host: host, now: h.now, pages: 1, agency: h.agency()}
	m.shown = m.count(r.Body.Records+"/*") + m.count(r.Body.Records+"/{index}")
	m.total = m.shown
	if r.Operation == Insertions && m.shown > 0 && (slices.ContainsFunc(r.Body.Lines, Line.saysMore) || slices.ContainsFunc(r.Headers, Line.saysMore)) {
		m.total, m.pages = 2*m.shown+(m.shown+1)/2, 3
	}
	return m
}

func (h *handler) write(w http.ResponseWriter, m *maker) {
	r := m.response
	body := []byte("made up")
	switch r.Body.Kind {
	case "json":
		m.value("", 0, false)
		body = m.b
	case "none":
		body = nil
	case "html":
		body = []byte("<!doctype html><title>made up</title>")
	case "challenge":
		body = []byte("<!doctype html><title>made up: captcha</title>")
	}
	header := w.Header()
	header["Content-Type"] = nil
	header.Del("Date")
	for _, l := range r.Headers {
		if value := m.header(l); value != "" {
			header.Set(l.Path, value)
		}
	}
	if !slices.ContainsFunc(r.Headers, func(l Line) bool { return l.Path == "Date" }) {
		header["Date"] = nil
	}
	if header.Get("Content-Encoding") == "gzip" {
		w.WriteHeader(r.Status)
		packed := gzip.NewWriter(w)
		_, _ = packed.Write(body)
		_ = packed.Close()
		return
	}
	header.Del("Content-Encoding")
	w.WriteHeader(r.Status)
	if r.Status != http.StatusNoContent && r.Status != http.StatusNotModified {
		_, _ = w.Write(body)
	}
}

// header is the value of a header, as far as it means anything.
func (m *maker) header(l Line) string {
	k := kind{Line: l}
	switch l.Path {
	case "Content-Type", "Content-Encoding":
		return l.Is
	case "Date", "Last-Modified", "Expires":
		return m.now.Format(http.TimeFormat)
	case "Retry-After":
		if strings.Trim(l.Form, "9") == "" {
			return cmp.Or(strings.Repeat("1", min(len(l.Form), 4)), "1")
		}
		return time.Now().UTC().Add(30 * time.Second).Format(http.TimeFormat)
	case "Link":
		if l.Is == "" || m.isLast() {
			return ""
		}
		return fmt.Sprintf(`<http://%s/made-up/next>; rel="next"`, m.host)
	case "Content-Range":
		if n, ok := m.related(l.Is, "total"); ok {
			return fmt.Sprintf("items 0-%d/%d", max(0, m.shown-1), n)
		}
		return ""
	}
	if n, ok := m.related(l.Is, l.Path); ok {
		return strconv.Itoa(n)
	}
	if strings.Trim(l.Form, "9") == "" && l.Form != "" {
		return m.text(k, 0)
	}
	return ""
}
