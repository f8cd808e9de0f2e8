package ops

import (
	"bytes"
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// readWhole takes the body of a command in, so that what then takes long is bounded by nothing but its reader. It answers itself
// if there is too much.
func readWhole(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostCommand))
	if err != nil {
		refuse(w, r, errTooLarge)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// readForm takes in what a form of ours posts, and nothing else.
func readForm(w http.ResponseWriter, r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		refuse(w, r, errNoForm)
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		refuse(w, r, errNoForm)
		return false
	}
	return true
}

// endless answers what is asked of a live stream without its body, for that has no end.
func endless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Type", "text/event-stream")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bounded lets so many be served at once.
func bounded(places chan struct{}, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "10")
			refuse(w, r, errBusy)
		}
	})
}

// patiently lets an answer take as long as somebody reads it.
func patiently(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if control.SetWriteDeadline(time.Time{}) != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(&stayingWriter{w, control}, r)
	})
}

// stayingWriter gives each part of an answer its own time.
type stayingWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *stayingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *stayingWriter) Write(p []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(answerLimit)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// Flush sends what was written.
func (w *stayingWriter) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *stayingWriter) FlushError() error {
	if err := w.control.SetWriteDeadline(time.Now().Add(answerLimit)); err != nil {
		return err
	}
	return w.control.Flush()
}

// worthZipping is from how many bytes on an answer is compressed.
const worthZipping = 1400

// zipped compresses large answers for who takes that.
func zipped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if r.Method != http.MethodGet || r.Header.Get("Range") != "" || !takesGzip(r.Header.Get("Accept-Encoding")) {
			next.ServeHTTP(w, r)
			return
		}
		z := &zipWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(z, r)
		z.finish()
	})
}

// takesGzip reads an Accept-Encoding header.
func takesGzip(header string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, quality, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			quality = strings.ReplaceAll(quality, " ", "")
			return strings.Trim(quality, "0.") != "q="
		}
	}
	return false
}

// zipWriter keeps the beginning of an answer until it is known whether it is worth compressing.
type zipWriter struct {
	http.ResponseWriter
	status int
	begun  bool // the header is out
	kept   []byte
	zip    *gzip.Writer
}

func (w *zipWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader is kept back, too.
func (w *zipWriter) WriteHeader(status int) {
	if !w.begun {
		w.status = status
	}
}

func (w *zipWriter) Write(p []byte) (int, error) {
	if !w.begun {
		if len(w.kept)+len(p) < worthZipping {
			w.kept = append(w.kept, p...)
			return len(p), nil
		}
		if err := w.begin(true); err != nil {
			return 0, err
		}
	}
	if w.zip != nil {
		return w.zip.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// begin sends the header and what was kept.
func (w *zipWriter) begin(large bool) error {
	w.begun = true
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", http.DetectContentType(w.kept))
	}
	if large && h.Get("Content-Encoding") == "" && w.status == http.StatusOK && compresses(h.Get("Content-Type")) {
		h.Del("Content-Length")
		h.Set("Content-Encoding", "gzip")
		w.zip = gzip.NewWriter(w.ResponseWriter)
	}
	w.ResponseWriter.WriteHeader(w.status)
	if len(w.kept) == 0 {
		return nil
	}
	kept := w.kept
	w.kept = nil
	_, err := w.Write(kept)
	return err
}

// Flush sends what was written.
func (w *zipWriter) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *zipWriter) FlushError() error {
	if !w.begun {
		if err := w.begin(false); err != nil {
			return err
		}
	}
	if w.zip != nil {
		if err := w.zip.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *zipWriter) finish() {
	if !w.begun {
		_ = w.begin(false) // who hung up hears nothing
	}
	if w.zip != nil {
		_ = w.zip.Close()
	}
}

// compresses reports whether what has this type becomes smaller.
func compresses(contentType string) bool {
	kind, _, _ := mime.ParseMediaType(contentType)
	switch kind {
	case "application/json", "application/schema+json", "application/javascript", "image/svg+xml", "application/yaml":
		return true
	}
	return strings.HasPrefix(kind, "text/") && kind != "text/event-stream"
}
