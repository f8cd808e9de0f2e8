package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
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

func (s Secret) String() string               { return Redacted }
func (s Secret) GoString() string             { return Redacted }
func (s Secret) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, Redacted) }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(Redacted) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// Size is a number of bytes, written 32MiB or 8GiB.
type Size int64

// sizeUnits are what may follow the number; without one it counts bytes.
var sizeUnits = map[string]int64{
	"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// Decode reads a whole number with a unit.
func (s *Size) Decode(text string) error {
	number := strings.TrimRight(text, "BKMGTikb")
	factor, known := sizeUnits[text[len(number):]]
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if !known || err != nil || n < 0 || n > math.MaxInt64/factor {
		return errors.New("is not a size; write it like 512KiB, 32MiB or 8GiB")
	}
	*s = Size(n * factor)
	return nil
}

// ParseDuration reads a duration as time.ParseDuration does, and whole days before it: 30d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, err
	}
	more, err := time.ParseDuration(rest + "0s")
	return time.Duration(n)*24*time.Hour + more, err
}

// AutoDuration is a duration, or 0 for auto.
type AutoDuration time.Duration

// Decode takes "auto" or a duration other than 0.
func (d *AutoDuration) Decode(text string) error {
	v, err := ParseDuration(text)
	if text != "auto" && (err != nil || v == 0) {
		return errors.New("is neither auto nor a duration; write it like 10m or 2h")
	}
	*d = AutoDuration(v)
	return nil
}

// List is texts that are separated by commas.
type List []string

// Decode refuses empty and repeated entries.
func (l *List) Decode(text string) error {
	*l = nil
	met := map[string]bool{}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" || met[entry] {
			return fmt.Errorf("entry %d is empty or repeated; remove it", len(*l)+1)
		}
		met[entry] = true
		*l = append(*l, entry)
	}
	return nil
}

// Of returns what follows "kind:" in the entries that begin with it.
func (l List) Of(kind string) (found []string) {
	for _, entry := range l {
		if rest, is := strings.CutPrefix(entry, kind+":"); is {
			found = append(found, rest)
		}
	}
	return found
}
