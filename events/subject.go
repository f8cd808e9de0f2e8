package events

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

const (
	// maxToken keeps subjects far below the 4,096 bytes past which a server closes the connection
	// for good.
	maxToken = 64
	// emptyToken stands for the agency without a name: a subject has no empty tokens.
	emptyToken = "="
	// hashedToken begins the token of an agency whose name is too long. No other token contains it:
	// there, two hex digits follow every =.
	hashedToken = "=="
)

// Token writes an agency id as one token of a subject: [A-Za-z0-9_-] stay, every other byte becomes
// =XX. Different ids have different tokens. A token is 1 to 64 characters; an id that would take
// more is written as a hash.
func Token(agencyID string) string {
	if agencyID == "" {
		return emptyToken
	}
	token := escape(agencyID, '=', plain)
	if len(token) > maxToken {
		sum := sha256.Sum256([]byte(agencyID))
		return hashedToken + lowerBase32.EncodeToString(sum[:])
	}
	return token
}

func plain(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' ||
		c == '-'
}

// escape writes the mark and two hex digits for every byte that may not stay.
func escape(s string, mark byte, stays func(byte) bool) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if stays(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%c%02X", mark, c)
		}
	}
	return b.String()
}

// Subject is where an event is published: <prefix>.v1.<agency token>.<type>.
func Subject(prefix, agencyID string, t Type) string {
	return prefix + ".v1." + Token(agencyID) + "." + string(t)
}

// AgencyFilter covers all events of an agency: <prefix>.v1.<agency token>.>.
func AgencyFilter(prefix, agencyID string) string {
	return prefix + ".v1." + Token(agencyID) + ".>"
}

// StreamSubjects covers all events: <prefix>.v1.>. It is what the stream holds, exactly.
func StreamSubjects(prefix string) string { return prefix + ".v1.>" }

// ErrPrefix is returned by [ValidPrefix].
var ErrPrefix = errors.New("is not a NATS subject of at most 64 characters; " +
	"write letters, digits, - and _, parts separated by dots")

// prefixForm has no wildcards, and not the $ of system subjects.
var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// ValidPrefix checks a subject prefix, for example "listings" or "acme.listings": words of
// [A-Za-z0-9_-] joined by dots, at most 64 characters. The error does not quote it.
func ValidPrefix(prefix string) error {
	if len(prefix) > maxToken || !prefixForm.MatchString(prefix) {
		return ErrPrefix
	}
	return nil
}
