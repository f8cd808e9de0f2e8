package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// api is the handler.
type api struct {
	model     *Model
	rendering Rendering
}

// New returns the API of the model, seen through one rendering; several may stand before one model.
// It answers
//
//	GET /insertion-funnel/integration/{agencyId}/insertions
//	GET /ubm-contact-request/property/{propertyReferenceId}
//
// and 404 for any other path, 405 for any other method, 403 for every failure of key or agency, 400
// for a parameter that cannot be read or a path with bytes that should have been escaped, all with
// a JSON body. Names of offer and rank types that it does not know match nothing.
//
// It panics if the rendering was not made by a function of this package.
func New(m *Model, r Rendering) http.Handler {
	if r.insertions == nil {
		panic("sandbox: a Rendering starts from one of Renderings()")
	}
	return &api{model: m, rendering: r}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, status := route(r)
	query, malformed := url.ParseQuery(r.URL.RawQuery)
	call.Query, call.At = query, a.model.now()
	x := &exchange{Request: Request{Call: call}}
	a.model.identify(x, r.Header.Values("Authorization"))
	fault := &Fault{}
	if status == http.StatusOK {
		fault = a.model.faultFor(x.Call)
	}
	if fault.Delay > 0 {
		if !wait(r.Context(), fault.Delay) {
			a.model.settle(x, false)
			return
		}
		// What is true is decided when the response leaves, not when the request came.
		a.model.identify(x, r.Header.Values("Authorization"))
	}
	var ans answer
	switch {
	case status != http.StatusOK:
		ans = refused(status)
	case fault.replaces():
		ans = answer{status: cmp.Or(fault.Status, http.StatusOK), body: fault.Body}
	case x.refused:
		ans = refused(http.StatusForbidden)
	case malformed != nil:
		ans = refused(http.StatusBadRequest)
	default:
		ans = a.answer(x, r, fault)
	}
	a.send(w, r, x, ans, fault)
}

// route reads what a request is for; the status is 200, or why it is for none of the two
// operations.
func route(r *http.Request) (Call, int) {
	path := r.URL.EscapedPath()
	if r.URL.RawPath != "" && path != r.URL.RawPath {
		return Call{}, http.StatusBadRequest // bytes that should have been escaped, such as #
	}
	call, known := parsePath(path)
	switch {
	case !known:
		return Call{}, http.StatusNotFound
	case r.Method != http.MethodGet:
		return call, http.StatusMethodNotAllowed
	}
	return call, http.StatusOK
}

// parsePath reads a path as received. Each segment is decoded once, and only after the path was
// split, because a reference may hold a slash itself.
func parsePath(path string) (Call, bool) {
	if rest, ok := strings.CutPrefix(path, "/insertion-funnel/integration/"); ok {
		escaped, ok := strings.CutSuffix(rest, "/insertions")
		agencyID, valid := segment(escaped)
		return Call{Operation: OperationInsertions, AgencyID: agencyID}, ok && valid
	}
	rest, ok := strings.CutPrefix(path, "/ubm-contact-request/property/")
	reference, valid := segment(rest)
	return Call{Operation: OperationContactRequests, Reference: reference}, ok && valid
}

func segment(escaped string) (string, bool) {
	if escaped == "" || strings.Contains(escaped, "/") {
		return "", false
	}
	s, err := url.PathUnescape(escaped)
	return s, err == nil
}

// exchange is one request and its response.
type exchange struct {
	Request
	key     *key       // nil: none that is known
	refused bool       // with 403
	target  *insertion // contact requests only; nil: no such reference
	shown   []*int     // by the response: how often they were served, one more once it has left
}

// show notes that a record is in the response.
func (x *exchange) show(served *int, name string) {
	x.shown, x.Served = append(x.shown, served), append(x.Served, name)
}

// showNothing is for a response that cannot be read or did not leave whole.
func (x *exchange) showNothing() { x.shown, x.Served = nil, nil }

