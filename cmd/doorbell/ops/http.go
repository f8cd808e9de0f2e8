package ops

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"golang.org/x/net/netutil"
)

// Access over HTTP:
//
//   - Health, metrics and schemas are public.
//   - With a token configured, everything else needs it, on loopback too: a reverse proxy with default settings cannot be
//     distinguished from a local client. It comes as Authorization: Bearer, or as the password of basic authentication, which
//     browsers ask for. Its holder is the operator and may do everything that the commands do over the socket, a backup and
//     the events with people's data included.
//   - Without a token, page and status are read-only and for direct requests from this machine: to a loopback address, under
//     a loopback name, without any sign of a proxy. A web page of another origin, open in a browser on this machine, is
//     refused: it arrives under another name (DNS rebinding), or the browser says that it comes from another site.

// HTTPOptions configure ServeHTTP. Where a handler is nil, nothing is found.
type HTTPOptions struct {
	Page    http.Handler // GET / and below. Its live stream is GET /events
	Metrics http.Handler // GET /metrics
	Schemas http.Handler // GET /schemas/…
	Health  func() Health
	Verbs   Verbs
	// Token is required for everything but health, metrics and schemas. Empty: there is none; the page is read-only and for
	// direct loopback requests.
	Token string
	Log   *slog.Logger
}

// Limits of the server. A request is small and comes at once; see answerLimit for answers.
const (
	headerLimit  = 10 * time.Second // until the header has come
	requestLimit = 20 * time.Second // until all of it has come
	idleLimit    = 2 * time.Minute
	goodbye      = 500 * time.Millisecond // for what is being answered when the server stops

	mostHeader      = 16 << 10
	mostForm        = 8 << 10
	mostConnections = 256
)

// ServeHTTP serves status page, health, metrics, schemas and admin verbs at l until ctx ends, then returns nil.
func ServeHTTP(ctx context.Context, l net.Listener, o HTTPOptions) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &http.Server{
		Handler:           httpRoutes(o, isLoopback(l.Addr())),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerLimit, ReadTimeout: requestLimit, IdleTimeout: idleLimit,
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
	err := s.Serve(netutil.LimitListener(l, mostConnections))
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
	g := &guard{token: sha256.Sum256([]byte(o.Token)), known: o.Token != "", local: local, log: o.Log}
	verbs := Handler(o.Verbs)
	mux := http.NewServeMux()
	mux.Handle("GET /livez", serveHealth(o.Health, false))
	mux.Handle("GET /readyz", serveHealth(o.Health, true))
	mux.Handle("GET /metrics", there(o.Metrics))
	mux.Handle("GET /schemas", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { seeOther(w, "schemas/") }))
	mux.Handle("GET /schemas/", gzhttp.GzipHandler(there(o.Schemas)))
	mux.Handle("GET /", g.reads(gzhttp.GzipHandler(there(o.Page))))
	mux.Handle("GET /events", g.reads(there(o.Page)))
	mux.Handle("GET /status", g.reads(gzhttp.GzipHandler(verbs)))
	mux.Handle("POST /actions/resume", g.acts(form(func(ctx context.Context, q AgencyRequest) (string, error) {
		a, err := o.Verbs.resume(ctx, q)
		return either(a.Ended > 0, "resumed", "nothalted"), err
	})))
	mux.Handle("POST /actions/approve", g.acts(form(func(ctx context.Context, q AgencyRequest) (string, error) {
		a, err := o.Verbs.approve(ctx, q)
		return either(a.Held, "approved", "notheld"), err
	})))
	mux.Handle("POST /actions/poll", g.acts(form(func(ctx context.Context, q AgencyRequest) (string, error) {
		_, err := o.Verbs.poll(ctx, q)
		return "polled", err
	})))
	mux.Handle("POST /", g.acts(verbs))
	mux.Handle("GET /backup", g.acts(verbs))
	return paced(withHeaders(local, mux))
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

// guard lets requests through, or answers them.
type guard struct {
	token   [sha256.Size]byte
	known   bool // there is a token
	local   bool // the server stands on a loopback address
	sameWeb http.CrossOriginProtection
	log     *slog.Logger
}

var (
	errWrongToken = errors.New("this is not the token")
	errNoToken    = errors.New("DOORBELL_HTTP_TOKEN is not set: over HTTP nothing can be done")
	errNeedsToken = errors.New("this needs the token (DOORBELL_HTTP_TOKEN): as Authorization: Bearer …, or as the password of any user")
	errNotLocal   = errors.New("without DOORBELL_HTTP_TOKEN the page answers direct requests from this machine only: use 127.0.0.1 or localhost " +
		"without a proxy, or set the token. Health, metrics and schemas are public")
	errForeign  = errors.New("the request comes from another site")
	errChunked  = errors.New("say how long the body is (Content-Length)")
	errNoAgency = errors.New("the form names no agency")
)

