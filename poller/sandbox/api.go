package sandbox

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// api is the handler; answers counts what shuffles the next one.
type api struct {
	model     *Model
	rendering Rendering
	answers   atomic.Uint64
	given     validators
}

// New returns the API of the model, seen through one rendering; several may stand before one model. It answers
//
//	GET /insertion-funnel/integration/{agencyId}/insertions
//	GET /ubm-contact-request/property/{propertyReferenceId}
//
// and 404 for any other path, 405 for any other method, 403 for every failure of key or agency, 400 for a parameter that
// cannot be read or a path with bytes that should have been escaped, all with a JSON body. Names of offer and rank types
// that it does not know match nothing.
//
// It panics if the rendering was not made by a function of this package.
func New(m *Model, r Rendering) http.Handler {
	if r.insertions == nil {
		panic("sandbox: a Rendering starts from one of Renderings()")
	}
	return &api{model: m, rendering: r, given: validators{newest: map[string]*validated{}}}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, status := route(r)
	query, err := url.ParseQuery(r.URL.RawQuery)
	call.Query = query
	authorization := r.Header.Values("Authorization")
	c := a.model.identify(call, authorization)
	entry := c.entry(r)
	if status != http.StatusOK {
		a.send(w, r, c, refused(status), entry, &Fault{})
		return
	}
	fault := a.model.faultFor(c.call)
	if fault.Delay > 0 {
		if !wait(r.Context(), fault.Delay) {
			a.model.settleBroken(entry, c)
			return
		}
		// What is true is decided when the answer leaves, not when the request came.
		late := a.model.identify(call, authorization)
		c.key, c.refused, c.target = late.key, late.refused, late.target
	}
	var ans answer
	switch {
	case fault.replaces():
		ans = fault.answer()
	case c.refused:
		ans = refused(http.StatusForbidden)
	case err != nil:
		ans = refused(http.StatusBadRequest)
	default:
		ans = a.answer(c, r, fault)
	}
	a.send(w, r, c, ans, entry, fault)
}

// route reads what a request is for; the status is 200, or why it is for none of the two operations.
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

// parsePath reads a path as received. Each segment is decoded once, and only after the path was split, because a reference
// may hold a slash itself.
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

// caller is who sent a request, and what is known about it from path and key alone.
type caller struct {
	call    Call
	key     *key
	refused bool       // with 403
	target  *insertion // contact requests only; nil: no such reference
}

// identify finds out who sent a request and whether it may.
func (m *Model) identify(call Call, authorization []string) caller {
	m.mu.Lock()
	defer m.mu.Unlock()
	call.At = m.options.Now()
	c := caller{call: call}
	if len(authorization) == 1 {
		if value, ok := strings.CutPrefix(authorization[0], "ApiKey "); ok {
			c.key = m.keys[value]
		}
	}
	c.refused = c.key == nil || !c.key.active
	if c.key != nil {
		c.call.Key = c.key.label
	}
	if call.Operation == OperationInsertions {
		if m.agencies[call.AgencyID] == nil {
			c.call.AgencyID, c.refused = "", true
		}
		c.refused = c.refused || !c.key.agencies[call.AgencyID]
		return c
	}
	// The same reference may belong to several agencies; then the first by id is meant that the key may see.
	owners := m.references[call.Reference]
	if len(owners) == 0 {
		return c
	}
	c.target = owners[0]
	linked := slices.IndexFunc(owners, func(i *insertion) bool { return c.key != nil && c.key.agencies[i.AgencyID] })
	if linked >= 0 {
		c.target = owners[linked]
	}
	c.call.AgencyID = c.target.AgencyID
	c.refused = c.refused || linked < 0 || !c.target.listed() && m.options.WithdrawnStatus == http.StatusForbidden
	return c
}

func (c caller) entry(r *http.Request) *Request {
	return &Request{Call: c.call, RawPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery}
}

// answer is what is about to be sent.
type answer struct {
	status    int
	body      []byte
	plain     bool // never compressed
	header    http.Header
	receipt   receipt
	validated *validated // nil: the answer has no validators
}

// receipt remembers what an answer shows, to be counted as served once it left.
type receipt struct {
	served []*Served
	names  []string
}

func (r *receipt) add(s *Served, name string) {
	r.served = append(r.served, s)
	r.names = append(r.names, name)
}

// refused has the same body for every cause, as the status is the same too.
func refused(status int) answer {
	body := fmt.Sprintf(`{"status":%d,"error":%q}`, status, http.StatusText(status))
	return answer{status: status, body: []byte(body)}
}

