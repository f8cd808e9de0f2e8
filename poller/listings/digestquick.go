package listings

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"
)

// ScorelessDigest is Digest of the record without the score, however it is spelled, its own and one level down. Where that is
// not to be had quickly, ok is false, and says nothing.
func (c ContactRequest) ScorelessDigest(ignore []string) (digest [32]byte, ok bool) {
	if c.read != nil && slices.Equal(c.read.ignored, ignore) {
		return c.read.digest, c.read.whole
	}
	return quickDigest(c.Record, tokens(ignore), true)
}

// quickDigest is Digest where the record is written as most are: compact, its names plain ASCII, its texts without an escape
// that is not canonical. Such a record is as compact leaves it. Whatever else it meets, it gives up, and says nothing. Where score is set, the score is left out as
// well, however it is spelled, of the record and one level down.
func quickDigest(record json.RawMessage, ignore [][]string, score bool) (digest [32]byte, ok bool) {
	if !utf8.Valid(record) {
		return digest, false
	}
	c := canonicals.Get().(*canonical)
	end, ok := c.value(record, 0, 0, ignore, score)
	return c.sum(), ok && end == len(record)
}

// usualDigest is quickDigest without the score, for a record of a body that is usual: o are its members, their names plain ASCII.
func usualDigest(record json.RawMessage, o object, ignore [][]string) (digest [32]byte, ok bool) {
	c := canonicals.Get().(*canonical)
	size, ok := c.members(o, ignore)
	return c.sum(), ok && size == len(record)
}

// members writes an object, and returns how long it is if there is no white space between its members.
func (c *canonical) members(o object, ignore [][]string) (size int, ok bool) {
	c.out = append(c.out, '{')
	for _, f := range o {
		size += len(`{"":`) + len(f.name) + len(f.value) // or a comma
		before := len(c.out)
		if before > len("{") {
			c.out = append(c.out, ',')
		}
		deeper, drop := [][]string(nil), isScore(f.name)
		if len(ignore) > 0 && !drop {
			deeper, drop = below(ignore, f.name)
		}
		c.out = append(append(append(c.out, '"'), f.name...), '"', ':')
		if f.value[0] != '{' && f.value[0] != '[' {
			c.out = append(c.out, f.value...)
		} else if end, ok := c.value(f.value, 0, 1, deeper, true); !ok || end != len(f.value) {
			return 0, false
		}
		if drop {
			c.out = c.out[:before]
		}
	}
	c.out = append(c.out, '}')
	return size + len("}"), true
}

var canonicals = sync.Pool{New: func() any { return &canonical{} }}

// canonical writes values in canonical form.
type canonical struct {
	out   []byte
	names []memberName // of the objects around and this one; like is where the value ends
}

// sum is the digest of what was written. Then the canonical is somebody else's.
func (c *canonical) sum() [32]byte {
	digest := sha256.Sum256(c.out)
	if c.out = c.out[:0]; cap(c.out) > largestBuffer {
		c.out = nil
	}
	c.names = c.names[:0]
	canonicals.Put(c)
	return digest
}

// value writes what begins at i, so deep, without what is ignored, and returns where it ends.
func (c *canonical) value(b []byte, i, depth int, ignore [][]string, score bool) (end int, ok bool) {
	if i == len(b) {
		return i, false
	}
	switch nested := b[i] == '{' || b[i] == '['; {
	case nested && depth == maxRecordDepth:
		return i, false
	case b[i] == '{':
		return c.object(b, i, depth, ignore, score)
	case b[i] == '[':
		return c.array(b, i, depth, ignore)
	case b[i] == '"':
		end, ok = canonicalText(b, i)
	default:
		end, ok = scalarEnd(b, i)
		ok = ok && isCanonicalWord(b[i:end])
	}
	if ok {
		c.out = append(c.out, b[i:end]...)
	}
	return end, ok
}

