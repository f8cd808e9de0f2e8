package bytesearchtest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/quotedprintable"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// The texts are made up, and chosen for what each encoding does to them.
const (
	mail = "Nora.Büro/24@example.org"
	name = "Żółć 😀 Sample-zq7"
)

// encodings write a text in each way, and say where in what is written it begins.
var encodings = []struct {
	name, encoding string
	write          func(s string) (written []byte, begin int)
}{
	{"as it is", "utf-8", func(s string) ([]byte, int) { return []byte(s), 0 }},
	{"in capitals", "utf-8", func(s string) ([]byte, int) { return []byte(inCapitals(s)), 0 }},
	{"every character as \\u", "json", func(s string) ([]byte, int) {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(s)) {
			fmt.Fprintf(&b, `\u%04X`, u)
		}
		return []byte(b.String()), 0
	}},
	{"JSON in ASCII", "json", func(s string) ([]byte, int) {
		ascii := strings.Trim(strconv.QuoteToASCII(s), `"`)
		return []byte(strings.NewReplacer(`\U0001f600`, `\ud83d\ude00`, "/", `\/`).Replace(ascii)), 0
	}},
	{"every byte in percent", "percent", func(s string) ([]byte, int) {
		return []byte("%" + strings.ReplaceAll(fmt.Sprintf("% x", s), " ", "%")), 0
	}},
	{"as a query", "percent", func(s string) ([]byte, int) { return []byte(url.QueryEscape(s)), 0 }},
	{"quoted-printable", "quoted-printable", func(s string) ([]byte, int) {
		var b bytes.Buffer
		w := quotedprintable.NewWriter(&b)
		_, _ = io.WriteString(w, strings.Repeat("x", 70)+s)
		_ = w.Close()
		return b.Bytes()[70:], 0
	}},
	{"UTF-16 LE", "utf-16le", func(s string) ([]byte, int) { return wide(s, false), 0 }},
	{"UTF-16 BE", "utf-16be", func(s string) ([]byte, int) { return wide(s, true), 0 }},
	{"base64", "base64", func(s string) ([]byte, int) { return inBase64(base64.StdEncoding, "", s, 1000) }},
	{"base64 behind one byte", "base64", func(s string) ([]byte, int) { return inBase64(base64.StdEncoding, ">", s, 1000) }},
	{"base64 behind two bytes", "base64", func(s string) ([]byte, int) { return inBase64(base64.URLEncoding, ">?", s, 1000) }},
	{"base64 in lines", "base64", func(s string) ([]byte, int) { return inBase64(base64.StdEncoding, strings.Repeat("~", 55), s, 76) }},
	{"base64 in lines, cut after its first bits", "base64", func(s string) ([]byte, int) { return inBase64(base64.StdEncoding, strings.Repeat("?", 56), s, 75) }},
	{"gzip", "gzip+utf-8", func(s string) ([]byte, int) { return inGzip([]byte(filler(200) + s)), 0 }},
	{"zlib", "zlib+utf-16be", func(s string) ([]byte, int) {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		_, _ = w.Write(append([]byte(filler(200)), wide(s, true)...))
		_ = w.Close()
		return b.Bytes(), 0
	}},
	{"gzip that is cut", "gzip+utf-8", func(s string) ([]byte, int) {
		b := inGzip([]byte(filler(3000) + s + filler(4000)[3000:]))
		return b[:len(b)-30], 0
	}},
	{"gzip within gzip", "gzip+gzip+utf-8", func(s string) ([]byte, int) {
		return inGzip(append([]byte(filler(300)), inGzip([]byte(filler(100)+s))...)), 0
	}},
}

func TestATextIsFoundInEveryEncodingAndACharacterBesideItIsNot(t *testing.T) {
	for _, e := range encodings {
		for i, s := range []string{mail, name} {
			t.Run(fmt.Sprint(e.name, i), func(t *testing.T) {
				written, begin := e.write(s)
				dir := t.TempDir()
				write(t, filepath.Join(dir, "a", "b"), "--", string(written), "--")
				want := Hit{File: "a/b", Offset: 2 + int64(begin), Encoding: e.encoding, Text: 1}
				if got := hits(t, dir, "not there", s); len(got) != 1 || got[0] != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				last := []rune(s)
				last[len(last)-1] = '8'
				last[0]++
				if got := hits(t, dir, string(last), s+"x", s[:len(s)-1]+"x", "x"+s); len(got) > 0 {
					t.Errorf("%+v was found, which is not there", got)
				}
			})
		}
	}
}

