package listings

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unique"
)

// Key is an API key. However it is printed, logged or encoded, also inside another struct, it says
// no more than that it is one. Two keys are equal (==) if their texts are. The zero value is no
// key.
type Key struct {
	// A handle is a pointer, so that even fmt, which calls no method on an unexported field, does
	// not come across the text.
	text        unique.Handle[string]
	fingerprint unique.Handle[string]
}

const redacted = "[redacted]"

// NewKey makes a key of its text.
func NewKey(text string) Key {
	if text == "" {
		return Key{}
	}
	sum := sha256.Sum256([]byte(text))
	return Key{unique.Make(text), unique.Make("sha256:" + hex.EncodeToString(sum[:4]))}
}

// IsZero says whether there is no key.
func (k Key) IsZero() bool { return k == Key{} }

func (k Key) reveal() string {
	if k.IsZero() {
		return ""
	}
	return k.text.Value()
}

// Fingerprint tells keys apart without giving them away: "sha256:" and the first four bytes of the
// SHA-256, in hex.
func (k Key) Fingerprint() string {
	if k.IsZero() {
		return "sha256:e3b0c442"
	}
	return k.fingerprint.Value()
}

// Validate says whether the key can be sent in a header: not empty, printable ASCII, no space. The
// error does not quote it.
func (k Key) Validate() error {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	switch text := k.reveal(); {
	case text == "":
		return errors.New("the API key is empty")
	case strings.ContainsFunc(text, odd):
		return errors.New(
			"the API key contains a space, a line break or another character that no key has")
	}
	return nil
}

// Format writes "[redacted]", whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns "[redacted]".
func (k Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "[redacted]"; so does JSON.
func (k Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }
