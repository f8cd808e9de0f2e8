package torture

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"mime/quotedprintable"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// trace is a file that contains a text, and the form that it has there.
type trace struct {
	file, form string
	text       int // which of the texts
}

// traces returns where texts stand in the files below a directory: as they are, with escapes of JSON,
// quoted-printable and URLs, in UTF-16, in base64 at each of its alignments, and as all of these in
// what gzip or zlib compressed, also within each other and before damage. ASCII letters match in any
// case. A text that is encrypted, or encoded in two other ways, is not found.
func traces(t *testing.T, dir string, texts []string) (found []trace) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return unlessGone(err)
		}
		data, err := os.ReadFile(path)
		file, _ := filepath.Rel(dir, path)
		forms("", withoutZeros(data), func(form string, data []byte) {
			for n, text := range texts {
				if contains(data, text) {
					found = append(found, trace{filepath.ToSlash(file), form, n})
				}
			}
		})
		return unlessGone(err)
	})
	must(t, err)
	return found
}

// unlessGone accepts that a file of a running server vanishes.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// withoutZeros shortens the zeros between pages and blocks, half of a store, to more than any text
// or compressed data has in a row.
func withoutZeros(data []byte) (short []byte) {
	zeros := 0
	for _, c := range data {
		if zeros++; c != 0 {
			zeros = 0
		}
		if zeros <= 64 {
			short = append(short, c)
		}
	}
	return short
}

// contains looks for a text in UTF-8 and UTF-16.
func contains(data []byte, text string) bool {
	text = string(lower([]byte(text)))
	return bytes.Contains(data, []byte(text)) || bytes.Contains(data, []byte(strings.ReplaceAll(text, " ", "+"))) ||
		bytes.Contains(data, lower(inUTF16(text, false))) || bytes.Contains(data, lower(inUTF16(text, true)))
}

// forms yields data in all readings, in lower case.
func forms(name string, data []byte, yield func(form string, data []byte)) {
	yield(name+"plain", lower(data))
	yield(name+"escaped", lower(unescaped(data)))
	digits := slices.DeleteFunc(slices.Clone(data), func(c byte) bool { return c == '\r' || c == '\n' })
	for skip := range min(4, len(digits)) {
		yield(name+"base64", lower(fromBase64(digits[skip:])))
	}
	for at := range data {
		if strings.Count(name, "+") == 2 {
			break
		}
		var r io.Reader
		how, err := "", io.EOF
		switch from := bytes.NewReader(data[at:]); {
		case bytes.HasPrefix(data[at:], []byte{0x1f, 0x8b}):
			how = "gzip+"
			r, err = gzip.NewReader(from)
		case data[at] == 0x78:
			how = "zlib+"
			r, err = zlib.NewReader(from)
		}
		if err == nil {
			inner, _ := io.ReadAll(r) // up to where it is damaged
			forms(name+how, inner, yield)
		}
	}
}

// lower returns data with its ASCII letters in lower case.
func lower(data []byte) []byte {
	data = slices.Clone(data)
	for i, c := range data {
		if 'A' <= c && c <= 'Z' {
			data[i] |= 0x20
		}
	}
	return data
}

// unescaped decodes whatever looks like an escape.
func unescaped(data []byte) (decoded []byte) {
	hex := func(at, digits int) (int, bool) {
		if at+digits > len(data) {
			return 0, false
		}
		v, err := strconv.ParseUint(string(data[at:at+digits]), 16, 16)
		return int(v), err == nil
	}
	for i := 0; i < len(data); i++ {
		rest := data[i:]
		switch c := data[i]; {
		case bytes.HasPrefix(rest, []byte("=\r\n")):
			i += 2
			continue
		case bytes.HasPrefix(rest, []byte("=\n")):
			i++
			continue
		case bytes.HasPrefix(rest, []byte(`\u`)):
			if v, ok := hex(i+2, 4); ok {
				i += 5
				r := rune(v)
				if low, ok := hex(i+3, 4); utf16.IsSurrogate(r) && ok {
					r = utf16.DecodeRune(r, rune(low))
					i += 6
				}
				decoded = utf8.AppendRune(decoded, r)
				continue
			}
		case c == '\\' && len(rest) > 1:
			if n := strings.IndexByte(`"\/nrt`, rest[1]); n >= 0 {
				decoded = append(decoded, "\"\\/\n\r\t"[n])
				i++
				continue
			}
		case c == '=' || c == '%':
			if v, ok := hex(i+1, 2); ok {
				decoded = append(decoded, byte(v))
				i += 2
				continue
			}
		}
		decoded = append(decoded, data[i])
	}
	return decoded
}