// operator says whether a request shows the token. One that is wrong counts for nothing less than one that is missing.
func (g *guard) operator(r *http.Request) (bool, error) {
	shown := r.Header.Values("Authorization")
	if len(shown) == 0 {
		return false, nil
	}
	if !g.known {
		return false, errNoToken
	}
	_, token, basic := r.BasicAuth()
	if !basic {
		scheme, rest, _ := strings.Cut(shown[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false, errWrongToken
		}
		token = rest
	}
	hash := sha256.Sum256([]byte(token))
	if len(shown) > 1 || subtle.ConstantTimeCompare(hash[:], g.token[:]) != 1 {
		g.log.Warn("a wrong token was shown", "from", origin(r))
		return false, errWrongToken
	}
	return true, nil
}

// origin is where a request comes from.
func origin(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// reads admits requests that may see the page and the status.
func (g *guard) reads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operator, err := g.operator(r)
		switch {
		case err != nil:
			refuse(w, r, err)
		case embedded(r):
			refuse(w, r, errForeign)
		case g.known && !operator:
			refuse(w, r, errNeedsToken)
		case !g.known && !(g.local && loopbackName(r.Host) && !proxied(r)):
			refuse(w, r, errNotLocal)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// acts lets the operator through, by commands and by the forms of our own page: a browser shows the token by itself, whoever
// makes it ask.
func (g *guard) acts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operator, err := g.operator(r)
		switch {
		case err != nil:
			refuse(w, r, err)
		case !g.known:
			refuse(w, r, errNoToken)
		case !operator:
			refuse(w, r, errNeedsToken)
		case otherSite(r), g.sameWeb.Check(r) != nil:
			refuse(w, r, errForeign)
		default:
			g.log.Info("asked over HTTP", "verb", r.URL.Path, "from", origin(r))
			next.ServeHTTP(w, r)
		}
	})
}

// otherSite reports whether a browser says that a page of another site made it ask.
func otherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// embedded reports whether a page of another site asks for what it would show or load as a part of itself. Links are no such
// thing.
func embedded(r *http.Request) bool {
	return otherSite(r) && (r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document")
}

// loopbackName reports whether a Host header names this machine. Nobody else can make a browser send such a one.
func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// proxied reports whether a request shows signs of a proxy, whose client may be anywhere. A proxy may leave none: behind one,
// a token is needed.
func proxied(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) { // nginx passes requests on as HTTP/1.0 unless configured otherwise; browsers and curl do not use it
		return true
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if len(r.Header.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// form does a verb with what a form of the page says, and leads back to the page with the word for what came of it.
func form(verb func(context.Context, AgencyRequest) (done string, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		agency := ""
		if r.ParseForm() == nil {
			agency = r.PostForm.Get("agency")
		}
		if agency == "" {
			refuse(w, r, errNoAgency)
			return
		}
		done, err := verb(r.Context(), AgencyRequest{AgencyID: agency, PropertyReferenceID: r.PostForm.Get("insertion")})
		if err != nil {
			refuse(w, r, err)
			return
		}
		home(w, done, agency)
	})
}

// home leads from an action back to the page, which says in its own words what was done, and for which agency.
func home(w http.ResponseWriter, done, agency string) {
	seeOther(w, "../?"+url.Values{"done": {done}, "agency": {agency}}.Encode())
}

// seeOther redirects to a location relative to the request's path, so that it holds below any path of a reverse proxy.
// [http.Redirect] would make it absolute.
func seeOther(w http.ResponseWriter, location string) {
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
}

// refuse answers with an error: a sentence for people, JSON for programs. A browser asks its person for the token.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	code := statusOf(err)
	if code == http.StatusUnauthorized {
		w.Header().Add("WWW-Authenticate", `Basic realm="doorbell: any user, and DOORBELL_HTTP_TOKEN as the password", charset="UTF-8"`)
		w.Header().Add("WWW-Authenticate", `Bearer realm="doorbell"`)
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "application/json")
		answer(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintf(w, "doorbell: %s.\n", Printable(err.Error()))
	if errors.Is(err, errWrongToken) {
		fmt.Fprintln(w, "Reload the page: the browser asks for a user name, which may be any, and a password, which is the value of DOORBELL_HTTP_TOKEN.")
	}
}
