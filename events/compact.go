package events

import "bytes"

// compaction copies one JSON value without the white space between its tokens, and sees on the way whether it is JSON: what
// json.Compact does, a function call for each byte, and nearly all that writing an event would cost. A test holds both
// together.
type compaction struct {
	dst, src []byte
	from, at int // what is not copied yet begins at from; at is where it reads
}

// maxDepth is how deep encoding/json lets values stand in each other.
const maxDepth = 10_000

// appendCompact appends a value without white space; bytes that are no UTF-8 become U+FFFD. If it is no JSON, dst stays as
// it was.
func appendCompact(dst, src []byte) (compact []byte, ok bool) {
	c := compaction{dst: dst, src: valid(src)}
	if !c.value(0) || c.at < len(c.src) {
		return dst, false
	}
	return append(c.dst, c.src[c.from:]...), true
}

// value reads a value and the white space around it.
func (c *compaction) value(depth int) (ok bool) {
	c.space()
	switch c.next() {
	case '{':
		ok = depth < maxDepth && c.list('}', depth+1)
	case '[':
		ok = depth < maxDepth && c.list(']', depth+1)
	case '"':
		ok = c.text()
	case 't':
		ok = c.word("true")
	case 'f':
		ok = c.word("false")
	case 'n':
		ok = c.word("null")
	default:
		ok = c.number()
	}
	c.space()
	return ok
}

// list reads an object or an array, from its first bracket to its last.
func (c *compaction) list(last byte, depth int) bool {
	c.at++
	c.space()
	if c.accept(last) {
		return true
	}
	for {
		if last == '}' && !c.name() || !c.value(depth) {
			return false
		}
		if !c.accept(',') {
			return c.accept(last)
		}
	}
}

// name reads the name of a member and its colon.
func (c *compaction) name() bool {
	c.space()
	if c.next() != '"' || !c.text() {
		return false
	}
	c.space()
	return c.accept(':')
}

func (c *compaction) text() bool {
	for c.at++; c.at < len(c.src); c.at++ {
		switch b := c.src[c.at]; {
		case b == '"':
			c.at++
			return true
		case b == '\\':
			if !c.escape() {
				return false
			}
		case b < ' ':
			return false
		}
	}
	return false
}

// escape reads an escape but for its last character.
func (c *compaction) escape() bool {
	c.at++
	switch c.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		digits := c.src[c.at+1:]
		c.at += 4
		return len(digits) >= 4 && len(bytes.Trim(digits[:4], "0123456789abcdefABCDEF")) == 0
	}
	return false
}

func (c *compaction) number() bool {
	c.accept('-')
	if !c.accept('0') && !c.digits() {
		return false
	}
	if c.accept('.') && !c.digits() {
		return false
	}
	if !c.accept('e') && !c.accept('E') {
		return true
	}
	_ = c.accept('+') || c.accept('-')
	return c.digits()
}

// digits reads at least one.
func (c *compaction) digits() bool {
	first := c.at
	for '0' <= c.next() && c.next() <= '9' {
		c.at++
	}
	return c.at > first
}

func (c *compaction) word(w string) bool {
	ok := bytes.HasPrefix(c.src[c.at:], []byte(w))
	c.at += len(w)
	return ok
}

// space steps over white space and copies what stands before it.
func (c *compaction) space() {
	first := c.at
	for b := c.next(); b == ' ' || b == '\t' || b == '\r' || b == '\n'; b = c.next() {
		c.at++
	}
	if c.at > first {
		c.dst = append(c.dst, c.src[c.from:first]...)
		c.from = c.at
	}
}

// next is the byte to be read, and 0, which no JSON holds, behind the last.
func (c *compaction) next() byte {
	if c.at < len(c.src) {
		return c.src[c.at]
	}
	return 0
}

// accept steps over a byte if it is the next.
func (c *compaction) accept(b byte) bool {
	ok := c.next() == b
	if ok {
		c.at++
	}
	return ok
}
