package sandbox

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// answer is what is about to be sent.
type answer struct {
	status  int
	body    []byte
	plain   bool // never compressed
	known   bool // see caller
	header  http.Header
	receipt receipt
	promise *promise // nil: the answer has no validators
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

// send writes an answer and settles the entry. All but the last byte goes first;
// then the answer is counted; then the last byte leaves. So whoever has the whole
// answer finds it counted, and whoever hung up before is not served.
func (a *api) send(w http.ResponseWriter, r *http.Request, ans answer, entry *Request, fault *Fault) {
	if fault != nil && fault.CutAfter < 0 {
		a.model.settleBroken(entry, ans.known)
		abort(w, fault.Reset)
	}
	entry.Status = ans.status
	body := a.head(w, r, ans, fault)
	if n, cut := fault.cut(len(body)); cut {
		_ = write(w, body[:n]) // broken either way
		a.model.settleBroken(entry, ans.known)
		abort(w, fault.Reset)
	}
	last := max(len(body)-1, 0)
	if err := a.most(w, r, body[:last], fault); err != nil || r.Context().Err() != nil {
		a.model.settleBroken(entry, ans.known)
		return
	}
	a.model.settle(entry, ans.known, ans.receipt)
	a.memory.keep(ans.promise)
	if err := write(w, body[last:]); err != nil {
		a.memory.forget(ans.promise)
		a.model.takeBack(entry, ans.receipt)
	}
}

// pieces is how many a body that drips comes in.
const pieces = 20

// most sends all but the end of a body, in one go or in drips.
func (a *api) most(w http.ResponseWriter, r *http.Request, body []byte, fault *Fault) error {
	if fault == nil || fault.Drip <= 0 {
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
			_ = tcp.SetLinger(0) // unsent bytes are dropped, and the other side told so
		}
		conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// head writes status and header and returns the body as it goes over the wire.
func (a *api) head(w http.ResponseWriter, r *http.Request, ans answer, fault *Fault) []byte {
	h := w.Header()
	h.Set("Date", a.model.now().UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/json")
	h.Set("Vary", "Accept-Encoding")
	body := ans.body
	if fault != nil && fault.Header.Get("Content-Encoding") != "" {
		ans.plain = true // the fault's word, not ours
	}
	if !ans.plain && len(body) >= compressible && acceptsGzip(r.Header) {
		body = compress(body)
		h.Set("Content-Encoding", "gzip")
	}
	if ans.status != http.StatusNoContent && ans.status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	maps.Copy(h, ans.header)
	if fault != nil {
		for name, values := range fault.Header {
			h[http.CanonicalHeaderKey(name)] = values
		}
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

func (m *Model) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.options.Now()
}

// settle counts a request, and what its answer shows as served.
func (m *Model) settle(entry *Request, known bool, r receipt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry.Served = r.names
	m.ledger.add(entry, known)
	now := m.options.Now()
	for _, s := range r.served {
		s.add(entry.Key, now)
	}
}

// settleBroken counts a request whose answer did not leave whole.
func (m *Model) settleBroken(entry *Request, known bool) {
	entry.Broken = true
	m.settle(entry, known, receipt{})
}

// takeBack says that the last byte did not leave after all.
func (m *Model) takeBack(entry *Request, r receipt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry.Broken, entry.Served = true, nil
	for _, s := range r.served {
		s.takeBack()
	}
}