func TestATextIsFoundAcrossTheEndOfAWindow(t *testing.T) {
	const window = 1000
	ix, err := compile([]string{mail})
	if err != nil {
		t.Fatal(err)
	}
	ix.longest = 16 * len(mail) // shorter than the compressed ones
	s := &search{ctx: t.Context(), index: ix, window: window}
	data := bytes.Repeat([]byte("."), 3*window+ix.longest)
	for _, e := range encodings {
		written, begin := e.write(mail)
		for _, end := range []int{window, 2*window - before, window + ix.longest} { // of the first, of the second, of what is read at once
			for at := max(0, end-len(written)-8); at < end+8; at += 1 + end/(window+1)*6 { // every place at the first
				s.hits = nil
				file := append(append(append([]byte{}, data[:at]...), written...), data[at:]...)
				err := s.stream(layer{at: -1, open: func(from int64) (io.Reader, error) { return bytes.NewReader(file[from:]), nil }}, bytes.NewReader(file))
				if err != nil || len(s.hits) != 1 || s.hits[0].Offset != int64(at+begin) {
					t.Fatalf("%s: at %d, found %+v, %v", e.name, at+begin, s.hits, err)
				}
			}
		}
	}
}

func TestATextFarWithinCompressedDataIsFoundAndBeforeDamage(t *testing.T) {
	const windowSize = 1 << 20
	long := strings.Repeat(filler(1000), 2*windowSize/1000)
	deep := inGzip([]byte(long[:windowSize] + mail))
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), filler(windowSize-3), string(inGzip([]byte(long+string(deep)+long+mail))))
	damaged := inGzip([]byte(mail + long))
	damaged[len(damaged)*3/4] ^= 0xff
	write(t, filepath.Join(dir, "g"), string(inGzip([]byte(long))), string(damaged))
	got := hits(t, dir, mail)
	if len(got) != 3 || got[0].Encoding != "gzip+gzip+utf-8" || got[1].Encoding != "gzip+utf-8" || got[0].Offset != windowSize-3 {
		t.Errorf("got %+v", got)
	}

	defer func(n int64) { largest = n }(largest)
	largest = windowSize
	if _, err := Search(t.Context(), dir, []string{mail}); err == nil {
		t.Error("what was not searched is not told")
	}
}

func TestTextsThatHoldTheCharactersOfEscapesAreFound(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), `a=b%40\d|`, `a=3Db%40\d|`, `a=b%2540\d|`, `a=b%40\\d|`, `a=b%2540%5Cd|`, `A%3D%62%25%34%30%5c%44`)
	if got := hits(t, dir, `a=b%40\d`); len(got) != 6 {
		t.Errorf("%d of 6 found: %+v", len(got), got)
	}
	if got := hits(t, dir, `\\\\\\\\`, `====`, `%%%%`); len(got) > 0 {
		t.Errorf("%+v was found, which is not there", got)
	}
}

func TestWhateverIsEmbeddedWhereverIsFoundAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-zA-Z0-9äßŻ☺😀@.+_\\%=/" -]{4,30}`).Draw(t, "text")
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 0))
		written, begin := mixed(r, s)
		noise := make([]byte, 2000)
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		at := r.IntN(len(noise))
		if err := os.WriteFile(filepath.Join(dir, "f"), bytes.Join([][]byte{noise[:at], written, noise[at:]}, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		other := "Q" + s + "q"
		got, err := Search(context.Background(), dir, []string{other, s})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, h := range got {
			found = found || h.Text == 1 && h.Offset == int64(at+begin)
			if h.Text == 0 {
				t.Errorf("%+v is not there", h)
			}
		}
		if !found {
			t.Errorf("at %d, got %+v", at+begin, got)
		}
	})
}

