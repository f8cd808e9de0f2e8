// Package bytesearchtest finds texts in the bytes of files, whatever the files are and whatever
// form the text has in them. Tests use it to show that something erased, or never to be written, is
// in no file.
//
// A text is found
//
//   - as UTF-8, where any of its characters may be written with an escape of JSON (\u0040, \u00fc, \/), of quoted-printable (=40, with
//     soft line breaks) or of URLs (%40, + for a space), also mixed,
//   - as UTF-16, little and big endian,
//   - in base64 of either alphabet, at each of the three alignments, also broken into lines,
//   - and as all of these in what was compressed by gzip or zlib, wherever in a file it begins, also where its end is damaged,
//     and once more within that.
//
// ASCII letters match in any case, everything else only as given. A text is not found if it was
// encrypted, compressed in another way, encoded twice (base64 of UTF-16), or cut in two, nor in the
// name of a file.
package bytesearchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Shortest is the least length of a text in bytes: a shorter one would be found anywhere.
const Shortest = 4

// A Hit is a place where a text was found. It does not hold the text.
type Hit struct {
	File     string // below the directory, with slashes
	Offset   int64  // of its first byte in the file; in compressed data, that of the first compressed byte
	Encoding string // such as utf-8, json, json+percent, utf-16le, base64, gzip+json
	Text     int    // which of the texts
}

// Search looks through all regular files below a directory and returns each place where one of the
// texts stands. It follows no symbolic link but the directory itself. Files may change, grow and
// vanish meanwhile: each is read once from its begin to its end. Memory is bounded, but for the
// hits.
//
// The error is of the context, of a text that is too short (told by its index), or of files that
// could not be read, joined; the other files are searched nevertheless, and their hits returned
// with the error.
func Search(ctx context.Context, dir string, texts []string) ([]Hit, error) {
	ix, err := compile(texts)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	var failures []error
	s := &search{ctx: ctx, index: ix, window: 1 << 20}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && !d.Type().IsRegular():
			return nil
		case err == nil:
			if s.file, err = filepath.Rel(dir, path); err == nil {
				s.file = filepath.ToSlash(s.file)
				err = s.read(path)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, err)
		}
		return ctx.Err()
	})
	return s.hits, errors.Join(append(failures, err)...)
}

// search is one run over a directory.
type search struct {
	ctx     context.Context
	index   *index
	window  int    // bytes of a file that are searched at once, and as many more are read as a text may take
	file    string // that is read
	hits    []Hit
	windows [deepest + 1][]byte
}

func (s *search) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.stream(layer{at: -1, open: func(from int64) (io.Reader, error) {
		return io.NewSectionReader(f, from, 1<<62), nil
	}}, f)
}

// layer is the bytes of a file (depth 0), or what came out of a compressed part of the layer above.
type layer struct {
	depth int
	name  string                         // how it was compressed: "gzip+", "gzip+zlib+"
	at    int64                          // where in the file that begins; at depth 0, -1
	open  func(int64) (io.Reader, error) // reads the layer from an offset on
}

// before is how much stays of what was searched already: the character of base64 before a text, and
// a line break.
const before = 3

// stream searches all that r gives, which is the layer from its begin.
func (s *search) stream(l layer, r io.Reader) error {
	size := s.window + s.index.longest
	if s.windows[l.depth] == nil {
		s.windows[l.depth] = make([]byte, size)
	}
	var (
		b     = s.windows[l.depth][:0]
		start int64 // of b in the layer
		from  int   // what lies before it in b was searched
	)
	for {
		n, err := io.ReadFull(r, b[len(b):size])
		b = b[:len(b)+n]
		to := len(b)
		if err == nil {
			to -= s.index.longest
		}
		if err := s.scan(l, b, start, from, to); err != nil {
			return err
		}
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", s.file, err)
		}
		from = min(to, before)
		cut := to - from
		start += int64(cut)
		b = b[:copy(b, b[cut:])]
	}
}

// scan searches the part of b where a text, or compressed data, may begin: from up to to.
func (s *search) scan(l layer, b []byte, start int64, from, to int) error {
	ix := s.index
	for i := from; i < min(to, len(b)-1); i++ {
		for _, c := range ix.at[int(b[i])<<8|int(b[i+1])] {
			if c.form >= gzipped {
				if l.depth < deepest {
					if err := s.member(l, c.form, b[i:], start+int64(i)); err != nil {
						return err
					}
				}
				continue
			}
			p, encoding, ok := ix.texts[c.text].match(c.form, b, i)
			if !ok {
				continue
			}
			h := Hit{File: s.file, Offset: l.at, Encoding: l.name + encoding, Text: c.text}
			if l.at < 0 {
				h.Offset = start + int64(p)
			}
			s.hits = append(s.hits, h)
		}
	}
	return nil
}
