package ops

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"golang.org/x/net/netutil"
)

// Access over HTTP:
//
//   - Health, metrics and schemas are public.
//   - With a token configured, everything else needs it, on loopback too: a reverse proxy with
//     default settings cannot be distinguished from a local client. It comes as Authorization:
//     Bearer, or as the password of basic authentication, which browsers ask for. Its holder sees
//     the page, the status and the feed, and may poll, resume and approve. The feed also has a
//     token of its own, which opens nothing else.
//   - Without a token, page, status and feed are for direct requests from this machine: to a
//     loopback address, under a loopback name, without any sign of a proxy. A web page of another
//     origin, open in a browser on this machine, is refused: it arrives under another name (DNS
//     rebinding), or the browser says that it comes from another site.
//
// Everything else that the commands do (a backup, an erasure, a replay) is served at the socket
// alone.

// HTTPOptions configure ServeHTTP.
type HTTPOptions struct {
	Page    http.Handler // GET / and below. Its live stream is GET /events
	Metrics http.Handler // GET /metrics
	Schemas http.Handler // GET /schemas/…
	Feed    http.Handler // GET /v1/events
	Health  func() Health
	Verbs   Verbs
	// Token is required for everything but health, metrics and schemas. Empty: there is none;
	// nothing can be done, and all that is read is for direct loopback requests.
	Token string
	// FeedToken opens the feed, as Token does. Empty: there is none.
	FeedToken string
	Log       *slog.Logger
}

// Limits of the server. A request is small and arrives complete; see answerLimit for answers.
const (
	headerLimit  = 10 * time.Second // until the header has come
	requestLimit = 20 * time.Second // until all of it has come
	idleLimit    = 2 * time.Minute

	maxHeader      = 16 << 10
	maxBody        = 8 << 10
	maxConnections = 256
)