// answer is the honest one to a caller who is not refused, as far as the fault lets it be.
func (a *api) answer(c caller, r *http.Request, fault *Fault) answer {
	shape := fault.rendering(a.rendering)
	read := a.model.window
	if c.call.Operation == OperationInsertions {
		read = a.model.insertions
	}
	p, shown, status := read(c, shape, fault)
	if status != http.StatusOK {
		return refused(status)
	}
	p.base, p.hideTotals = shape.PageBase, shape.NoTotals
	p.self = &url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	envelope := shape.insertions
	if p.window {
		envelope = shape.window
	}
	tree := p.fill(envelope)
	ans := answer{status: http.StatusOK, body: shape.write(tree, a.answers.Add(1)), header: http.Header{}, receipt: shown}
	if shape.TotalsInHeader {
		ans.header.Set("X-Total-Count", strconv.Itoa(p.total))
		if next, ok := p.next().(string); ok {
			ans.header.Set("Link", fmt.Sprintf(`<%s>; rel="next"`, next))
		}
	}
	if shape.Conditional {
		shape.Steady = true
		a.given.condition(&ans, c.key.label+" "+r.URL.RequestURI(), sha256.Sum256(shape.write(tree, 0)), r.Header, a.model.now())
	}
	if len(fault.Trailing) > 0 && ans.status == http.StatusOK {
		ans.body = slices.Concat(ans.body, fault.Trailing)
	}
	if !fault.readable(c.call.Operation) {
		ans.receipt, ans.validated = receipt{}, nil
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
	case !v.Has(name):
	case s.Any != 0:
		return 0, s.Any
	case n < s.Least:
		return 0, http.StatusRequestedRangeNotSatisfiable
	case s.Most > 0 && n > s.Most && s.TooLarge != 0:
		return 0, s.TooLarge
	case s.Most > 0 && n > s.Most:
		return 0, http.StatusBadRequest
	}
	return min(n, most), http.StatusOK
}

// selected says whether an insertion matches all filters. A search for digits only is one for a postal code, anything else
// must occur word by word.
func selected(v url.Values, i *Insertion) bool {
	if offer, rank := v.Get("offerType"), v.Get("rankType"); offer != "" && offer != i.OfferType || rank != "" && rank != i.RankType {
		return false
	}
	l := i.Localization
	text := strings.ToLower(strings.Join([]string{
		i.Reference, i.Address.Street, i.Address.PostalCode, i.Address.Locality, l.DE.Text.Title, l.FR.Text.Title, l.IT.Text.Title, l.EN.Text.Title,
	}, "\n"))
	words := strings.Fields(strings.ToLower(v.Get("searchQuery")))
	if len(words) == 1 && len(words[0]) == 4 && strings.Trim(words[0], "0123456789") == "" {
		return words[0] == i.Address.PostalCode
	}
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// insertions reads one page: the newest publication first.
func (m *Model) insertions(c caller, r Rendering, f *Fault) (page, receipt, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := c.call.Query
	size, status := r.PageSizes.take(v, "pageSize", r.PageSize, r.MaxPageSize)
	number, ok := integer(v, "page", r.PageBase, r.PageBase)
	if status == http.StatusOK && !ok {
		status = http.StatusBadRequest
	}
	var list []*insertion
	filtered := v.Get("offerType")+v.Get("rankType")+v.Get("searchQuery") != ""
	for _, i := range slices.Backward(m.agencies[c.call.AgencyID].listed) {
		if !f.leavesOut(i.Reference) && (!filtered || selected(v, &newest(i.Versions).Record)) {
			list = append(list, i)
		}
	}
	p := page{number: number - r.PageBase, size: size, total: len(list)}
	switch {
	case status != http.StatusOK:
		return p, receipt{}, status
	case r.PageIgnored:
		p.number = 0
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
			return p, receipt{}, r.PastEnd
		}
	}
	var shown receipt
	for _, i := range list[p.offset:min(p.offset+size, len(list))] {
		version := newest(i.Versions)
		p.records = append(p.records, r.insertionRecord(version, f.note(len(p.records))))
		shown.add(&version.Served, i.Reference)
	}
	return p, shown, http.StatusOK
}

