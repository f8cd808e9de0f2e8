package sandbox

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// api is the handler; answers counts what shuffles the next one.
type api struct {
	model     *Model
	rendering Rendering
	answers   atomic.Uint64
	memory    memory
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
		panic("sandbox: a Rendering starts from Flat(), Nested() or one of Families()")
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
		ans = a.answer(c, r, fault)
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

// answer is the honest one to a caller who may ask, as far as the fault lets it be.
func (a *api) answer(c caller, r *http.Request, fault *Fault) answer {
	number := a.answers.Add(1)
	shape := fault.rendering(a.rendering)
	page, receipt, status := a.model.read(c, shape, fault, number)
	if status != http.StatusOK {
		return refused(status)
	}
	page.answer = number
	page.self = &url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	show := shape.insertions
	if page.kind == contactRequestsKind {
		show = shape.window
	}
	ans := answer{status: http.StatusOK, header: shape.header(page), receipt: receipt}
	switch {
	case len(page.records) == 0 && shape.None == NoContent:
		ans.status = http.StatusNoContent
	case len(page.records) == 0 && shape.None == NoBody:
	default:
		tree := show(shape, page)
		ans.body = shape.write(tree, number)
		a.makeConditional(&ans, shape, c, tree, r)
	}
	if fault != nil && len(fault.Trailing) > 0 && ans.status == http.StatusOK {
		ans.body = slices.Concat(ans.body, fault.Trailing)
	}
	if !fault.readable(c.call.Operation) {
		ans.receipt, ans.promise = nothing, nil
	}
	return ans
}

// nothing is the receipt of an answer that nobody can read.
var nothing receipt

// read finds what is to be shown, or the status that refuses it.
func (m *Model) read(c caller, r Rendering, fault *Fault, answer uint64) (page, receipt, int) {
	s := fault.sight(m.now())
	if c.call.Operation == OperationInsertions {
		q, status := r.insertionQuery(c.call.Query)
		if status != http.StatusOK {
			return page{}, receipt{}, status
		}
		return m.insertions(c, q, r, s, answer)
	}
	q, status := r.windowQuery(c.call.Query)
	if status != http.StatusOK {
		return page{}, receipt{}, status
	}
	return m.window(c, q, r, s)
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