// ServeHTTP serves status page, feed, health, metrics, schemas and the verbs of the contract at l
// until ctx ends, then returns nil.
func ServeHTTP(ctx context.Context, l net.Listener, o HTTPOptions) error {
	s := &http.Server{
		Handler:           httpRoutes(o, loopback(l.Addr().String())),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerLimit, ReadTimeout: requestLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	return serve(ctx, s, netutil.LimitListener(paced{l}, maxConnections))
}

// serve serves until ctx ends, then returns nil.
func serve(ctx context.Context, s *http.Server, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// httpRoutes is everything that is served. What is not named here is the page's.
func httpRoutes(o HTTPOptions, local bool) http.Handler {
	g := &guard{local: local, log: o.Log}
	verbs := Handler(o.Verbs)
	mux := http.NewServeMux()
	mux.Handle("GET /livez", serveHealth(o.Health, false))
	mux.Handle("GET /readyz", serveHealth(o.Health, true))
	mux.Handle("GET /metrics", o.Metrics)
	mux.HandleFunc("GET /schemas", func(w http.ResponseWriter, _ *http.Request) {
		// Relative, so that it works below any path of a reverse proxy. The mux would make it
		// absolute.
		w.Header().Set("Location", "schemas/")
		w.WriteHeader(http.StatusSeeOther)
	})
	mux.Handle("GET /schemas/", gzhttp.GzipHandler(o.Schemas))
	mux.Handle("GET /", g.admit(gzhttp.GzipHandler(o.Page), false, o.Token))
	mux.Handle("GET /events", g.admit(o.Page, false, o.Token))
	mux.Handle("GET /debug/pprof/", g.admit(http.HandlerFunc(pprof.Index), false, o.Token))
	mux.Handle("GET /debug/pprof/profile", g.admit(http.HandlerFunc(pprof.Profile), false, o.Token))
	mux.Handle("GET /v1/status", g.admit(gzhttp.GzipHandler(verbs), false, o.Token))
	mux.Handle("GET /v1/events", g.admit(o.Feed, false, o.Token, o.FeedToken))
	for _, verb := range []string{Poll.route, Resume.route, Approve.route} {
		mux.Handle(verb, g.admit(verbs, true, o.Token))
	}
	return withHeaders(mux)
}

// contentPolicy lets the page use only what comes from here, and keeps it out of frames.
const contentPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// withHeaders gives every answer what browsers should know. A handler may change what it knows
// better.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		// with both lengths, some proxies and we would see different requests
		if len(r.TransferEncoding) > 0 {
			h.Set("Connection", "close")
			refuse(w, errChunked)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var (
	errWrongToken = errors.New("invalid token")
	errNoToken    = errors.New("no token is configured for this: DOORBELL_HTTP_TOKEN is not set")
	errNeedsToken = errors.New(
		"this needs the token (DOORBELL_HTTP_TOKEN): as Authorization: Bearer …, " +
			"or as the password of any user")
	errNotLocal = errors.New(
		"without DOORBELL_HTTP_TOKEN only direct requests from this machine are served: " +
			"use 127.0.0.1 or localhost without a proxy, or set the token. Health, metrics and schemas are public")
	errForeign = errors.New("the request comes from another site")
	errChunked = errors.New("state the length of the body (Content-Length)")
)

// guard lets requests through, or answers them.
type guard struct {
	local   bool // the server listens on a loopback address
	sameWeb http.CrossOriginProtection
	log     *slog.Logger
}

// admit lets requests through that show one of the tokens. Where none is configured, what reads is
// there for direct requests from this machine, and nothing acts. A page of another site is refused
// also with the token: a browser shows it by itself, whatever page makes it ask.
func (g *guard) admit(next http.Handler, acts bool, tokens ...string) http.Handler {
	tokens = slices.DeleteFunc(tokens, func(token string) bool { return token == "" })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, err := g.shows(r, tokens)
		switch {
		case err != nil:
		case acts && len(tokens) == 0:
			err = errNoToken
		case len(tokens) > 0 && !shown:
			err = errNeedsToken
		case len(tokens) == 0 && !(g.local && loopback(r.Host) && !proxied(r)):
			err = errNotLocal
		case acts && g.sameWeb.Check(r) != nil, !acts && embedded(r):
			err = errForeign
		}
		if err != nil {
			refuse(w, err)
			return
		}
		if acts {
			g.log.Info("request over HTTP", "verb", r.URL.Path, "from", origin(r))
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		next.ServeHTTP(w, r)
	})
}

// shows reports whether a request shows one of the tokens. A wrong one is no better than a missing
// one.
func (g *guard) shows(r *http.Request, tokens []string) (bool, error) {
	shown := r.Header.Values("Authorization")
	switch {
	case len(shown) == 0:
		return false, nil
	case len(tokens) == 0:
		return false, errNoToken
	}
	_, text, ok := r.BasicAuth()
	if !ok {
		var scheme string
		scheme, text, _ = strings.Cut(shown[0], " ")
		ok = strings.EqualFold(scheme, "Bearer")
	}
	equal := 0
	for _, token := range tokens {
		equal |= subtle.ConstantTimeCompare([]byte(text), []byte(token))
	}
	if !ok || len(shown) > 1 || equal != 1 {
		g.log.Warn("a request had a wrong token", "from", origin(r))
		return false, errWrongToken
	}
	return true, nil
}

// origin is where a request comes from.
func origin(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// embedded reports whether a page of another site asks for what it would show or load as a part of
// itself. Links are no such thing.
func embedded(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") &&
		(r.Header.Get("Sec-Fetch-Mode") != "navigate" ||
			r.Header.Get("Sec-Fetch-Dest") != "document")
}

// loopback reports whether a host, with or without a port, names this machine. No other site can
// make a browser send such a Host header.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

// proxied reports whether a request shows signs of a proxy, whose client may be anywhere. A proxy
// may leave none: behind one, a token is needed.
func proxied(r *http.Request) bool {
	// as nginx passes requests on by default; browsers and curl do not use it
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	names := []string{
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
		"X-Real-Ip", "Via",
	}
	return slices.ContainsFunc(names, func(name string) bool { return len(r.Header.Values(name)) > 0 })
}

// refuse answers with an error. A browser asks its person for the token.
func refuse(w http.ResponseWriter, err error) {
	if _, code := refused(err); code == http.StatusUnauthorized {
		w.Header().Add("WWW-Authenticate",
			`Basic realm="doorbell: any user, and DOORBELL_HTTP_TOKEN as the password", charset="UTF-8"`)
		w.Header().Add("WWW-Authenticate", `Bearer realm="doorbell"`)
	}
	answer(w, 0, nil, err)
}
