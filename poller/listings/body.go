package listings

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// errEncoding is about one that we did not ask for.
var errEncoding = errors.New("unknown content encoding")

// rooms are used again, so that reading an answer that says nothing new costs no memory. Large ones are not kept.
var rooms = sync.Pool{New: func() any { return new(room) }}

// room is what an answer is read into.
type room struct {
	body      bytes.Buffer
	document  document
	canonical []byte // of all records
}

const largestRoom = 1 << 20

// release gives the room of an answer back: nothing may hold a part of it any more. Who goes on holding one sets room to nil.
func (x *exchange) release() {
	if x == nil || x.room == nil {
		return
	}
	if max(x.room.body.Cap(), cap(x.room.canonical), 32*cap(x.room.document.nodes)) <= largestRoom {
		x.room.body.Reset()
		x.room.canonical = x.room.canonical[:0]
		rooms.Put(x.room)
	}
	x.body, x.room = nil, nil
}

// readBody reads a body to its end, unpacked, into a buffer. It counts the bytes as they come and as they are unpacked;
// neither may be more than most.
func readBody(resp *http.Response, most int64, b *bytes.Buffer) ([]byte, error) {
	if resp.ContentLength > most {
		return nil, ErrBodyTooLarge
	}
	packed := &bounded{r: resp.Body, left: most}
	unpacked, err := unpack(packed, resp.Header)
	if err != nil {
		return nil, err
	}
	defer unpacked.Close()
	if resp.ContentLength > 0 {
		b.Grow(int(min(resp.ContentLength, 1<<20)) + bytes.MinRead)
	}
	_, err = b.ReadFrom(&bounded{r: unpacked, left: most})
	return b.Bytes(), err
}

// unpack returns a reader without content encoding, which is to be closed.
func unpack(r io.Reader, h http.Header) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ","))) {
	case "", "identity":
		return io.NopCloser(r), nil
	case "gzip", "x-gzip":
		g := gunzip{unpackers.Get().(*gzip.Reader)}
		if err := g.Reset(r); err != nil {
			_ = g.Close()
			return nil, err
		}
		return g, nil
	}
	return nil, errEncoding
}

// unpackers are used again: each takes 40 KiB.
var unpackers = sync.Pool{New: func() any { return new(gzip.Reader) }}

type gunzip struct{ *gzip.Reader }

// Close gives the unpacker back, which must not hold on to what it read from.
func (g gunzip) Close() error {
	_ = g.Reset(strings.NewReader(""))
	unpackers.Put(g.Reader)
	return nil
}

// bounded fails with ErrBodyTooLarge where io.LimitReader would pretend that the end has come.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrBodyTooLarge
	}
	return n, err
}

// mostErrorBody is how much of the body of an error answer is looked at. A longer one costs the connection.
const mostErrorBody = 64 << 10

// bodyKind looks at the body of an error answer.
func bodyKind(resp *http.Response) BodyKind {
	packed := io.LimitReader(resp.Body, mostErrorBody)
	unpacked, err := unpack(packed, resp.Header)
	if err != nil {
		return BodyOther
	}
	defer unpacked.Close()
	body, _ := io.ReadAll(io.LimitReader(unpacked, mostErrorBody)) // what can be read of it is enough to judge
	return kindOf(body, resp.Header.Get("Content-Type"))
}

func kindOf(body []byte, contentType string) BodyKind {
	body = bytes.TrimSpace(trimBOM(body))
	switch {
	case len(body) == 0:
		return BodyNone
	case json.Valid(body):
		if isChallengeJSON(body) {
			return BodyChallenge
		}
		return BodyJSON
	case body[0] == '<', strings.Contains(strings.ToLower(contentType), "html"):
		if isChallengeHTML(body) {
			return BodyChallenge
		}
		return BodyHTML
	}
	return BodyOther
}

// isChallengeJSON recognises a bot wall that answers with nothing but the address of its test.
func isChallengeJSON(body []byte) bool {
	var o map[string]any
	if json.Unmarshal(body, &o) != nil || len(o) != 1 {
		return false
	}
	_, ok := o["url"].(string)
	return ok
}

var challengeWords = []string{
	"captcha", "are you a robot", "are you human", "you are a human", "you are human", "not a robot",
	"enable javascript and cookies", "unusual traffic", "bot detection",
}

func isChallengeHTML(body []byte) bool {
	text := strings.ToLower(string(body))
	for _, w := range challengeWords {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

func trimBOM(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\uFEFF")) }
