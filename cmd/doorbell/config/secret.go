package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is all that is ever printed of a secret.
const Redacted = "[redacted]"

// Secret is a configured text that never prints itself: not with any verb of fmt, not in a log, not
// as JSON. It holds a pointer because fmt reaches into unexported fields of other structs without
// asking their methods.
type Secret struct{ text *string }

func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Decode takes the text as it is. It has no error that could quote it.
func (s *Secret) Decode(text string) error {
	*s = NewSecret(text)
	return nil
}

// Reveal returns the text, for the one place that has to send it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether nothing is configured.
func (s Secret) IsZero() bool { return s.text == nil }

// Fingerprint tells two secrets apart without showing either: "sha256:" and the first four bytes of
// the hash.
func (s Secret) Fingerprint() string {
	if s.IsZero() {
		return ""
	}
	sum := sha256.Sum256([]byte(*s.text))
	return "sha256:" + hex.EncodeToString(sum[:4])
}

func (s Secret) Masked() string               { return s.Fingerprint() }
func (s Secret) String() string               { return Redacted }
func (s Secret) GoString() string             { return Redacted }
func (s Secret) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, Redacted) }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(Redacted) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }
