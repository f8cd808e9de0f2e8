package sandbox

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// api is the handler; answers counts what shuffles the next one.
type api struct {
	model     *Model
	rendering Rendering
	answers   atomic.Uint64
}

// New returns the API of the model, seen through one rendering; several may
// stand before one model. It answers
//
//	GET /insertion-funnel/integration/{agencyId}/insertions
//	GET /ubm-contact-request/property/{propertyReferenceId}
//
// and 404 for any other path, 405 for any other method, 403 for every failure of
// key or agency, 400 for a parameter that cannot be read or a path with bytes
// that should have been escaped, all with a JSON body.
// Names of offer and rank types that it does not know match nothing.
//
// It panics if the rendering was not made by a function of this package.
func New(m *Model, r Rendering) http.Handler {
	if r.insertions == nil {
		panic("sandbox: a Rendering starts from Flat() or Nested()")
	}
	return &api{model: m, rendering: r}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, known := route(r.URL.EscapedPath())
	if status := unaskable(r, known); status != 0 {
		a.turnAway(w, r, call, status)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	call.Query = query
	c := a.model.identify(call, r.Header.Values("Authorization"))
	entry := c.entry(r)
	fault := a.model.faultFor(c.call)
	if fault != nil {
		entry.Faulted = true
		if !wait(r.Context(), fault.Delay) {
			a.model.settleBroken(entry, c.known)
			return
		}
		// What is true is decided when the answer leaves, not when it was asked.
		late := a.model.identify(call, r.Header.Values("Authorization"))
		c.key, c.refusal, c.target = late.key, late.refusal, late.target
	}
	var ans answer
	switch {
	case fault.replaces():
		ans = fault.answer()
	case c.refusal != "":
		ans, entry.Refusal = refused(http.StatusForbidden), c.refusal
	case err != nil:
		ans = refused(http.StatusBadRequest)
	default:
		ans = a.answer(c)
	}
	ans.known = c.known
	a.send(w, r, ans, entry, fault)
}

// unaskable returns the status of what is none of the two operations, or zero.
func unaskable(r *http.Request, known bool) int {
	switch {
	case r.URL.RawPath != "" && r.URL.EscapedPath() != r.URL.RawPath:
		return http.StatusBadRequest // bytes that should have been escaped, such as #
	case !known:
		return http.StatusNotFound
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed
	}
	return 0
}

func (a *api) turnAway(w http.ResponseWriter, r *http.Request, call Call, status int) {
	c := a.model.identify(call, r.Header.Values("Authorization"))
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodGet)
	} else {
		c.call.Operation, c.call.AgencyID, c.known = "", "", false
	}
	ans := refused(status)
	ans.known = c.known
	a.send(w, r, ans, c.entry(r), nil)
}

func (c caller) entry(r *http.Request) *Request {
	return &Request{
		At: c.call.At, Operation: c.call.Operation, AgencyID: c.call.AgencyID, Reference: c.call.Reference,
		Key: c.call.Key, RawPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery,
	}
}

// answer is the honest one to a caller who may ask.
func (a *api) answer(c caller) answer {
	if c.call.Operation == OperationInsertions {
		q, err := a.rendering.insertionQuery(c.call.Query)
		if err != nil {
			return refused(http.StatusBadRequest)
		}
		page, receipt := a.model.insertions(c.call.AgencyID, q, a.rendering)
		page.records = a.rendering.visible(page.records)
		return a.good(a.rendering.insertions(a.rendering, page), receipt)
	}
	q, err := a.rendering.windowQuery(c.call.Query)
	if err != nil {
		return refused(http.StatusBadRequest)
	}
	window, receipt, status := a.model.window(c.target, q, a.rendering)
	if status != http.StatusOK {
		return refused(status)
	}
	return a.good(a.rendering.window(a.rendering, window), receipt)
}

func (a *api) good(tree any, r receipt) answer {
	body := a.rendering.write(tree, a.answers.Add(1))
	return answer{status: http.StatusOK, body: body, receipt: r}
}

// insertions reads one page: the newest publication first.
func (m *Model) insertions(agencyID string, q insertionQuery, r Rendering) (insertionPage, receipt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	page := insertionPage{number: q.page, size: q.size}
	var shown receipt
	listed := m.agencies[agencyID].listed
	for n := len(listed) - 1; n >= 0; n-- {
		v := listed[n].current()
		if !q.selects(&v.record) {
			continue
		}
		if page.total/q.size == q.page-r.PageBase {
			page.records = append(page.records, v.tree)
			shown.add(&v.served, v.record.Reference)
		}
		page.total++
	}
	return page, shown
}

// window reads the contact requests of one insertion, or says which status it
// has instead.
func (m *Model) window(i *insertion, q windowQuery, r Rendering) (contactRequestWindow, receipt, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i == nil {
		return contactRequestWindow{}, receipt{}, m.options.UnknownStatus
	}
	if !i.listed && m.options.WithdrawnStatus != http.StatusOK {
		return contactRequestWindow{}, receipt{}, m.options.WithdrawnStatus
	}
	visible := i.visibleContactRequests(m.options.Now(), q)
	w := contactRequestWindow{size: q.size, total: len(visible)}
	var shown receipt
	for _, c := range visible[:min(q.size, len(visible))] {
		v := c.current()
		w.records = append(w.records, r.contactRequest(v, i.reference))
		shown.add(&v.served, c.id)
	}
	return w, shown, http.StatusOK
}

func acceptsGzip(h http.Header) bool {
	for _, coding := range strings.Split(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		weight, given := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !given || err == nil && q > 0
	}
	return false
}
