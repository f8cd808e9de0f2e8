package listings

import (
	"strings"
)

// KnownPage is a page of insertions whose records the caller of a walk holds as they are.
type KnownPage struct {
	Path       string // where its records stood
	Total      int
	Bytes      int // of its records
	References []string
}

// declaresFailure says whether an answer is a failure by its content type, whatever its status is.
func (x *exchange) declaresFailure() bool {
	return strings.HasPrefix(strings.ToLower(x.header.Get("Content-Type")), "application/problem+json")
}

// recognise makes the hashes of an answer, and says whether it is one that the caller knows: then it need not be decoded. It
// also returns the marks of what is watched, where it has looked.
// A total in a header stands beside the body and is as good as a part of it.
func (c *Client) recognise(x *exchange) (h Hashes, same bool, marks []uint32) {
	if x.declaresFailure() {
		return h, false, nil
	}
	known := x.expect.known
	if known == nil {
		known = x.expect.Hashes.Is
	}
	total := Sum{uint64(headerTotal(x.header))}
	h.Body = sumOf(x.body).with(total, 'b')
	if known(h) {
		return h, true, nil
	}
	if s := c.sketchOf(x); s != nil {
		x.scan = s.read(x.body)
		if x.scan.content != (Sum{}) {
			h.Content = x.scan.content.with(total, 'c')
		}
		marks = x.scan.marks
	}
	if same = known(Hashes{Content: h.Content}); !same {
		x.scan.judgeTexts(x.body)
	}
	return h, same, marks
}

// sketchOf is what to sketch an answer by; nil where its records are not expected anywhere yet.
func (c *Client) sketchOf(x *exchange) *sketch {
	path, ok := c.expectedPath(x)
	if !ok {
		return nil
	}
	return c.sketchFor(x, path)
}

// sketchFor is what to sketch an answer by whose records are at path.
func (c *Client) sketchFor(x *exchange, path string) *sketch {
	last := &c.sketches[0]
	ignore, score := c.o.IgnoreInsertions, false
	if x.request.Operation == OperationContactRequests {
		last = &c.sketches[1]
		ignore, score = c.o.IgnoreContactRequests, true
	}
	if s := last.Load(); s != nil && s.pointer == path {
		return s
	}
	s := newSketch(path, ignore, c.o.IDFields, score)
	last.Store(s)
	return s
}

func (c *Client) expectedPath(x *exchange) (path string, known bool) {
	configured := c.o.InsertionsPath
	if x.request.Operation == OperationContactRequests {
		configured = c.o.ContactRequestsPath
	}
	if configured != "" {
		return configured, true
	}
	return x.expect.Shape.Path, x.expect.Shape.Known
}

// place notes where the records of an answer were found. Elsewhere than expected, what counts as unread may be read.
func (e *Envelope) place(l list, expected string) {
	e.Path, e.Found = string(l.path), l.raw != nil
	if !e.Found || e.Path != expected {
		e.Hashes.Content = Sum{}
	}
}
