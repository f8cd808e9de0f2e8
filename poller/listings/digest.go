package listings

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

var errNoJSON = errors.New("digest: not one proper JSON value")

// Digest is the SHA-256 of a record in canonical form (RFC 8785) without what the RFC 6901 pointers in ignore lead to:
// the order of members and white space do not matter. Other than in the RFC, numbers keep their text: integers above 2^53
// that a float would make equal stay different, and 1.0 is not 1.
func Digest(record json.RawMessage, ignore []string) (digest [32]byte, err error) {
	ignored := tokens(ignore)
	if digest, ok := quickDigest(record, ignored, false); ok {
		return digest, nil
	}
	return slowDigest(record, ignored)
}

// slowDigest is Digest for whatever JSON.
func slowDigest(record json.RawMessage, ignore [][]string) (digest [32]byte, err error) {
	pruned, err := prune(jsontext.Value(record), ignore)
	if err != nil {
		return digest, errNoJSON
	}
	canonical, err := jsontext.AppendFormat(nil, pruned,
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.ReorderRawObjects(true))
	if err != nil {
		return digest, errNoJSON
	}
	return sha256.Sum256(canonical), nil
}

func tokens(pointers []string) [][]string {
	var split [][]string
	for _, p := range pointers {
		if t := slices.Collect(jsontext.Pointer(p).Tokens()); len(t) > 0 {
			split = append(split, t)
		}
	}
	return split
}

// prune leaves out the members and elements that the pointers lead to.
func prune(raw jsontext.Value, ignore [][]string) (jsontext.Value, error) {
	kind := raw.Kind()
	if len(ignore) == 0 || kind != jsontext.KindBeginObject && kind != jsontext.KindBeginArray {
		return raw, nil
	}
	if !raw.IsValid() {
		return nil, errNoJSON
	}
	var out []byte
	if kind == jsontext.KindBeginArray {
		out = pruneArray(raw, ignore)
	} else {
		out = pruneObject(raw, ignore)
	}
	return out, nil
}

func pruneObject(raw jsontext.Value, ignore [][]string) []byte {
	out := []byte{'{'}
	for name, value := range members(raw) {
		deeper, drop := below(ignore, name)
		if drop {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name)
		kept, _ := prune(value, deeper) // is valid, as a part of what is
		out = append(append(out, ':'), kept...)
	}
	return append(out, '}')
}

func pruneArray(raw jsontext.Value, ignore [][]string) []byte {
	out, n := []byte{'['}, 0
	for value := range elements(raw) {
		deeper, drop := below(ignore, strconv.Itoa(n))
		n++
		if drop {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		kept, _ := prune(value, deeper)
		out = append(out, kept...)
	}
	return append(out, ']')
}

// below are the pointers that lead through a member, without their first token; drop says that one ends there.
func below(ignore [][]string, name string) (deeper [][]string, drop bool) {
	for _, t := range ignore {
		if t[0] != name {
			continue
		}
		if len(t) == 1 {
			return nil, true
		}
		deeper = append(deeper, t[1:])
	}
	return deeper, false
}