// identify finds out from path and key who sent a request and whether it may.
func (m *Model) identify(x *exchange, authorization []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(authorization) == 1 {
		if value, ok := strings.CutPrefix(authorization[0], "ApiKey "); ok {
			x.key = m.keys[value]
		}
	}
	if x.key != nil {
		x.Key = x.key.label
	}
	x.refused = x.key == nil || !x.key.active
	if x.Operation == OperationInsertions {
		if m.agencies[x.AgencyID] == nil {
			x.AgencyID, x.refused = "", true
		}
		x.refused = x.refused || !x.key.agencies[x.AgencyID]
		return
	}
	// The same reference may belong to several agencies; then the one is meant that was published
	// first, of those that the key may see.
	owners := m.references[x.Reference]
	if len(owners) == 0 {
		return
	}
	linked := slices.IndexFunc(owners, func(i *insertion) bool { return x.key != nil && x.key.agencies[i.AgencyID] })
	x.target = owners[max(linked, 0)]
	x.AgencyID = x.target.AgencyID
	x.refused = x.refused || linked < 0 ||
		!x.target.listed() && m.options.WithdrawnStatus == http.StatusForbidden
}

// answer is what is about to be sent.
type answer struct {
	status int
	body   []byte
	header http.Header
}

// refused has the same body for every cause, as the status is the same too.
func refused(status int) answer {
	body := fmt.Sprintf(`{"status":%d,"error":%q}`, status, http.StatusText(status))
	return answer{status: status, body: []byte(body)}
}

// answer is the normal response to a caller who is not refused, as far as the fault allows.
func (a *api) answer(x *exchange, r *http.Request, fault *Fault) answer {
	shape := fault.rendering(a.rendering)
	read, envelope := a.model.window, shape.window
	if x.Operation == OperationInsertions {
		read, envelope = a.model.insertions, shape.insertions
	}
	p, status := read(x, shape, fault)
	if status != http.StatusOK {
		return refused(status)
	}
	tree := p.fill(envelope)
	ans := answer{status: http.StatusOK, body: shape.write(tree), header: http.Header{}}
	if shape.TotalsInHeader {
		ans.header.Set("X-Total-Count", strconv.Itoa(p.total))
	}
	if fault.Edit != nil {
		ans.body = fault.Edit(ans.body)
	}
	if !fault.readable(x.Operation, ans) {
		x.showNothing()
	}
	return ans
}

// integer reads a parameter; present and empty is no integer.
func integer(v url.Values, name string, ifAbsent, least int) (n int, ok bool) {
	if !v.Has(name) {
		return ifAbsent, true
	}
	n, err := strconv.Atoi(v.Get(name))
	return n, err == nil && n >= least
}

// oneOf says whether a parameter has its other value instead of the default.
func oneOf(v url.Values, name, ifAbsent, other string) (has, ok bool) {
	value := v.Get(name)
	return value == other, !v.Has(name) || value == ifAbsent || value == other
}

// take reads a size parameter and caps it; the status is 200, or why not.
func (s Sizes) take(v url.Values, name string, ifAbsent, most int) (size, status int) {
	n, ok := integer(v, name, ifAbsent, 1)
	switch {
	case !ok:
		return 0, http.StatusBadRequest
	case v.Has(name) && (n < s.Least || s.Most > 0 && n > s.Most):
		return 0, cmp.Or(s.Status, http.StatusBadRequest)
	}
	return min(n, most), http.StatusOK
}

