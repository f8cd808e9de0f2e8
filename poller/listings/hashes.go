package listings

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// Hashes tell whether an answer is one that was read before, without decoding it. They are 128 bits under keys that each
// process draws anew and nobody else sees: who writes what we read cannot aim at a collision, nor learn of one. The zero
// value is the answer of nothing.
type Hashes struct {
	Body Sum // of the bytes of the body
	// Content is the same also where only the order of members differs, or what nobody reads: numbers and texts beside the
	// records, ignored fields, and the score. It is zero where that is not sure, as in an answer that is odd in any way.
	Content Sum
}

// Sum is 128 bits of hash.
type Sum [2]uint64

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func sumOf(b []byte) Sum {
	return Sum{maphash.Bytes(hashSeeds[0], b), maphash.Bytes(hashSeeds[1], b)}
}

// foldKeys are drawn anew by each process, as the seeds are.
var foldKeys = [4]uint64{rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64()}

// with is the sum of what both stand for, in this order: each half is folded under keys of its own.
func (s Sum) with(t Sum, tag uint64) Sum {
	return Sum{fold(s[0]+tag*tagSpread^foldKeys[0], t[0]^foldKeys[1]), fold(s[1]+tag*tagSpread^foldKeys[2], t[1]^foldKeys[3])}
}

// tagSpread is odd, so that different tags stay different.
const tagSpread = 0x9E37_79B9_7F4A_7C15

// fold is the product of both, its upper half laid over its lower one.
func fold(a, b uint64) uint64 {
	upper, lower := bits.Mul64(a, b)
	return upper ^ lower
}

// plus is the sum of what both stand for, in whatever order.
func (s Sum) plus(t Sum) Sum { return Sum{s[0] + t[0], s[1] + t[1]} }

// Is says whether an answer with these hashes is the one with those.
func (h Hashes) Is(other Hashes) bool {
	return h.Body == other.Body && h.Body != Sum{} || h.Content == other.Content && h.Content != Sum{}
}

// Renewed are the hashes by which an answer is known that was just recognised as the same.
func (h Hashes) Renewed(same Hashes) Hashes {
	if same.Body != (Sum{}) {
		h.Body = same.Body
	}
	if same.Content != (Sum{}) {
		h.Content = same.Content
	}
	return h
}