// window reads the contact requests of one insertion.
func (m *Model) window(c caller, r Rendering, f *Fault) (page, receipt, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := c.call.Query
	size, status := r.WindowSizes.take(v, "numberOfItemsPerPage", r.Window, r.MaxWindow)
	byScore, byOK := oneOf(v, "sortBy", "createdAt", "score")
	ascending, orderOK := oneOf(v, "sortOrder", "desc", "asc")
	switch {
	case status != http.StatusOK:
		return page{}, receipt{}, status
	case !byOK || !orderOK:
		return page{}, receipt{}, http.StatusBadRequest
	case c.target == nil:
		return page{}, receipt{}, http.StatusNotFound
	case !c.target.listed() && m.options.WithdrawnStatus != http.StatusOK:
		return page{}, receipt{}, m.options.WithdrawnStatus
	}
	at := m.options.Now().Add(-f.Age)
	var visible []*contactRequest
	for _, c := range c.target.contactRequests {
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
	p := page{size: size, total: len(visible), window: true}
	var shown receipt
	for _, one := range visible[:min(size, len(visible))] {
		version := one.versionAt(at)
		p.records = append(p.records, r.contactRequestRecord(version, c.target.Reference, f.note(len(p.records))))
		shown.add(&version.Served, one.ID)
	}
	return p, shown, http.StatusOK
}

// validators remember, for each key and address, the newest answer: a 304 stands for that one alone.
type validators struct {
	mu     sync.Mutex
	newest map[string]*validated
}

type validated struct {
	hash  [32]byte
	since time.Time // when it became what it is
	left  bool      // one left to its last byte
}

// condition gives an answer its validators, or puts a 304 in its place if the client has it. If-None-Match wins.
func (v *validators) condition(ans *answer, question string, hash [32]byte, request http.Header, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.newest[question]
	if n == nil || n.hash != hash {
		n = &validated{hash: hash, since: now}
		v.newest[question] = n
	}
	ans.validated = n
	tag, date := fmt.Sprintf(`W/"%x"`, hash[:12]), n.since.UTC().Format(http.TimeFormat)
	tags := request.Get("If-None-Match")
	has := slices.Contains(strings.Split(strings.ReplaceAll(tags, " ", ""), ","), tag)
	if tags == "" {
		has = request.Get("If-Modified-Since") == date
	}
	ans.header.Set("ETag", tag)
	ans.header.Set("Last-Modified", date)
	if has && n.left {
		ans.status, ans.body = http.StatusNotModified, nil
	}
}

// keep notes whether an answer left to its last byte.
func (v *validators) keep(n *validated, left bool) {
	if n != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		n.left = left
	}
}

// compressible is the least body that is worth compressing.
const compressible = 1 << 10

var compressors = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

func compress(body []byte) []byte {
	var out bytes.Buffer
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(&out)
	_, _ = z.Write(body) // into memory
	_ = z.Close()
	return out.Bytes()
}

// send writes an answer and settles the entry. All but the last byte goes first; then the answer is counted; then the last
// byte leaves. So whoever has the whole answer finds it counted, and whoever hung up before is not served.
func (a *api) send(w http.ResponseWriter, r *http.Request, c caller, ans answer, entry *Request, fault *Fault) {
	if fault.CutAfter < 0 {
		a.model.settleBroken(entry, c)
		abort(w, fault.Reset)
	}
	entry.Status = ans.status
	body := a.head(w, r, ans, fault)
	if n, cut := fault.cut(len(body)); cut {
		_ = write(w, body[:n]) // broken either way
		a.model.settleBroken(entry, c)
		abort(w, fault.Reset)
	}
	end := max(len(body)-1, 0)
	if err := drip(w, r, body[:end], fault); err != nil || r.Context().Err() != nil {
		a.model.settleBroken(entry, c)
		return
	}
	a.model.settle(entry, c, ans.receipt)
	a.given.keep(ans.validated, true)
	if err := write(w, body[end:]); err != nil {
		a.given.keep(ans.validated, false)
		a.model.takeBack(entry, ans.receipt)
	}
}

// drip sends all but the end of a body, in one go or in the pieces of a fault.
func drip(w http.ResponseWriter, r *http.Request, body []byte, fault *Fault) error {
	const pieces = 20
	if fault.Drip <= 0 {
		return writeSome(w, body)
	}
	for n := range pieces {
		if err := write(w, body[len(body)*n/pieces:len(body)*(n+1)/pieces]); err != nil {
			return err
		}
		if !wait(r.Context(), fault.Drip/pieces) {
			return r.Context().Err()
		}
	}
	return nil
}

// abort ends the connection in the middle of things; it does not return.
func abort(w http.ResponseWriter, reset bool) {
	if !reset {
		panic(http.ErrAbortHandler)
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // unsent bytes are dropped, and the other side sees a reset
		}
		conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// head writes status and header and returns the body as it goes over the wire.
func (a *api) head(w http.ResponseWriter, r *http.Request, ans answer, fault *Fault) []byte {
	h := w.Header()
	if ans.status == http.StatusMethodNotAllowed {
		h.Set("Allow", http.MethodGet)
	}
	h.Set("Date", a.model.now().UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/json")
	h.Set("Vary", "Accept-Encoding")
	body := ans.body
	if fault.Header.Get("Content-Encoding") != "" {
		ans.plain = true // the fault's word, not ours
	}
	if !ans.plain && len(body) >= compressible && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = compress(body)
		h.Set("Content-Encoding", "gzip")
	}
	if ans.status != http.StatusNoContent && ans.status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	maps.Copy(h, ans.header)
	for name, values := range fault.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	w.WriteHeader(ans.status)
	return body
}

// writeSome does not write nothing, which a 304 must not even try.
func writeSome(w http.ResponseWriter, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}

// write hands bytes to the connection, not only to a buffer before it.
func write(w http.ResponseWriter, b []byte) error {
	if err := writeSome(w, b); err != nil {
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
