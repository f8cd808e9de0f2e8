package ops

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// HTTPOptions configure ServeHTTP. Where a handler is nil, nothing is found.
type HTTPOptions struct {
	Page    http.Handler // GET / and below; see AccessOf for what its reader may do. Its live stream is GET /events
	Metrics http.Handler // GET /metrics
	Schemas http.Handler // GET /schemas/…
	Health  func() Health
	Verbs   Verbs
	// Token is what has to be shown to do something, and on an address other than loopback to see the page. Empty: there is
	// none, and nothing can be done.
	Token string
	Log   *slog.Logger
}

// Limits of the server. A request is small and comes at once; an answer goes to somebody who reads it.
const (
	headerLimit  = 10 * time.Second // until the header has come
	requestLimit = 20 * time.Second // until all of it has come
	answerLimit  = 30 * time.Second // until the answer is taken, or, where that takes long, the next part of it
	idleLimit    = 2 * time.Minute
	goodbye      = 500 * time.Millisecond // for what is being answered when the server stops

	mostHeader   = 16 << 10
	mostForm     = 8 << 10
	mostCommand  = 1 << 20
	mostVisitors = 256 // connections
	mostAnswers  = 160 // of them those that are being answered at once, health and metrics apart: a probe always finds a place
	mostTails    = 48  // of these, live streams
)

// ServeHTTP serves status page, health, metrics, schemas and admin verbs at l until ctx ends, then returns nil. guard.go says
// who may do what.
func ServeHTTP(ctx context.Context, l net.Listener, o HTTPOptions) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	v := newVisitors(l, mostVisitors)
	s := &http.Server{
		Handler:           v.seenOff(httpRoutes(o, isLoopback(l.Addr()))),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState:         v.changed,
		ConnContext:       withConn,
		ReadHeaderTimeout: headerLimit, ReadTimeout: requestLimit, WriteTimeout: answerLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes:               mostHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		if s.Shutdown(limited) != nil {
			s.Close()
		}
	})
	err := s.Serve(v)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// httpRoutes is everything that is served. What is not named here is the page's, or, if it is a POST, a verb, and guarded as
// such.
func httpRoutes(o HTTPOptions, local bool) http.Handler {
	g, verbs, tails := newGuard(o.Token, local, o.Log), Handler(o.Verbs), make(chan struct{}, mostTails)
	mux := http.NewServeMux()
	mux.Handle("GET /livez", serveHealth(o.Health, false))
	mux.Handle("GET /healthz", serveHealth(o.Health, false))
	mux.Handle("GET /readyz", serveHealth(o.Health, true))
	mux.Handle("GET /metrics", there(o.Metrics)) // which shares its answer
	answers := make(chan struct{}, mostAnswers)
	for path, h := range map[string]http.Handler{
		"GET /schemas/": zipped(there(o.Schemas)),

		"GET /":        g.reads(zipped(there(o.Page))),
		"GET /events":  g.reads(patiently(endless(bounded(tails, there(o.Page))))),
		"GET /status":  g.reads(zipped(verbs)),
		"GET /outlook": g.reads(zipped(verbs)),

		"POST /session":     http.HandlerFunc(g.begin),
		"POST /session/end": http.HandlerFunc(g.end),

		"POST /actions/resume":  g.acts(told(o.Log, form(o.Verbs.resume))),
		"POST /actions/approve": g.acts(told(o.Log, form(o.Verbs.approve))),
		"POST /actions/poll":    g.acts(told(o.Log, form(o.Verbs.poll))),

		"POST /":      g.commands(told(o.Log, patiently(verbs))),
		"GET /backup": g.commands(told(o.Log, patiently(verbs))),
	} {
		mux.Handle(path, bounded(answers, h))
	}
	return withHeaders(local, mux)
}

// What the forms of the page do, with the word for what came of it.

func (v Verbs) resume(agency, insertion string) (done string, err error) {
	ended, err := v.Resume(agency, insertion)
	return either(ended > 0, "resumed", "nothalted"), err
}

func (v Verbs) approve(agency, _ string) (done string, err error) {
	held, err := v.Approve(agency)
	return either(held, "approved", "notheld"), err
}

func (v Verbs) poll(agency, _ string) (done string, err error) {
	_, err = v.Poll(agency)
	return "polled", err
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func there(h http.Handler) http.Handler {
	if h == nil {
		return http.NotFoundHandler()
	}
	return h
}

// told logs what the operator asks for.
func told(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Info("asked over HTTP", "verb", r.URL.Path, "from", origin(r).Addr().String())
		next.ServeHTTP(w, r)
	})
}

// contentPolicy lets the page use what comes from here, and nobody show it inside of something else.
const contentPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// withHeaders gives every answer what browsers should know. A handler may change what it knows better.
func withHeaders(local bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // and not no-referrer: forms would come from the origin null
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		if local { // elsewhere browsers ignore it over plain http, and complain
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
		}
		if len(r.TransferEncoding) > 0 { // who sends both lengths means two requests by one, through some proxies
			h.Set("Connection", "close")
			refuse(w, r, errChunked)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// visitors bounds the connections of a server. When there are too many, one that asks nothing gives way, the oldest first, and
// where all ask, the one that was let in first: so who holds connections open, sends a request a byte at a time, or asks and does
// not read, keeps out nobody else, least of all a probe.
type visitors struct {
	net.Listener
	most int

	mu    sync.Mutex
	all   map[net.Conn]time.Time // since when
	quiet map[net.Conn]time.Time // of them those that ask nothing, or have their answer, and since when
}

func newVisitors(l net.Listener, most int) *visitors {
	return &visitors{Listener: l, most: most, all: map[net.Conn]time.Time{}, quiet: map[net.Conn]time.Time{}}
}

// Accept waits for a visitor, and makes a place.
func (v *visitors) Accept() (net.Conn, error) {
	c, err := v.Listener.Accept()
	if err == nil {
		v.admit(c)
	}
	return c, err
}

func (v *visitors) admit(c net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.all) >= v.most {
		leaves := oldest(v.quiet)
		if leaves == nil {
			leaves = oldest(v.all)
		}
		v.forget(leaves)
		leaves.Close()
	}
	now := time.Now()
	v.all[c], v.quiet[c] = now, now
}

func oldest(of map[net.Conn]time.Time) (oldest net.Conn) {
	for c, since := range of {
		if oldest == nil || since.Before(of[oldest]) {
			oldest = c
		}
	}
	return oldest
}

func (v *visitors) forget(c net.Conn) {
	delete(v.all, c)
	delete(v.quiet, c)
}

// changed is the server's ConnState hook. A connection is active when the header of a request was read whole.
func (v *visitors) changed(c net.Conn, state http.ConnState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.all[c]; !known {
		return
	}
	switch state {
	case http.StateIdle:
		v.quiet[c] = time.Now()
	case http.StateActive:
		delete(v.quiet, c)
	case http.StateHijacked, http.StateClosed:
		v.forget(c)
	}
}

// seenOff lets who sends a body give way as soon as the answer is there: the server would wait for what is left of the body.
func (v *visitors) seenOff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok && r.ContentLength != 0 {
			v.changed(c, http.StateIdle)
		}
	})
}

type connKey struct{}

// withConn is the server's ConnContext hook.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

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