func (c *canonical) array(b []byte, i, depth int, ignore [][]string) (end int, ok bool) {
	c.out = append(c.out, '[')
	empty := len(c.out)
	if i++; i < len(b) && b[i] == ']' {
		c.out = append(c.out, ']')
		return i + 1, true
	}
	for n := 0; ; n++ {
		before := len(c.out)
		if before > empty {
			c.out = append(c.out, ',')
		}
		deeper, drop := [][]string(nil), false
		if len(ignore) > 0 {
			deeper, drop = below(ignore, strconv.Itoa(n))
		}
		if i, ok = c.value(b, i, depth+1, deeper, false); !ok || i == len(b) {
			return i, false
		}
		if drop {
			c.out = c.out[:before]
		}
		switch b[i] {
		case ',':
			i++
		case ']':
			c.out = append(c.out, ']')
			return i + 1, true
		default:
			return i, false
		}
	}
}

// object goes through the members once to find them, and writes them in the order of their names.
func (c *canonical) object(b []byte, i, depth int, ignore [][]string, score bool) (end int, ok bool) {
	first := len(c.names)
	if end, ok = c.find(b, i+1); !ok {
		return end, false
	}
	list := c.names[first:]
	slices.SortFunc(list, func(x, y memberName) int { return bytes.Compare(b[x.from:x.to], b[y.from:y.to]) })
	c.out = append(c.out, '{')
	empty := len(c.out)
	for n := range list {
		m := c.names[first+n] // those of objects in it follow, and may move all
		name := b[m.from:m.to]
		if n > 0 && bytes.Equal(name, b[c.names[first+n-1].from:c.names[first+n-1].to]) {
			return end, false // which of two counts is not for us to say
		}
		before := len(c.out)
		if before > empty {
			c.out = append(c.out, ',')
		}
		deeper, drop := [][]string(nil), score && depth < 2 && isScore(name)
		if len(ignore) > 0 && !drop {
			deeper, drop = below(ignore, string(name))
		}
		c.out = append(append(append(c.out, '"'), name...), '"', ':')
		if after, ok := c.value(b, m.to+2, depth+1, deeper, score); !ok || after != int(m.like) {
			return end, false
		}
		if drop {
			c.out = c.out[:before]
		}
	}
	c.names = c.names[:first]
	c.out = append(c.out, '}')
	return end, true
}

// isScore knows the score by any spelling by which it is passed on.
func isScore[T string | []byte](name T) bool {
	return len(name) >= len("score") && (lower(name[0]) == 's' || isSeparator(name[0])) && SameName(string(name), "score")
}

// find collects the members from i on.
func (c *canonical) find(b []byte, i int) (end int, ok bool) {
	if i < len(b) && b[i] == '}' {
		return i + 1, true
	}
	for i < len(b) && b[i] == '"' {
		to, ok := textEnd(b, i)
		if !ok || to == len(b) || b[to] != ':' || !isCanonicalName(b[i+1:to-1]) {
			return i, false
		}
		after, ok := valueEnd(b, to+1)
		if !ok || after == len(b) {
			return i, false
		}
		c.names = append(c.names, memberName{uint64(after), i + 1, to - 1})
		switch i = after + 1; b[after] {
		case ',':
		case '}':
			return i, true
		default:
			return i, false
		}
	}
	return i, false
}

// isCanonicalName knows names that are written and sorted in one way only.
func isCanonicalName(name []byte) bool {
	for _, c := range name {
		if c < ' ' || c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}

// canonicalText is where a text ends that begins at i; false where it could be written in another way.
func canonicalText(b []byte, i int) (end int, ok bool) {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c < ' ':
			return i, false
		case c == '\\':
			if i++; i == len(b) || !isUsualEscape(b[i]) {
				return i, false
			}
		}
	}
	return i, false
}

// isCanonicalWord knows words, and numbers without an exponent.
func isCanonicalWord(word []byte) bool {
	switch string(word) {
	case "null", "true", "false":
		return true
	}
	return isPlainNumber(word)
}