// fromBase64 decodes data of either alphabet as if all of it were base64.
func fromBase64(data []byte) []byte {
	data = slices.Clone(data[:len(data)/4*4])
	for i, c := range data {
		switch {
		case c == '-':
			data[i] = '+'
		case c == '_':
			data[i] = '/'
		case strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", c) < 0:
			data[i] = 'A'
		}
	}
	decoded, _ := base64.StdEncoding.AppendDecode(nil, data)
	return decoded
}

func inUTF16(s string, big bool) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		if big {
			u = u<<8 | u>>8
		}
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

func TestATextIsFoundInEveryFormAndACharacterBesideItIsNot(t *testing.T) {
	inBase64 := func(e *base64.Encoding, before string, line int) func(string) string {
		return func(s string) string {
			var lines []string
			for part := range slices.Chunk([]byte(e.EncodeToString([]byte(before+s+"!!"))), line) {
				lines = append(lines, string(part))
			}
			return strings.Join(lines, "\r\n")
		}
	}
	through := func(newWriter func(io.Writer) io.WriteCloser) func(string) string {
		return func(s string) string {
			var b bytes.Buffer
			w := newWriter(&b)
			_, _ = io.WriteString(w, s)
			_ = w.Close()
			return b.String()
		}
	}
	gzipped := through(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	zlibbed := through(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	quoted := through(func(w io.Writer) io.WriteCloser { return quotedprintable.NewWriter(w) })
	filler := rawText(4000)
	for name, form := range map[string]struct {
		found string
		write func(s string) string
	}{
		"as it is":    {"plain", func(s string) string { return s }},
		"in capitals": {"plain", strings.NewReplacer("o", "O", "e", "E", "b", "B").Replace},
		"every character as \\u": {"escaped", func(s string) string {
			var b strings.Builder
			for _, u := range utf16.Encode([]rune(s)) {
				fmt.Fprintf(&b, `\u%04X`, u)
			}
			return b.String()
		}},
		"JSON in ASCII": {"escaped", func(s string) string {
			ascii := strings.Trim(strconv.QuoteToASCII(s), `"`)
			return strings.NewReplacer(`\U0001f600`, `\ud83d\ude00`, "/", `\/`).Replace(ascii)
		}},
		"percent":                 {"escaped", func(s string) string { return "%" + strings.ReplaceAll(fmt.Sprintf("% x", s), " ", "%") }},
		"a query":                 {"escaped", url.QueryEscape},
		"quoted-printable":        {"escaped", func(s string) string { return quoted(strings.Repeat("y", 70) + s) }},
		"UTF-16 LE":               {"plain", func(s string) string { return string(inUTF16(s, false)) }},
		"UTF-16 BE":               {"plain", func(s string) string { return string(inUTF16(s, true)) }},
		"base64":                  {"base64", inBase64(base64.StdEncoding, "", 1000)},
		"base64 behind one byte":  {"base64", inBase64(base64.StdEncoding, ">", 1000)},
		"base64 behind two bytes": {"base64", inBase64(base64.URLEncoding, ">?", 1000)},
		"base64 in lines":         {"base64", inBase64(base64.StdEncoding, strings.Repeat("~", 55), 76)},
		"gzip":                    {"gzip+plain", func(s string) string { return gzipped(filler[:200] + s) }},
		"zlib":                    {"zlib+plain", func(s string) string { return zlibbed(filler[:200] + string(inUTF16(s, true))) }},
		"gzip that is cut": {"gzip+plain", func(s string) string {
			b := gzipped(filler[:3000] + s + filler[3000:])
			return b[:len(b)-30]
		}},
		"gzip within gzip": {"gzip+gzip+plain", func(s string) string { return gzipped(filler[:300] + gzipped(filler[:100]+s)) }},
	} {
		for _, s := range []string{"Nora.Büro/24@example.org", "Żółć 😀 Sample-zq7"} {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "b"), []byte("--"+form.write(s)+"--"), 0o600))
			got := traces(t, dir, []string{"not there", s, s + "x", s[:len(s)-1] + "x", "x" + s})
			if !slices.Contains(got, trace{"b", form.found, 1}) || slices.ContainsFunc(got, func(f trace) bool { return f.text != 1 }) {
				t.Errorf("%s: got %v, want %s of text 1 alone", name, got, form.found)
			}
		}
	}
}

// rawText is text that is hard to compress.
func rawText(n int) string {
	r, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range b {
		b[i] = " .,0123456789"[r.IntN(13)]
	}
	return string(b)
}
