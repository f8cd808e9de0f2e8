package sandbox

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// promise is what a validator stands for: an answer that one key was served.
type promise struct {
	question       string // key and address
	hash           [32]byte
	etag, modified string
	served         receipt
}

// memory holds the promises that were given, and since when each address has the
// answer it has. The zero value is empty.
type memory struct {
	mu    sync.Mutex
	given map[string]*promise // by question and validator
	since map[string]state    // by address
}

type state struct {
	hash [32]byte
	at   time.Time
}

// mostPromises bounds the memory. Beyond it everything is forgotten, which costs
// answers with a body and is never wrong.
const mostPromises = 20_000

// makeConditional gives an answer its validators, or puts a 304 in its place. The
// lock of the model is not held.
func (a *api) makeConditional(ans *answer, shape Rendering, c caller, tree any, r *http.Request) {
	k := shape.Conditional
	if !k.ETag && !k.LastModified {
		return
	}
	plain := shape
	plain.Steady = true
	p := &promise{question: c.key.label + " " + r.URL.RequestURI(), hash: sha256.Sum256(plain.write(tree, 0)), served: ans.receipt}
	since := a.memory.unchangedSince(r.URL.RequestURI(), p.hash, a.model.now(), k.Lying)
	h := http.Header{}
	if k.ETag {
		p.etag = fmt.Sprintf(`W/"%x"`, p.hash[:12])
		if k.Lying {
			p.etag = `W/"1"`
		}
		h.Set("ETag", p.etag)
	}
	if k.LastModified {
		p.modified = since.UTC().Format(http.TimeFormat)
		h.Set("Last-Modified", p.modified)
	}
	for name, values := range ans.header {
		h[name] = values
	}
	ans.header, ans.promise = h, p
	if old := a.memory.kept(p, r.Header, k); old != nil {
		ans.status, ans.body, ans.receipt, ans.promise = http.StatusNotModified, nil, old.served, nil
	}
}

// kept finds the answer that a request is conditional on, if nothing has changed
// since or the rendering lies. If-None-Match wins.
func (m *memory) kept(now *promise, h http.Header, k Conditional) *promise {
	m.mu.Lock()
	defer m.mu.Unlock()
	var old *promise
	if tags := h.Values("If-None-Match"); len(tags) > 0 {
		for _, tag := range strings.Split(strings.Join(tags, ","), ",") {
			if tag = strings.TrimSpace(tag); k.ETag && tag != "" && tag == now.etag {
				old = m.given[now.question+" "+tag]
			}
		}
	} else if date := h.Get("If-Modified-Since"); date != "" && k.LastModified {
		old = m.given[now.question+" "+date]
	}
	if old == nil || old.hash != now.hash && !k.Lying {
		return nil
	}
	return old
}

// unchangedSince says when the answer of an address became what it is.
func (m *memory) unchangedSince(address string, hash [32]byte, now time.Time, lying bool) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since == nil || len(m.since) > mostPromises {
		m.since = map[string]state{}
	}
	s, known := m.since[address]
	if !known || s.hash != hash && !lying {
		s = state{hash, now}
		m.since[address] = s
	}
	return s.at
}

// keep remembers an answer that left.
func (m *memory) keep(p *promise) {
	if p == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given == nil || len(m.given) > mostPromises {
		m.given = map[string]*promise{}
	}
	for _, validator := range []string{p.etag, p.modified} {
		if validator != "" {
			m.given[p.question+" "+validator] = p
		}
	}
}

// forget takes back an answer whose last byte did not leave.
func (m *memory) forget(p *promise) {
	if p == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, validator := range []string{p.etag, p.modified} {
		if m.given[p.question+" "+validator] == p {
			delete(m.given, p.question+" "+validator)
		}
	}
}