// selected says whether an insertion matches all filters. A search for digits only is one for a
// postal code, anything else must occur word by word.
func selected(v url.Values, i Insertion) bool {
	if offer, rank := v.Get("offerType"), v.Get("rankType"); offer != "" && offer != i.OfferType ||
		rank != "" && rank != i.RankType {
		return false
	}
	l := i.Localization
	text := strings.ToLower(strings.Join([]string{
		i.Reference, i.Address.Street, i.Address.PostalCode, i.Address.Locality, l.DE.Text.Title,
		l.FR.Text.Title, l.IT.Text.Title, l.EN.Text.Title,
	}, "\n"))
	words := strings.Fields(strings.ToLower(v.Get("searchQuery")))
	if len(words) == 1 && len(words[0]) == 4 && strings.Trim(words[0], "0123456789") == "" {
		return words[0] == i.Address.PostalCode
	}
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// insertions reads one page: the newest publication first.
func (m *Model) insertions(x *exchange, r Rendering, f *Fault) (page, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := x.Query
	size, status := r.PageSizes.take(v, "pageSize", r.PageSize, r.MaxPageSize)
	number, ok := integer(v, "page", r.PageBase, r.PageBase)
	if status == http.StatusOK && !ok {
		status = http.StatusBadRequest
	}
	var list []*insertion
	filtered := v.Get("offerType")+v.Get("rankType")+v.Get("searchQuery") != ""
	for _, i := range slices.Backward(m.agencies[x.AgencyID].insertions) {
		if i.listed() && !f.leavesOut(i.Reference) &&
			(!filtered || selected(v, newest(i.Versions).Record)) {
			list = append(list, i)
		}
	}
	p := page{shape: r, number: number - r.PageBase, size: size, total: len(list)}
	switch {
	case status != http.StatusOK:
		return p, status
	case p.number > p.total: // before the product can overflow
		p.offset = p.total + 1
	default:
		p.offset = p.number * size
	}
	if p.offset > 0 && p.offset >= p.total {
		switch r.PastEnd {
		case 0:
			p.offset = p.total
		case LastPageAgain:
			p.offset = max(p.total-1, 0) / size * size
			p.number = p.offset / size
		default:
			return p, r.PastEnd
		}
	}
	for _, i := range list[p.offset:min(p.offset+size, len(list))] {
		p.records = append(p.records, r.insertionRecord(newest(i.Versions)))
		x.show(&i.Served, i.Reference)
	}
	return p, http.StatusOK
}

// window reads the contact requests of one insertion.
func (m *Model) window(x *exchange, r Rendering, f *Fault) (page, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := x.Query
	size, status := r.WindowSizes.take(v, "numberOfItemsPerPage", r.Window, r.MaxWindow)
	byScore, byOK := oneOf(v, "sortBy", "createdAt", "score")
	ascending, orderOK := oneOf(v, "sortOrder", "desc", "asc")
	switch {
	case status != http.StatusOK:
		return page{}, status
	case !byOK || !orderOK:
		return page{}, http.StatusBadRequest
	case x.target == nil:
		return page{}, http.StatusNotFound
	case !x.target.listed() && m.options.WithdrawnStatus != http.StatusOK:
		return page{}, m.options.WithdrawnStatus
	}
	at := m.options.Now().Add(-f.Age)
	var visible []*contactRequest
	for _, c := range x.target.contactRequests {
		if !at.Before(c.VisibleFrom) && !f.leavesOut(c.ID) {
			visible = append(visible, c)
		}
	}
	if byScore {
		slices.SortFunc(visible, compareScores)
	}
	if !ascending { // the exact reverse, also among equals
		slices.Reverse(visible)
	}
	p := page{shape: r, size: size, total: len(visible)}
	for _, one := range visible[:min(size, len(visible))] {
		p.records = append(p.records, r.contactRequestRecord(one.versionAt(at), x.target.Reference))
		x.show(&one.Served, one.ID)
	}
	return p, http.StatusOK
}

// send writes a response and settles the exchange. All but the last byte goes first; then the
// response is counted; then the last byte leaves. So a client with the whole response finds it
// counted, and one that hung up before is not served.
func (a *api) send(w http.ResponseWriter, r *http.Request, x *exchange, ans answer, fault *Fault) {
	if fault.Cut < 0 {
		a.model.settle(x, false)
		panic(http.ErrAbortHandler)
	}
	x.Status = ans.status
	a.head(w, ans, fault)
	body := ans.body
	end := max(len(body)-1, 0)
	if fault.Cut > 0 {
		_ = write(w, body[:min(int(fault.Cut*float64(len(body))), end)]) // broken either way
		a.model.settle(x, false)
		panic(http.ErrAbortHandler)
	}
	_, err := w.Write(body[:end])
	if err == nil && fault.Stall > 0 {
		err = write(w, nil)
	}
	if err != nil || !wait(r.Context(), fault.Stall) || r.Context().Err() != nil {
		a.model.settle(x, false)
		return
	}
	a.model.settle(x, true)
	if write(w, body[end:]) != nil {
		a.model.takeBack(x)
	}
}

// head writes status and header.
func (a *api) head(w http.ResponseWriter, ans answer, fault *Fault) {
	h := w.Header()
	if ans.status == http.StatusMethodNotAllowed {
		h.Set("Allow", http.MethodGet)
	}
	h.Set("Date", a.model.now().UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/json")
	if ans.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(ans.body)))
	}
	maps.Copy(h, ans.header)
	for name, values := range fault.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	w.WriteHeader(ans.status)
}

// write hands bytes to the connection, not only to a buffer before it.
func write(w http.ResponseWriter, b []byte) error {
	if _, err := w.Write(b); err != nil {
		return err
	}
	err := http.NewResponseController(w).Flush()
	if errors.Is(err, http.ErrNotSupported) { // a wrapped writer: trust it
		return nil
	}
	return err
}

// wait returns false if the client went away meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