// mixed writes a text in an encoding by chance, each character in a way by chance.
func mixed(r *rand.Rand, s string) (written []byte, begin int) {
	var b bytes.Buffer
	switch kind := r.IntN(5); kind {
	case 0: // JSON
		for _, c := range s {
			switch escaped := strings.ContainsRune(`"\`, c); {
			case r.IntN(2) == 0 || escaped && r.IntN(2) == 0:
				for _, u := range utf16.Encode([]rune{c}) {
					fmt.Fprintf(&b, `\u%04x`, u)
				}
			case escaped:
				fmt.Fprintf(&b, `\%c`, c)
			default:
				b.WriteRune(c)
			}
		}
	case 1, 2: // percent, quoted-printable
		sign := "%="[kind-1]
		for i, c := range []byte(s) {
			if kind == 2 && i > 0 && r.IntN(4) == 0 {
				b.WriteString([]string{"=\r\n", "=\n"}[r.IntN(2)])
			}
			if kind == 1 && c == ' ' && r.IntN(2) == 0 {
				b.WriteByte('+')
			} else if c == sign || r.IntN(2) == 0 {
				fmt.Fprintf(&b, "%c%02X", sign, c)
			} else {
				b.WriteByte(c)
			}
		}
	case 3:
		return wide(s, r.IntN(2) == 0), 0
	case 4:
		written, begin = inBase64([]*base64.Encoding{base64.StdEncoding, base64.URLEncoding}[r.IntN(2)], strings.Repeat("<", r.IntN(60)), s, 60+r.IntN(20))
		if r.IntN(2) == 0 {
			begin -= bytes.Count(written[:begin], []byte("\r"))
			written = bytes.ReplaceAll(written, []byte("\r"), nil)
		}
		return written, begin
	}
	return b.Bytes(), 0
}

func TestOnlyRegularFilesAreReadAndNoLinkIsFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "f"), mail)
	write(t, filepath.Join(dir, "own"), mail)
	for link, to := range map[string]string{"dir": outside, "file": filepath.Join(outside, "f"), "circle": dir, "nowhere": filepath.Join(dir, "gone")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if got := hits(t, dir, mail); len(got) != 1 || got[0].File != "own" {
		t.Errorf("got %+v", got)
	}
	if got := hits(t, filepath.Join(dir, "circle"), mail); len(got) != 1 {
		t.Errorf("through a link to the directory itself: got %+v", got)
	}
}

func TestFilesMayChangeGrowAndVanishMeanwhile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "z"), mail)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		var err error
		for n := 0; ctx.Err() == nil && err == nil; n++ {
			path := filepath.Join(dir, strconv.Itoa(n%50))
			switch n / 50 % 3 {
			case 0:
				err = os.WriteFile(path, make([]byte, 1000), 0o600)
			case 1:
				err = os.Truncate(path, int64(n%7*100_000))
			case 2:
				err = os.Remove(path)
			}
		}
		done <- err
	}()
	for range 40 {
		if got := hits(t, dir, mail); len(got) != 1 {
			t.Errorf("got %+v", got)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestWhatCannotBeSearchedIsAnError(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), mail)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Search(ended, dir, []string{mail}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
	if _, err := Search(t.Context(), filepath.Join(dir, "gone"), []string{mail}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	for _, s := range []string{"", "abc", "\xff\xff\xff\xff"} {
		if _, err := Search(t.Context(), dir, []string{mail, s}); err == nil || !strings.Contains(err.Error(), "text 1") {
			t.Errorf("a text of %d bytes: %v", len(s), err)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	event := fmt.Appendf(nil, `{"agencyId":"A100","contact":{"firstName":"Sample","message":"Gr\u00fcezi, ist die Wohnung noch frei?"},"n":%d}`+"\n", 1)
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	var texts []string
	for i := range 20 {
		texts = append(texts, fmt.Sprintf("%c%s%d", 'a'+i, mail, i))
	}
	for _, c := range []struct {
		of   string
		data []byte
	}{{"events", event}, {"noise", noise}, {"zeros", make([]byte, 1<<20)}, {"base64", []byte(base64.StdEncoding.EncodeToString(noise))}} {
		b.Run(c.of, func(b *testing.B) {
			dir := b.TempDir()
			data := bytes.Repeat(c.data, 32<<20/len(c.data))
			if err := os.WriteFile(filepath.Join(dir, "f"), data, 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if got, err := Search(b.Context(), dir, texts); err != nil || len(got) > 0 {
					b.Fatal(got, err)
				}
			}
		})
	}
}

func hits(t *testing.T, dir string, texts ...string) []Hit {
	t.Helper()
	got, err := Search(t.Context(), dir, texts)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func write(t *testing.T, path string, parts ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(parts, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// filler is text that cannot be compressed to almost nothing.
func filler(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = " .,0123456789"[r.IntN(13)]
	}
	return string(b)
}

// inCapitals turns ASCII letters into capitals.
func inCapitals(s string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		return c
	}, s)
}

func wide(s string, big bool) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		if big {
			b = append(b, byte(u>>8), byte(u))
		} else {
			b = append(b, byte(u), byte(u>>8))
		}
	}
	return b
}

// inBase64 writes a text behind others, in lines.
func inBase64(e *base64.Encoding, behind, s string, line int) (written []byte, begin int) {
	for i, c := range []byte(e.EncodeToString([]byte(behind + s + "!!"))) {
		if i > 0 && i%line == 0 {
			written = append(written, "\r\n"...)
		}
		if i == len(behind)*8/6 {
			begin = len(written)
		}
		written = append(written, c)
	}
	return written, begin
}

func inGzip(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}
