package ops

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
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
