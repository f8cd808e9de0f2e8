package events

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strconv"
	"strings"
)

// Ids never come from a random source or from the clock of a retry: the same thing must have the same id whoever finds
// it, so that a stream can hold it once. Not the content alone, which would hide A→B→A; not the revision alone, which a
// restored backup would use twice.

// unstamped marks an id that waits for its place in the log; what follows it is the scope.
const unstamped = "?"

// draftID is the id of a new event, final for insertions and contact requests.
func draftID(agencyID string, f facts) string {
	if f.identity == nil {
		return unstamped + f.scope
	}
	return hashID(append([]string{string(f.kind), agencyID, f.reference}, f.identity...)...)
}

// stampedID is the final id of an event whose position in the log is known. Two access or watch events may be equal in all
// but their position, which therefore is the count that tells them apart.
func stampedID(e Event) string {
	scope, waiting := strings.CutPrefix(e.ID, unstamped)
	if !waiting {
		return e.ID
	}
	return hashID(string(e.Type), e.AgencyID, scope, strconv.FormatUint(e.Position, 10), formatTime(e.Time))
}

// hashID is 128 bits of SHA-256 over length-prefixed parts, as 26 lower-case base32 characters. The prefixes keep
// ("ab","c") and ("a","bc") apart.
func hashID(parts ...string) string {
	b := make([]byte, 0, 256)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return lowerBase32.EncodeToString(sum[:16])
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
